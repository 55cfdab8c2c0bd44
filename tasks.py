"""Every chore of this project, for people and for CI. Needs nothing but Python 3.11 or newer.

    python3 tasks.py demo       set up, then run the live demo on a real Kafka and a real Spark
    python3 tasks.py test       set up, then run every test
    python3 tasks.py --help     the other chores

The environment is made in ``.venv`` (or where RHEOSTAT_VENV points) from the pinned, hashed files in
``requirements/``, and made again when those change. When only ``pyproject.toml`` changed, the package is
installed again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent
VENV = Path(os.environ.get("RHEOSTAT_VENV", ROOT / ".venv")).resolve()
BUILD_LOCK = ROOT / "requirements" / "build.lock"
DEV_LOCK = ROOT / "requirements" / "dev.lock"
PROJECT = ROOT / "pyproject.toml"
NEEDED_FREE_MB = 3000
ON_ALL_CORES = ("-n", "auto", "--dist", "worksteal")
"""For pytest. Neighbours stay in one process, as many of them look at the same simulated run, which it keeps."""
INTERRUPTED = 2
"""Exit code of pytest after Ctrl-C."""
PATIENT_S = 1800
"""Longest time of a test that gets only the time that others leave idle."""


def main(argv: Sequence[str]) -> int:
    """Run one chore; what follows its name is handed to the tool behind it."""
    if sys.version_info < (3, 11):
        sys.exit(f"Rheostat needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    width = max(map(len, CHORES))
    listing = "\n".join(f"  {name:<{width}}  {(chore.__doc__ or '').splitlines()[0]}" for name, chore in CHORES.items())
    parser.epilog = f"chores:\n{listing}"
    parser.add_argument("chore", nargs="?", choices=CHORES, metavar="CHORE")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="handed on")
    given = parser.parse_args(argv)
    if given.chore is None:
        parser.error(f"name a chore: {', '.join(CHORES)}")
    return CHORES[given.chore](given.rest)


def setup(rest: Sequence[str] = ()) -> int:
    """Make the environment with everything in it, pinned; again after a change of the entry points."""
    del rest
    status = _prepare()
    if status == 0:
        print(f"Ready: {_tool('rheostat')}")
    return status


def demo(rest: Sequence[str]) -> int:
    """Run `rheostat demo` (the live run: load, pipeline, cluster, autoscaler, report)."""
    return _prepare() or _call([_tool("rheostat"), "demo", *rest])


def test(rest: Sequence[str]) -> int:
    """Run every test: those on a real Kafka and a real Spark, and those without Java in the time they leave idle."""
    status = _prepare()
    if status:
        return status
    print("Beside these run the tests without Java, at the lowest priority; they report at the end.", flush=True)
    command = _pytest("not cluster", *ON_ALL_CORES, "-o", f"timeout={PATIENT_S}", *rest)
    with tempfile.TemporaryFile("w+") as output, _in_idle_time(command, output) as beside:
        on_cluster = cluster(rest)
        if on_cluster == INTERRUPTED:
            return INTERRUPTED
        try:
            without_java = beside.wait()
        except KeyboardInterrupt:
            return INTERRUPTED
        output.seek(0)
        print(output.read(), flush=True)
    return on_cluster or without_java


def fast(rest: Sequence[str]) -> int:
    """Run the fast suite: no Java, no slow tests, on all cores."""
    return _prepare() or _call(_pytest("not cluster and not slow", *ON_ALL_CORES, *rest))


def cluster(rest: Sequence[str]) -> int:
    """Run the suite on a real Kafka and a real Spark."""
    return _prepare() or _call(_pytest("cluster", *rest))


def _pytest(which: str, *rest: str) -> list[str]:
    return [_tool("python"), "-m", "pytest", "-m", which, *rest]


def lint(rest: Sequence[str]) -> int:
    """Look for faults and for layout: ruff check, ruff format --check."""
    return _prepare() or _call([_tool("ruff"), "check", *rest]) or _call([_tool("ruff"), "format", "--check", *rest])


def types(rest: Sequence[str]) -> int:
    """Check the types: mypy, strict."""
    return _prepare() or _call([_tool("mypy"), *rest])


def layers(rest: Sequence[str]) -> int:
    """Check that each layer knows only those below it: import-linter."""
    return _prepare() or _call([_tool("lint-imports"), *rest])


def check(rest: Sequence[str]) -> int:
    """Lint, types and layers."""
    del rest
    return lint([]) or types([]) or layers([])


def lock(rest: Sequence[str]) -> int:
    """Pin again what the metadata allows (needs uv on the path)."""
    common = ["uv", "pip", "compile", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
    common += ["--no-emit-index-url", "--no-emit-find-links", "--allow-unsafe", *rest]
    return _call([*common, "--group", "build", "-o", str(BUILD_LOCK)]) or _call(
        [*common, "pyproject.toml", "--all-extras", "--group", "dev", "-o", str(DEV_LOCK)]
    )


CHORES: dict[str, Callable[[Sequence[str]], int]] = {
    "demo": demo,
    "test": test,
    "setup": setup,
    "fast": fast,
    "cluster": cluster,
    "check": check,
    "lint": lint,
    "types": types,
    "layers": layers,
    "lock": lock,
}


def _prepare() -> int:
    """Make the environment where the pinned files changed; install the package where only pyproject.toml changed."""
    stamp = VENV / "rheostat.stamp"
    pinned, package = _fingerprint(BUILD_LOCK, DEV_LOCK), _fingerprint(PROJECT)
    made = stamp.read_text().split() if stamp.exists() else []
    if made == [pinned, package]:
        return 0
    status = 0
    if pinned not in made:
        status = _make_environment()
    status = status or _install("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    if status:
        print("The set-up failed: the lines above say why. Run the command again to continue.", file=sys.stderr)
    else:
        stamp.write_text(f"{pinned} {package}")
    return status


def _make_environment() -> int:
    free_mb = shutil.disk_usage(_existing(VENV)).free // 2**20
    if free_mb < NEEDED_FREE_MB:
        sys.exit(f"{VENV} needs {NEEDED_FREE_MB} MB of free disk; there are {free_mb} MB.")
    print(f"Setting up {VENV}: about 650 MB to download (440 MB of it PySpark), 1.2 GB on disk.", file=sys.stderr)
    try:
        _refuse_foreign(VENV)
        venv.create(VENV, with_pip=True, clear=True)
    except subprocess.CalledProcessError:
        sys.exit("This Python cannot make environments. On Debian and Ubuntu: apt-get install python3-venv")
    except OSError as error:
        sys.exit(f"No environment can be made at {VENV}: {error.strerror or error}")
    return _install("--require-hashes", "-r", str(BUILD_LOCK)) or _install(
        "--require-hashes", "--no-build-isolation", "-r", str(DEV_LOCK)
    )


def _install(*arguments: str) -> int:
    return _call([_tool("python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments])


def _refuse_foreign(place: Path) -> None:
    """What is no environment is not cleared for one."""
    if place.is_dir() and any(place.iterdir()) and not (place / "pyvenv.cfg").exists():
        sys.exit(f"{place} holds something else than an environment: empty it, or set RHEOSTAT_VENV to another folder.")


def _call(command: Sequence[str]) -> int:
    """Run a tool in the project's root; an interrupt goes to the tool, whose own clean-up is waited for."""
    if shutil.which(command[0]) is None:
        sys.exit(f"{command[0]} is not there: install it, or set the environment up again (python3 tasks.py setup).")
    with subprocess.Popen(command, cwd=ROOT, env=_environment()) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


@contextmanager
def _in_idle_time(command: Sequence[str], output: IO[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a tool in the time that all other processes leave idle; what is left of it is ended with the block."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=_environment(),
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_step_back,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _step_back() -> None:
    """The lowest priority for this process, and for its session where Linux shares time among sessions first."""
    os.nice(19)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")


def _environment() -> dict[str, str]:
    """Without compiled files each process compiles every module and test anew: 10 s for each run of the tests."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _tool(name: str) -> str:
    return str(VENV / ("Scripts" if os.name == "nt" else "bin") / name)


def _fingerprint(*paths: Path) -> str:
    """Of the files and of this Python."""
    digest = hashlib.sha256(sys.version.encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
