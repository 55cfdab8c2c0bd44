"""Secrets: from a file or the environment, never from a command line or a settings file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rheostat.errors import Fault, InputError
from rheostat.files import read_text, reason_of

__all__ = ["TOKEN_VARIABLE", "read_token"]

TOKEN_VARIABLE = "RHEOSTAT_NODE_TOKEN"  # noqa: S105
"""Environment variable with the token of the node servers; a file goes before it."""

_SHORTEST = 16
_MOST_BYTES = 4096


def read_token(file: Path | None, field: str, environ: Mapping[str, str]) -> str | None:
    """The token of the node servers; None: there is none.

    Args:
        file: that it stands in; None: the environment has it.
        field: what the file is called in a fault.
        environ: the environment.

    Raises:
        InputError: the file cannot be read, or the token is too short or has characters that no header takes.
    """
    token = environ.get(TOKEN_VARIABLE, "")
    if file is not None:
        try:
            token = read_text(file, _MOST_BYTES).strip()
        except (OSError, ValueError) as error:
            message = f"the file cannot be read: {reason_of(error)}"
            raise InputError([Fault(field, str(file), "a file with the token", message)]) from None
    if (token or file is not None) and (len(token) < _SHORTEST or not re.fullmatch(r"[!-~]+", token)):
        allowed = f"at least {_SHORTEST} printable ASCII characters without spaces"
        message = "this is no token that keeps anybody out"
        named = TOKEN_VARIABLE if file is None else field
        raise InputError([Fault(named, f"{len(token)} characters", allowed, message)])
    return token or None
