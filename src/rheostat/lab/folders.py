"""Where things are kept between runs, and whether there is room for a run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rheostat.errors import Fault, InputError

__all__ = ["Say", "cache_folder", "quiet", "require_room", "require_writable"]

Say = Callable[[str], None]
"""Takes one sentence for people. Library code never prints."""


def quiet(_sentence: str) -> None:
    """A :data:`Say` that says nothing."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The user's cache: ``RHEOSTAT_CACHE``, else ``XDG_CACHE_HOME/rheostat``, else ``~/.cache/rheostat``.

    The same on macOS, where command-line tools keep to ``~/.cache`` too.
    """
    env = os.environ if environ is None else environ
    if own := env.get("RHEOSTAT_CACHE"):
        return Path(own).expanduser().absolute()
    if shared := env.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser().absolute() / "rheostat"
    return Path.home() / ".cache" / "rheostat"


def require_writable(folder: Path, field: str) -> Path:
    """Make the folder if needed and write a file in it.

    Raises:
        InputError: that is not possible (permissions, a file in the way, a full disk).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
    except OSError as error:
        message = f"cannot write to this folder: {error.strerror or error}"
        raise InputError([Fault(field, str(folder), "a folder that can be written to", message)]) from error
    return folder


def require_room(folder: Path, *, disk_mb: int, memory_mb: int) -> None:
    """Check that a run has room, before anything is started.

    Args:
        folder: where data will be written; must exist.
        disk_mb: free disk space wanted, in MB.
        memory_mb: available memory wanted, in MB.

    Raises:
        InputError: with one fault for each of the two that is short, and the figures.
    """
    import psutil

    faults = []
    free_mb = shutil.disk_usage(folder).free // 1_000_000
    if free_mb < disk_mb:
        message = f"{free_mb} MB of disk are free in {folder}, {disk_mb} MB are needed: free some or choose another"
        faults.append(Fault("disk", f"{free_mb} MB", f">= {disk_mb} MB", message))
    available_mb = psutil.virtual_memory().available // 1_000_000
    if available_mb < memory_mb:
        message = f"{available_mb} MB of memory are available, {memory_mb} MB are needed: close other programs"
        faults.append(Fault("memory", f"{available_mb} MB", f">= {memory_mb} MB", message))
    if faults:
        raise InputError(faults)
