"""Load settings from a YAML file or a mapping, and report all faults at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from rheostat.config.faults import validate
from rheostat.config.models import Settings
from rheostat.errors import Fault, InputError
from rheostat.files import read_text, reason_of


def load_settings(given: str | Path | Mapping[str, Any]) -> Settings:
    """Settings from a YAML file (a path) or from a mapping of the same shape.

    Raises:
        InputError: all faults, fields as dotted keys.

    >>> load_settings({"objective": "lag < 30s", "executors": [1, 20]}).mode
    'act'
    """
    values, faults = (given, []) if isinstance(given, Mapping) else read_document(given)
    return validate(Settings, values, faults)


# YAML: safe values only, every key at most once


NOT_YAML = (yaml.YAMLError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""Errors of the YAML library for invalid text; dates, numbers and tags each raise their own."""

_MOST_BYTES = 2**20


class _Loader(yaml.SafeLoader):
    """A safe loader that reports duplicate keys, of which PyYAML takes the last."""

    def __init__(self, stream: str, where: str = "") -> None:
        super().__init__(stream)
        self.faults: list[Fault] = []
        self.where = where

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node; errors of Python, such as for 30 February, get their position."""
        try:
            return super().construct_object(node, deep=deep)
        except NOT_YAML as error:
            if isinstance(error, yaml.YAMLError | RecursionError):
                raise
            raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from None


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
        here = f"{loader.where}line {line}"
        if not isinstance(key, str):
            loader.faults.append(Fault(str(key), repr(key), "a name", f"{here}: a key must be a name"))
            continue
        if key in seen:
            message = f"{here}: given again, first in line {seen[key]}"
            loader.faults.append(Fault(key, f"line {line}", "each key once", message))
        seen.setdefault(key, line)
    return {key: value for key, value in loader.construct_mapping(node, deep=True).items() if isinstance(key, str)}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+$"), [*"-+.0123456789"]
)
"""Numbers like 1e6, as YAML 1.2 has them (10.3.2, core schema); by YAML 1.1, which the library reads, they are text."""


def read_document(path: str | Path) -> tuple[dict[str, Any], list[Fault]]:
    """The mapping in a YAML or JSON file, and the faults of its keys.

    Raises:
        InputError: the file cannot be read, is not YAML, or holds something else than a mapping.
    """
    text = _read(Path(path), _MOST_BYTES, str(path), "a readable text file")
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON may be indented by tabs, which YAML refuses
    try:
        loader = _Loader(text, f"{path}, ")
        document = loader.get_single_data()
    except NOT_YAML as error:
        where, what = _place_of(error, text)
        message = f"the file is not readable as YAML: {what}"
        raise InputError([Fault(str(path), where, "YAML", message)]) from None
    if document is None:
        return {}, loader.faults
    if not isinstance(document, dict):
        raise InputError([Fault(str(path), type(document).__name__, "keys with values", "the file holds no settings")])
    return document, loader.faults


def _place_of(error: Exception, text: str) -> tuple[str, str]:
    """The line of an error, and the message with the line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line, column = error.problem_mark.line + 1, error.problem_mark.column + 1
        message = f"line {line}, column {column}: {error.problem or 'it is not understood'}"
        if error.context and error.context_mark is not None:
            message += f", {error.context} that begins in line {error.context_mark.line + 1}"
        return f"line {line}", message
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return f"line {line}", f"line {line}: a character that YAML does not allow (U+{ord(text[error.position]):04X})"
    if isinstance(error, RecursionError):
        return "the file", "it is nested too deeply"
    return "the file", " ".join(str(error).split())


def read_pair(text: str) -> tuple[str, Any]:
    """A dotted key and its YAML value, from ``KEY=VALUE``.

    Raises:
        NOT_YAML: one of these, where a name is missing in the key or the value is not YAML.

    >>> read_pair("guard.cooldown_down_s = 120"), read_pair("job.sink.records_per_s=1e6")
    (('guard.cooldown_down_s', 120), ('job.sink.records_per_s', 1000000.0))
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")):
        raise ValueError(text)
    loader = _Loader(value)
    found = loader.get_single_data()
    if loader.faults:
        raise ValueError(text)
    return key, found


def read_pairs(texts: Iterable[str], faults: list[Fault], what: str = "setting") -> list[tuple[str, Any]]:
    """The keys and values of ``--set`` options, in order; invalid ones join the faults. ``what``: their name."""
    pairs = []
    for text in texts:
        try:
            pairs.append(read_pair(text))
        except NOT_YAML:
            faults.append(Fault("--set", text, "KEY=VALUE with a YAML value", f"the {what} is not understood"))
    return pairs


def _read(file: Path, most_bytes: int, field: str, allowed: str) -> str:
    try:
        return read_text(file, most_bytes)
    except (OSError, ValueError) as error:
        message = f"the file cannot be read: {reason_of(error)}"
        raise InputError([Fault(field, str(file), allowed, message)]) from None


# Secrets: from a file or the environment, never from a command line or a settings file


TOKEN_VARIABLE = "RHEOSTAT_NODE_TOKEN"  # noqa: S105
"""Environment variable with the token of the node servers; a file overrides it."""

_SHORTEST = 16
_SECRET_MOST_BYTES = 4096


def read_token(file: Path | None, field: str, environ: Mapping[str, str]) -> str | None:
    """The token of the node servers from a file or else the environment; None if there is none.

    Raises:
        InputError: the file (``field`` in faults) cannot be read, or the token is too short or has characters that are
            invalid in a header.
    """
    token = environ.get(TOKEN_VARIABLE, "")
    if file is not None:
        token = _read(file, _SECRET_MOST_BYTES, field, "a file with the token").strip()
    if (token or file is not None) and (len(token) < _SHORTEST or not re.fullmatch(r"[!-~]+", token)):
        allowed = f"at least {_SHORTEST} printable ASCII characters without spaces"
        message = "the token is too weak"
        named = TOKEN_VARIABLE if file is None else field
        raise InputError([Fault(named, f"{len(token)} characters", allowed, message)])
    return token or None
