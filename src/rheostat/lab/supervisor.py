"""The long-lived process of a standing lab: holds the lab open, watches its parts, ends on SIGTERM.

Runs as ``python -m rheostat.lab.supervisor STATE_FILE NAME SPEC``. Its own guardian cleans up if it is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from rheostat.errors import RheostatError
from rheostat.lab.lab import Lab
from rheostat.lab.process import Identity
from rheostat.lab.standing import read_spec, write_state

__all__ = ["main"]

_LOOK_EVERY_S = 1.0


class _Ended(BaseException):
    """We were asked to end."""


def _end(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ended


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def main(file: Path, name: str, spec: str) -> int:
    """Hold a lab open until SIGTERM (0) or until a part dies (1, with the reason in the state file)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    own = Identity.of(os.getpid()) or Identity(os.getpid(), 0.0)
    state: dict[str, Any] = {"name": name, "state": "starting", "message": None, "bootstrap": None, "master": None}
    state |= {"web_ui": None, "folder": None, "supervisor": _identity(own), "parts": []}
    write_state(file, state)
    try:
        with Lab(read_spec(spec), say=_say) as lab:
            state |= _describe(lab)
            write_state(file, state)
            while True:
                lab.check()
                time.sleep(_LOOK_EVERY_S)
    except _Ended:
        return 0
    except RheostatError as error:
        _say(str(error))
        write_state(file, {**state, "state": "failed", "message": str(error)})
        return 1


def _identity(identity: Identity) -> dict[str, Any]:
    return {"pid": identity.pid, "created": identity.created}


def _describe(lab: Lab) -> dict[str, Any]:
    parts = [{"name": part.name, **_identity(part.identity), "log": str(part.log)} for part in lab.parts]
    kafka = {"bootstrap": lab.broker.bootstrap} if lab.spec.broker else {}
    spark = {"master": lab.cluster.url, "web_ui": lab.cluster.web_url} if lab.spec.spark else {}
    return {"state": "up", "folder": str(lab.folder), "parts": parts, **kafka, **spark}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
