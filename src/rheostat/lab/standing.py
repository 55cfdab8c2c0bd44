"""Labs that go on after the command that started them: each has a supervisor process and a state file."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from rheostat.errors import Fault, InputError, PartFailedError, RheostatError, UnavailableError
from rheostat.files import lock_file, replace_text
from rheostat.host.java import Say, cache_folder, quiet, require_writable
from rheostat.host.processes import Identity, module_command, module_environment
from rheostat.host.spark_daemons import WorkerSize, ask_daemon
from rheostat.lab.broker import ask_broker, quiet_client
from rheostat.lab.lab import Lab, LabSpec

SCHEMA = "rheostat.lab/1"

_UP_TIMEOUT_S = 180.0
_DOWN_TIMEOUT_S = 30.0
_ASK_TIMEOUT_S = 3.0
_POLL_S = 0.1

State = dict[str, Any]

_started: list[subprocess.Popen[bytes]] = []
"""Supervisors that this process started and that outlive it; kept so that ended ones can be reaped."""


def up(name: str, spec: LabSpec, say: Say = quiet) -> State:
    """Start a lab in the background and wait until every part answers.

    Raises:
        InputError: a lab of this name is up, or what :meth:`Lab.start` finds.
        PartFailedError: it did not come up; nothing is left running.
    """
    place = _place(name)
    with lock_file(place / f".{name}.lock", wait=True):
        known = _read(place, name)
        if known is not None and _supervisor(known).running():
            message = f"lab {name} is up already: use it, end it with `rheostat lab down --name {name}`"
            raise InputError([Fault("--name", name, "a name that is not in use", message)])
        spec = replace(spec, folder=spec.folder.absolute() if spec.folder else None)
        Lab(spec, say=say).prepare()
        say(f"Starting lab {name}")
        return _start(place, name, spec)


def status(name: str) -> State:
    """Ask every part of a lab.

    Returns:
        The state with ``state`` = ``up`` (every part answers), ``ailing`` (one does not), ``failed`` (it has ended by
        itself) or ``down`` (there is none), and ``answers`` for each part.
    """
    state = _read(_place(name), name)
    if state is None:
        return {"schema": SCHEMA, "name": name, "state": "down", "parts": []}
    if state["state"] == "failed" or not _supervisor(state).running():
        message = state.get("message") or "its supervisor has died"
        return {**state, "state": "failed", "message": message, "parts": [_ended(part) for part in state["parts"]]}
    parts = [{**part, **_ask(part, state)} for part in state["parts"]]
    return {**state, "state": "up" if all(part["answers"] for part in parts) else "ailing", "parts": parts}


def down(name: str) -> State:
    """Stop a lab and confirm that its processes are gone.

    Raises:
        InputError: there is no lab of this name.
        PartFailedError: a process could not be ended.
    """
    place = _place(name)
    with lock_file(place / f".{name}.lock", wait=True):
        state = _read(place, name)
        if state is None:
            raise InputError([Fault("--name", name, ", ".join(_names(place)) or "none is up", "no such lab")])
        _end(_supervisor(state))
        _reap()
        for part in state["parts"]:
            identity = Identity(part["pid"], part["created"])
            if not _until(partial(_gone, identity), _DOWN_TIMEOUT_S):
                message = f"process {identity.pid} does not end"
                raise PartFailedError(part["name"], message)
        (place / f"{name}.json").unlink(missing_ok=True)
    return {"schema": SCHEMA, "name": name, "state": "down", "parts": [_ended(part) for part in state["parts"]]}


def write_state(file: Path, state: Mapping[str, Any]) -> None:
    """Replace a state file in one step."""
    replace_text(file, json.dumps({"schema": SCHEMA, **state}, indent=1))


def read_spec(text: str) -> LabSpec:
    """The specification as the supervisor gets it, from JSON."""
    values = json.loads(text)
    folder = values.pop("folder")
    return LabSpec(**{**values, "size": WorkerSize(**values["size"]), "folder": Path(folder) if folder else None})


def _place(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
        raise InputError([Fault("--name", name, "letters, digits, - and _, at most 41", "this is no name for a lab")])
    return require_writable(cache_folder() / "labs", "RHEOSTAT_CACHE")


def _names(place: Path) -> list[str]:
    return sorted(file.stem for file in place.glob("*.json"))


def _read(place: Path, name: str) -> State | None:
    try:
        state: State = json.loads((place / f"{name}.json").read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        message = f"{place / f'{name}.json'} is damaged: end what it may have left running, and remove it"
        raise InputError([Fault("--name", name, "a lab whose state can be read", message)]) from None
    return state


def _supervisor(state: State) -> Identity:
    return Identity(state["supervisor"]["pid"], state["supervisor"]["created"])


def _start(place: Path, name: str, spec: LabSpec) -> State:
    file, log = place / f"{name}.json", place / f"{name}.log"
    file.unlink(missing_ok=True)
    command = module_command("rheostat.lab.standing", str(file), name, json.dumps(asdict(spec), default=str))
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=module_environment(),
            start_new_session=True,
        )
    _started.append(process)
    try:
        return _await(process, place, name)
    except BaseException:
        process.terminate()
        process.wait()
        _reap()
        file.unlink(missing_ok=True)
        raise


def _await(process: subprocess.Popen[bytes], place: Path, name: str) -> State:
    def settled() -> bool:
        return process.poll() is not None or (_read(place, name) or {}).get("state") in ("up", "failed")

    in_time = _until(settled, _UP_TIMEOUT_S)
    state = _read(place, name)
    if state is not None and state["state"] == "up":
        return state
    message = "did not come up" if in_time else f"did not come up within {_UP_TIMEOUT_S:.0f} s"
    tail = (state or {}).get("message") or (place / f"{name}.log").read_text(errors="replace")[-4000:]
    part = f"lab {name}"
    raise PartFailedError(part, message, tail)


def _end(supervisor: Identity) -> None:
    """Politely, then by force; its guardian ends the parts in the second case."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if supervisor.running():
            os.kill(supervisor.pid, number)
            _until(partial(_gone, supervisor), _DOWN_TIMEOUT_S)


def _reap() -> None:
    _started[:] = [process for process in _started if process.poll() is None]


def _gone(identity: Identity) -> bool:
    return not identity.running()


def _until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _ended(part: State) -> State:
    return {**part, "alive": Identity(part["pid"], part["created"]).running(), "answers": False}


def _ask(part: State, state: State) -> State:
    alive = Identity(part["pid"], part["created"]).running()
    return {"alive": alive, "answers": alive and _answers(part["name"], state)}


def _answers(part: str, state: State) -> bool:
    if part == "broker":
        return ask_broker(quiet_client(state["bootstrap"]), _ASK_TIMEOUT_S)
    try:
        seen = ask_daemon(state["web_ui"])
        if part == "master":
            return bool(seen["status"] == "ALIVE")
        pages = [
            worker["webuiaddress"] for worker in seen["workers"] if (worker["id"], worker["state"]) == (part, "ALIVE")
        ]
        return any(ask_daemon(page)["id"] == part for page in pages)
    except UnavailableError:
        return False


# The long-lived process of a standing lab: holds the lab open, watches its parts, ends on SIGTERM.


_LOOK_EVERY_S = 1.0


class _Ended(BaseException):
    """We were asked to end."""


def _end_supervised(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ended


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def main(file: Path, name: str, spec: str) -> int:
    """Hold a lab open until SIGTERM (0) or until a part dies (1, with the reason in the state file)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_supervised)
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
