"""Finding a Java that Spark and Kafka run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rheostat.errors import Fault, InputError

__all__ = ["SUPPORTED", "Java", "bash_faults", "candidates", "find_java", "parse_version", "probe"]

SUPPORTED = (17, 21)
"""Major versions that Spark 4.0–4.2 and Kafka 4 both run on and that we test with."""

COMMON_PLACES = (
    "/usr/lib/jvm/*/bin/java",
    "/opt/java/*/bin/java",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java",
    "/opt/homebrew/opt/openjdk*/bin/java",
    "/usr/local/opt/openjdk*/bin/java",
)

_PACKAGES = (
    "Debian and Ubuntu: openjdk-17-jre-headless; Fedora: java-17-openjdk-headless; macOS: brew install openjdk@17"
)
_PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Java:
    """One Java installation.

    Attributes:
        executable: the ``java`` to start.
        version: what it says of itself (``"17.0.15"``).
        major: its feature release (17, 21; 8 for ``"1.8"``).
        home: what ``JAVA_HOME`` has to be for it.
    """

    executable: Path
    version: str
    major: int
    home: Path

    def __str__(self) -> str:
        return f"{self.version} at {self.executable}"


def parse_version(output: str) -> tuple[str, int] | None:
    """Version and feature release from what ``java -version`` prints; None if there is none in it.

    >>> parse_version('openjdk version "21.0.2" 2024-01-16')
    ('21.0.2', 21)
    >>> parse_version('java version "1.8.0_392"')
    ('1.8.0_392', 8)
    """
    found = re.search(r'\bversion "((?:1\.)?(\d+)[^"]*)"', output)
    return (found[1], int(found[2])) if found else None


def probe(executable: Path) -> Java | None:
    """Run it and ask for its version; None if it does not run or is no Java (macOS has a stub that is none)."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = parse_version(done.stderr)
    if done.returncode != 0 or version is None:
        return None
    home = re.search(r"^\s*java\.home = (.+)$", done.stderr, re.MULTILINE)
    return Java(executable, *version, Path(home[1].strip()) if home else executable.resolve().parents[1])


def candidates(environ: Mapping[str, str], places: Iterable[str] = COMMON_PLACES) -> Iterator[Path]:
    """Every ``java`` worth asking, the most deliberate choice first: ``JAVA_HOME``, the path, common places."""
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path)
    for pattern in places:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))


def find_java(environ: Mapping[str, str] | None = None, places: Iterable[str] = COMMON_PLACES) -> Java:
    """The first Java of a supported version.

    Raises:
        InputError: there is none; names the package to install and lists what was found instead.
    """
    found: list[Java] = []
    asked: set[Path] = set()
    for executable in candidates(os.environ if environ is None else environ, places):
        if not executable.is_file() or executable.resolve() in asked:
            continue
        asked.add(executable.resolve())
        java = probe(executable)
        if java is not None and java.major in SUPPORTED:
            return java
        found += [java] if java else []
    raise InputError([_no_java(found)])


def bash_faults(environ: Mapping[str, str] | None = None) -> list[Fault]:
    """A fault if bash is not on the path: Spark's launch scripts, which start its JVM, are written for it."""
    path = (os.environ if environ is None else environ).get("PATH", os.defpath)
    if shutil.which("bash", path=path) is not None:
        return []
    message = "bash is not on the path, and Spark's launch scripts need it: install it, or add its folder to PATH"
    return [Fault("PATH", repr(path), "a path with bash on it", message)]


def _no_java(found: list[Java]) -> Fault:
    given = ", ".join(f"Java {java}" for java in found) or "no Java"
    allowed = " or ".join(f"Java {major}" for major in SUPPORTED)
    message = f"Spark and Kafka need {allowed}, found {given}. Install it ({_PACKAGES}) or set JAVA_HOME to it"
    return Fault("JAVA_HOME", given, allowed, message)
