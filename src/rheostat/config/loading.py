"""From a file or a mapping to settings, with every fault named at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rheostat.config.faults import faults_of
from rheostat.config.models import Settings
from rheostat.errors import Fault, InputError

__all__ = ["load_settings"]


def load_settings(given: str | Path | Mapping[str, Any]) -> Settings:
    """Settings from a YAML file (a path) or from a mapping of the same shape.

    Raises:
        InputError: with one fault for everything that is wrong, fields as dotted keys.

    >>> load_settings({"objective": "lag < 30s", "executors": [1, 20]}).mode
    'act'
    """
    values, faults = _values(given)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise InputError([*faults, *faults_of(error, Settings)]) from None
    if faults:
        raise InputError(faults)
    return settings


def _values(given: str | Path | Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Fault]]:
    if isinstance(given, Mapping):
        return given, []
    from rheostat.config.documents import read_document

    return read_document(Path(given))
