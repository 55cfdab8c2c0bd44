"""Labs that outlive the command that started them: each has a supervisor process and a state file."""

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
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import TypeAdapter

from rheostat.errors import Fault, InputError, PartFailedError, RheostatError, UnavailableError
from rheostat.files import lock_file, replace_text
from rheostat.host.java import Say, cache_folder, quiet, require_writable
from rheostat.host.processes import Identity, module_command, module_environment
from rheostat.host.spark_daemons import ask_daemon
from rheostat.lab.broker import ask_broker, quiet_client
from rheostat.lab.lab import Lab, LabSpec

SCHEMA = "rheostat.lab/1"

_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.1
_CHECK_INTERVAL_S = 1.0

State = dict[str, Any]

SPEC = TypeAdapter(LabSpec)
"""The specification as JSON, for the supervisor."""

_started: list[subprocess.Popen[bytes]] = []
"""Supervisors started by this process, so that those that ended can be reaped."""


def up(name: str, spec: LabSpec, say: Say = quiet) -> State:
    """Start a lab in the background and wait until every part answers.

    Raises:
        InputError: a lab of this name is up; or as :meth:`Lab.start`.
        PartFailedError: it did not start; nothing is left running.
    """
    place = _find_place(name)
    with lock_file(place / f".{name}.lock", wait=True):
        state = _read_state(place, name)
        if state is not None and _identity(state["supervisor"]).running():
            message = f"lab {name} is up already: use it, end it with `rheostat lab down --name {name}`"
            raise InputError([Fault("--name", name, "a name that is not in use", message)])
        spec = replace(spec, folder=spec.folder.absolute() if spec.folder else None)
        Lab(spec, say=say).prepare()
        say(f"Starting lab {name}")
        return _start_supervisor(place, name, spec)


def status(name: str) -> State:
    """Query every part of a lab.

    Returns:
        The state with ``state`` = ``up`` (every part answers), ``ailing`` (one does not), ``failed`` (it ended
        unexpectedly) or ``down`` (there is none), and ``answers`` for each part.
    """
    state = _read_state(_find_place(name), name)
    if state is None:
        return {"schema": SCHEMA, "name": name, "state": "down", "parts": []}
    if state["state"] == "failed" or not _identity(state["supervisor"]).running():
        message = state.get("message") or "its supervisor has died"
        return {
            **state,
            "state": "failed",
            "message": message,
            "parts": [_mark_ended(part) for part in state["parts"]],
        }
    parts = [_query_part(part, state) for part in state["parts"]]
    return {**state, "state": "up" if all(part["answers"] for part in parts) else "ailing", "parts": parts}


def down(name: str) -> State:
    """Stop a lab and confirm that its processes are gone.

    Raises:
        InputError: there is no lab of this name.
        PartFailedError: a process could not be ended.
    """
    place = _find_place(name)
    with lock_file(place / f".{name}.lock", wait=True):
        state = _read_state(place, name)
        if state is None:
            names = sorted(file.stem for file in place.glob("*.json"))
            raise InputError([Fault("--name", name, ", ".join(names) or "none is up", "no such lab")])
        _end_supervisor(_identity(state["supervisor"]))
        _reap()
        for part in state["parts"]:
            if not _wait_for_end(_identity(part)):
                message = f"process {part['pid']} does not end"
                raise PartFailedError(part["name"], message)
        (place / f"{name}.json").unlink(missing_ok=True)
    return {"schema": SCHEMA, "name": name, "state": "down", "parts": [_mark_ended(part) for part in state["parts"]]}


def write_state(file: Path, state: Mapping[str, Any]) -> None:
    replace_text(file, json.dumps({"schema": SCHEMA, **state}, indent=1))


def _find_place(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
        raise InputError([Fault("--name", name, "letters, digits, - and _, at most 41", "this is no name for a lab")])
    return require_writable(cache_folder() / "labs", "RHEOSTAT_CACHE")


def _read_state(place: Path, name: str) -> State | None:
    try:
        state: State = json.loads((place / f"{name}.json").read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        message = f"{place / f'{name}.json'} is damaged: end the processes that it may have left, and remove it"
        raise InputError([Fault("--name", name, "a lab whose state can be read", message)]) from None
    return state


def _identity(described: State) -> Identity:
    return Identity(described["pid"], described["created"])


def _start_supervisor(place: Path, name: str, spec: LabSpec) -> State:
    file, log = place / f"{name}.json", place / f"{name}.log"
    file.unlink(missing_ok=True)
    command = module_command("rheostat.lab.standing", str(file), name, SPEC.dump_json(spec).decode())
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
        return _wait_until_up(process, place, name)
    except BaseException:
        process.terminate()
        process.wait()
        _reap()
        file.unlink(missing_ok=True)
        raise


def _wait_until_up(process: subprocess.Popen[bytes], place: Path, name: str) -> State:
    def is_settled() -> bool:
        return process.poll() is not None or (_read_state(place, name) or {}).get("state") in ("up", "failed")

    in_time = _wait_until(is_settled, _START_TIMEOUT_S)
    state = _read_state(place, name)
    if state is not None and state["state"] == "up":
        return state
    message = "did not start" if in_time else f"did not start within {_START_TIMEOUT_S:.0f} s"
    tail = (state or {}).get("message") or (place / f"{name}.log").read_text(errors="replace")[-4000:]
    part = f"lab {name}"
    raise PartFailedError(part, message, tail)


def _end_supervisor(supervisor: Identity) -> None:
    """SIGTERM, then SIGKILL; in the second case its guardian ends the parts."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if supervisor.running():
            os.kill(supervisor.pid, number)
            _wait_for_end(supervisor)


def _reap() -> None:
    _started[:] = [process for process in _started if process.poll() is None]


def _wait_for_end(identity: Identity) -> bool:
    return _wait_until(lambda: not identity.running(), _STOP_TIMEOUT_S)


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _mark_ended(part: State) -> State:
    return {**part, "alive": _identity(part).running(), "answers": False}


def _query_part(part: State, state: State) -> State:
    alive = _identity(part).running()
    return {**part, "alive": alive, "answers": alive and _answers(part["name"], state)}


def _answers(part: str, state: State) -> bool:
    if part == "broker":
        return ask_broker(quiet_client(state["bootstrap"]), timeout_s=3.0)
    try:
        master = ask_daemon(state["web_ui"])
        if part == "master":
            return bool(master["status"] == "ALIVE")
        workers = master["workers"]
        pages = [each["webuiaddress"] for each in workers if (each["id"], each["state"]) == (part, "ALIVE")]
        return any(ask_daemon(page)["id"] == part for page in pages)
    except UnavailableError:
        return False


# The supervisor: holds a lab open, watches its parts, ends on SIGTERM


class _TerminatedError(BaseException):
    """SIGTERM was received."""


def _terminate(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _TerminatedError


def _print(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def main(file: Path, name: str, spec: str) -> int:
    """Hold a lab open until SIGTERM (0) or until a part dies (1, with the reason in the state file)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate)
    own = Identity.of(os.getpid()) or Identity(os.getpid(), 0.0)
    state: State = {"name": name, "state": "starting", "message": None, "bootstrap": None, "master": None}
    state |= {"web_ui": None, "folder": None, "supervisor": asdict(own), "parts": []}
    write_state(file, state)
    try:
        with Lab(SPEC.validate_json(spec), say=_print) as lab:
            state |= _describe_lab(lab)
            write_state(file, state)
            while True:
                lab.check()
                time.sleep(_CHECK_INTERVAL_S)
    except _TerminatedError:
        return 0
    except RheostatError as error:
        _print(str(error))
        write_state(file, {**state, "state": "failed", "message": str(error)})
        return 1


def _describe_lab(lab: Lab) -> State:
    parts = [{"name": part.name, **asdict(part.identity), "log": str(part.log)} for part in lab.parts]
    kafka = {"bootstrap": lab.broker.bootstrap} if lab.spec.broker else {}
    spark = {"master": lab.cluster.url, "web_ui": lab.cluster.web_url} if lab.spec.spark else {}
    return {"state": "up", "folder": str(lab.folder), "parts": parts, **kafka, **spark}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
