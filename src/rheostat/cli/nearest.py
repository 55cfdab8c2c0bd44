"""What may have been meant by a command that there is not: another group's, a mistyped one, or a file."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rheostat.errors import Fault

__all__ = ["meant", "unknown_command"]

_UNKNOWN = re.compile(r"No such command '(.*)'\.", re.DOTALL)

_OF_FILES = {
    ".yaml": "config check {}",
    ".yml": "config check {}",
    ".py": "run {}",
    ".jsonl": "explain {}",
    ".csv": "simulate --trace {}",
}
"""What is done with a file by the ending of its name."""

_ALIKE = {
    "version": "--version",
    "start": "lab up",
    "stop": "lab down",
    "validate": "config check",
    "verify": "config check",
    "lint": "config check",
    "settings": "config reference",
    "why": "explain",
    "journal": "explain",
}
"""What other programs call it, and what it is here."""

_MOST = 4


def unknown_command(error: Any, arguments: Sequence[str]) -> Fault | None:
    """The fault of a usage error that is an unknown command, with what may be meant; None: it is another error."""
    found = _UNKNOWN.match(error.format_message() or "")
    if found is None or error.ctx is None:
        return None
    here = error.ctx.command_path.split()[1:]
    near = meant(found[1], here, commands_in(error.ctx.find_root().command))
    hint = f"; did you mean: {' | '.join(f'rheostat {each}' for each in near)}" if near else ""
    allowed = f"{' | '.join(error.ctx.command.commands)}; see: {error.ctx.command_path} --help"
    return Fault("command line", shlex.join(arguments), allowed, f"there is no command {found[1]!r}{hint}")


def commands_in(group: Any) -> list[str]:
    """Every command of a group and of the groups in it, with the way to it."""
    inside: Mapping[str, Any] = getattr(group, "commands", {})
    return [
        f"{name} {below}" if below else name for name, each in inside.items() for below in (commands_in(each) or [""])
    ]


def meant(given: str, here: Sequence[str], commands: Sequence[str]) -> list[str]:
    """What may be meant, the likeliest first, at most four.

    Args:
        given: what is no command.
        here: the group in which it was looked for.
        commands: all there are.

    >>> meant("check", [], ["config check", "lab start"]), meant("sim", [], ["simulate", "tune"])
    (['config check'], ['simulate'])
    >>> meant("job.yaml", ["config"], ["config check"]), meant("app.py", [], ["run"])
    (['config check job.yaml'], ['run app.py'])
    """
    if given == "help":
        return [" ".join([*here, "--help"])]
    if given in _ALIKE:
        return [_ALIKE[given]]
    file = _with_file(given, here)
    if file is not None:
        return [file]
    near = dict.fromkeys(_close(given, commands))
    return sorted(near, key=lambda command: command.split()[: len(here)] != list(here))[:_MOST]


def _with_file(given: str, here: Sequence[str]) -> str | None:
    """The command for a file; None: it is none."""
    path = Path(given)
    if list(here) == ["config"] and ("." in given or "/" in given or path.exists()):
        return f"config check {shlex.quote(given)}"
    if path.is_dir():
        return f"explain {shlex.quote(given)}"
    done = _OF_FILES.get(path.suffix.lower())
    return None if done is None else done.format(shlex.quote(given))


def _close(given: str, commands: Sequence[str]) -> Iterator[str]:
    """Commands of which a word is it, then begins with it, then is like it."""
    words = {command: command.split() for command in commands}
    yield from (command for command in commands if given in words[command])
    if len(given) > 1:
        yield from (command for command in commands if any(word.startswith(given) for word in words[command]))
    every = {word for several in words.values() for word in several}
    for close in difflib.get_close_matches(given, sorted(every), n=2):
        yield from (command for command in commands if close in words[command])
