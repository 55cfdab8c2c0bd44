"""The state snapshot beside a journal: what a controller must still know after a crash."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rheostat.errors import JournalError

__all__ = ["STATE_SCHEMA", "StateStore"]

STATE_SCHEMA = "rheostat.state/1"


class StateStore:
    """One JSON file, replaced as a whole: a reader sees the old state or the new one, never half of one.

    Attributes:
        path: the file.
        kind: what the state belongs to (policy and its options); a state of another kind is not taken over.
    """

    def __init__(self, path: str | Path, kind: str) -> None:
        self.path = Path(path)
        self.kind = kind

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the snapshot; it is on disk when this returns.

        Raises:
            JournalError: it could not be written; the old one is still there.
        """
        fresh = self.path.with_name(f".{self.path.name}-{os.getpid()}")
        try:
            text = json.dumps({"schema": STATE_SCHEMA, "kind": self.kind, "state": state}, allow_nan=False)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with fresh.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
        except (OSError, TypeError, ValueError) as error:
            with contextlib.suppress(OSError):
                fresh.unlink()
            message = f"the state {self.path} cannot be written: {error}"
            raise JournalError(message) from error

    def load(self) -> tuple[Mapping[str, Any] | None, str | None]:
        """The snapshot, and why there is none although there is a file (None: there is no file, or all is well)."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["schema"] != STATE_SCHEMA:
                return None, f"{self.path} has the schema {data['schema']!r}, not {STATE_SCHEMA!r}"
            if data["kind"] != self.kind:
                return None, f"{self.path} belongs to {data['kind']}, not to {self.kind}"
            state = data["state"]
        except FileNotFoundError:
            return None, None
        except (OSError, ValueError, KeyError, TypeError) as error:
            return None, f"{self.path} cannot be read ({type(error).__name__}: {error})"
        if not isinstance(state, dict):
            return None, f"{self.path} holds no state"
        return state, None
