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
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = Path(os.environ.get("RHEOSTAT_VENV", ROOT / ".venv")).resolve()
BUILD_LOCK = ROOT / "requirements" / "build.lock"
DEV_LOCK = ROOT / "requirements" / "dev.lock"
PROJECT = ROOT / "pyproject.toml"
NEEDED_FREE_MB = 3000
ON_ALL_CORES = ("-n", "auto", "--dist", "worksteal")
"""For pytest. Neighbours stay in one process, as many of them look at the same simulated run, which it keeps."""


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
    """Run every test: those without Java on all cores, then those on a real Kafka and a real Spark."""
    return _test_without_java("not cluster", rest) or cluster(rest)


def fast(rest: Sequence[str]) -> int:
    """Run the fast suite: no Java, no slow tests, on all cores."""
    return _test_without_java("not cluster and not slow", rest)


def cluster(rest: Sequence[str]) -> int:
    """Run the suite on a real Kafka and a real Spark."""
    return _prepare() or _call([_tool("python"), "-m", "pytest", "-m", "cluster", *rest])


def _test_without_java(which: str, rest: Sequence[str]) -> int:
    return _prepare() or _call([_tool("python"), "-m", "pytest", "-m", which, *ON_ALL_CORES, *rest])


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
    # Without compiled files each process compiles every module and test anew: 10 s for each run of the tests.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


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
