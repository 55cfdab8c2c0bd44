"""Java, the jars of Spark and Kafka that we do not ship, and the folders that they are kept in."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from rheostat.errors import Fault, InputError, UnavailableError, to_install
from rheostat.files import lock_file

SUPPORTED = (17, 21)
"""Major versions that Spark 4.0–4.2 and Kafka 4 support and that are tested."""

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
    """One Java installation. ``major``: its feature release (17, 21; 8 for version ``"1.8.0_392"``)."""

    executable: Path
    version: str
    major: int
    home: Path

    def __str__(self) -> str:
        return f"{self.version} at {self.executable}"


def find_java(environ: Mapping[str, str] | None = None, places: Iterable[str] = COMMON_PLACES) -> Java:
    """Find a Java of a supported version: in ``JAVA_HOME``, on the path, in common places.

    Raises:
        InputError: there is none; names the package to install and lists the versions that were found.
    """
    unsupported: list[Java] = []
    tried: set[Path] = set()
    for executable in _list_candidates(os.environ if environ is None else environ, places):
        if not executable.is_file() or executable.resolve() in tried:
            continue
        tried.add(executable.resolve())
        java = _probe(executable)
        if java is not None and java.major in SUPPORTED:
            return java
        unsupported += [java] if java else []
    given = ", ".join(f"Java {java}" for java in unsupported) or "no Java"
    allowed = " or ".join(f"Java {major}" for major in SUPPORTED)
    message = f"Spark and Kafka need {allowed}, found {given}. Install it ({_PACKAGES}) or set JAVA_HOME to it"
    raise InputError([Fault("JAVA_HOME", given, allowed, message)])


def _list_candidates(environ: Mapping[str, str], places: Iterable[str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path)
    for pattern in places:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))


def _probe(executable: Path) -> Java | None:
    """None if it does not run or is no Java (macOS has a stub that is none)."""
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


def parse_version(output: str) -> tuple[str, int] | None:
    """Version and feature release in the output of ``java -version``.

    >>> parse_version('openjdk version "21.0.2" 2024-01-16')
    ('21.0.2', 21)
    >>> parse_version('java version "1.8.0_392"')
    ('1.8.0_392', 8)
    """
    match = re.search(r'\bversion "((?:1\.)?(\d+)[^"]*)"', output)
    return (match[1], int(match[2])) if match else None


def bash_faults(environ: Mapping[str, str] | None = None) -> list[Fault]:
    """A fault if bash is not on the path: Spark's launch scripts, which start its JVM, need it."""
    path = (os.environ if environ is None else environ).get("PATH", os.defpath)
    if shutil.which("bash", path=path) is not None:
        return []
    message = "bash is not on the path, and Spark's launch scripts need it: install it, or add its folder to PATH"
    return [Fault("PATH", repr(path), "a path with bash on it", message)]


# Folders and locks

Say = Callable[[str], None]
"""Shows a message to the user. Library code never prints."""


def quiet(_sentence: str) -> None:
    """A :data:`Say` that shows nothing."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The user's cache: ``RHEOSTAT_CACHE``, else ``XDG_CACHE_HOME/rheostat``, else ``~/.cache/rheostat``."""
    env = os.environ if environ is None else environ
    if own := env.get("RHEOSTAT_CACHE"):
        return Path(own).expanduser().absolute()
    if shared := env.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser().absolute() / "rheostat"
    return Path.home() / ".cache" / "rheostat"


def require_writable(folder: Path, field: str) -> Path:
    """Create the folder if needed and write a test file into it.

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
    """Check free disk space, in a folder that exists, and available memory, in MB.

    Raises:
        InputError: with a fault for each of the two that is short.
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


# Jars: fetched once by the Ivy that comes with PySpark, kept in the user's cache

KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.25.4"
SCALA_VERSION = "2.13"

_MARKER = "complete.json"
_IN_PYSPARK = (
    ("org.apache.hadoop", "*"),
    ("org.scala-lang", "*"),
    ("org.scala-lang.modules", "*"),
    ("org.slf4j", "*"),
    ("org.xerial.snappy", "*"),
    ("at.yawk.lz4", "*"),
    ("org.lz4", "*"),
    ("com.google.code.findbugs", "*"),
    ("org.apache.spark", f"spark-tags_{SCALA_VERSION}"),
)
_RESOLVE_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class JarSet:
    """A published module with its run-time dependencies.

    Attributes:
        name: folder in the cache, without the revision.
        megabytes: approximate size of the download.
        least: smallest number of jars of a complete set.
        without: (organisation, module) pairs that PySpark has already.
        also: (organisation, module, revision) of further modules.
    """

    name: str
    organisation: str
    module: str
    revision: str
    megabytes: int
    least: int
    without: tuple[tuple[str, str], ...] = ()
    also: tuple[tuple[str, str, str], ...] = ()

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.revision}"

    @property
    def main(self) -> str:
        """File name of the module's own jar."""
        return f"{self.module}-{self.revision}.jar"


BROKER = JarSet(
    "kafka-broker",
    "org.apache.kafka",
    f"kafka_{SCALA_VERSION}",
    KAFKA_VERSION,
    megabytes=44,
    least=46,
    also=(("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),),
)
"""A broker. Its published module lacks a logging backend; ``also`` adds it."""


def connector(spark_version: str) -> JarSet:
    """Spark's Kafka connector of that version, without the jars that PySpark has."""
    module = f"spark-sql-kafka-0-10_{SCALA_VERSION}"
    return JarSet("spark-kafka", "org.apache.spark", module, spark_version, megabytes=10, least=4, without=_IN_PYSPARK)


def pyspark_home() -> Path:
    """Folder of the installed PySpark package, which is a ``SPARK_HOME``; found without importing it.

    Raises:
        InputError: PySpark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None or not (Path(spec.origin).parent / "jars").is_dir():
        message = f"a real cluster needs PySpark with its jars; {to_install('spark,kafka')}"
        raise InputError([Fault("pyspark", "not installed", "pyspark >= 4.0, < 4.3", message)])
    return Path(spec.origin).parent


def pyspark_version() -> str:
    """Version of the installed PySpark, read from the name of its core jar."""
    jars = sorted((pyspark_home() / "jars").glob(f"spark-core_{SCALA_VERSION}-*.jar"))
    if not jars:
        message = f"this PySpark has no spark-core_{SCALA_VERSION} jar; {to_install('spark,kafka')}"
        raise InputError([Fault("pyspark", str(pyspark_home()), "pyspark >= 4.0, < 4.3", message)])
    return jars[0].stem.removeprefix(f"spark-core_{SCALA_VERSION}-")


def broker_jars(say: Say = quiet, java: Java | None = None) -> list[Path]:
    """The jars of a Kafka broker; see :func:`resolve`."""
    return resolve(BROKER, say, java)


def kafka_connector_jars(say: Say = quiet, java: Java | None = None) -> list[Path]:
    """The jars of Spark's Kafka connector, for ``spark.jars``; see :func:`resolve`."""
    return resolve(connector(pyspark_version()), say, java)


def resolve(
    jars: JarSet, say: Say = quiet, java: Java | None = None, environ: Mapping[str, str] | None = None
) -> list[Path]:
    """The files of a set, sorted by name: from ``RHEOSTAT_JARS``, from the cache, or downloaded into the cache.

    Safe for concurrent processes: one downloads, the others wait for it.

    Raises:
        InputError: no Java, no PySpark, no room, a cache that cannot be written, an incomplete ``RHEOSTAT_JARS``.
        UnavailableError: the download failed.
    """
    env = os.environ if environ is None else environ
    if offline := env.get("RHEOSTAT_JARS"):
        return _find_offline(jars, Path(offline).expanduser().absolute())
    place = cache_folder(env) / "jars"
    if not is_complete(jars, place / jars.folder):
        require_writable(place, "RHEOSTAT_CACHE")
        with lock_file(place / f".{jars.folder}.lock", wait=True):
            if not is_complete(jars, place / jars.folder):
                _download(jars, place, say, java or find_java(env), env.get("RHEOSTAT_MAVEN_MIRROR"))
    return _list_jars(place / jars.folder)


def is_complete(jars: JarSet, folder: Path) -> bool:
    """Whether the marker, which is written last, exists and every file has the size recorded in it."""
    try:
        sizes: dict[str, int] = json.loads((folder / _MARKER).read_text())
        unchanged = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False
    return unchanged and jars.main in sizes and len(sizes) >= jars.least


def ivy_settings(mirror: str | None) -> str:
    """Ivy's settings: one Maven repository; default: Maven Central."""
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        '<ivysettings><settings defaultResolver="maven"/>'
        f'<resolvers><ibiblio name="maven" m2compatible="true"{root}/></resolvers></ivysettings>'
    )


def ivy_module(jars: JarSet) -> str:
    """Ivy's module file for the set."""
    modules = ((jars.organisation, jars.module, jars.revision), *jars.also)
    dependencies = "".join(
        f'<dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(rev)} conf="default-&gt;default"/>'
        for org, name, rev in modules
    )
    exclusions = "".join(f"<exclude org={quoteattr(org)} module={quoteattr(name)}/>" for org, name in jars.without)
    return (
        '<ivy-module version="2.0"><info organisation="rheostat" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{exclusions}</dependencies></ivy-module>"
    )


def _find_offline(jars: JarSet, root: Path) -> list[Path]:
    folder = root / jars.folder
    files = _list_jars(folder)
    if len(files) < jars.least or jars.main not in {file.name for file in files}:
        allowed = f"{jars.folder}/ with {jars.main} and at least {jars.least} jars"
        message = f"{folder} has {len(files)} jars: copy the jars folder of a cache that is complete"
        raise InputError([Fault("RHEOSTAT_JARS", str(root), allowed, message)])
    return files


def _list_jars(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jar"))


def _download(jars: JarSet, place: Path, say: Say, java: Java, mirror: str | None) -> None:
    require_room(place, disk_mb=3 * jars.megabytes + 50, memory_mb=0)
    for stale in place.glob(f".{jars.folder}.*.part"):
        shutil.rmtree(stale, ignore_errors=True)
    source = mirror or "Maven Central"
    say(
        f"Downloading {jars.organisation}:{jars.module}:{jars.revision} from {source}: "
        f"about {jars.megabytes} MB, {jars.least} jars, into {place / jars.folder}"
    )
    part = place / f".{jars.folder}.{os.getpid()}.part"
    try:
        _run_ivy(jars, part, java, mirror)
        _install(jars, part / "jars", place / jars.folder)
    except OSError as error:
        message = f"cannot keep the jars of {jars.module}: {error.strerror or error}"
        raise InputError([Fault("RHEOSTAT_CACHE", str(place), "a folder with room", message)]) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _run_ivy(jars: JarSet, part: Path, java: Java, mirror: str | None) -> None:
    part.mkdir()
    (part / "ivysettings.xml").write_text(ivy_settings(mirror))
    (part / "ivy.xml").write_text(ivy_module(jars))
    ivy = next((pyspark_home() / "jars").glob("ivy-*.jar"))
    command = [str(java.executable), "-jar", str(ivy), "-settings", "ivysettings.xml", "-ivy", "ivy.xml"]
    command += ["-cache", str(part / "ivy"), "-confs", "default"]
    command += ["-retrieve", str(part / "jars" / "[artifact]-[revision].[ext]")]
    try:
        done = subprocess.run(
            command, cwd=part, capture_output=True, text=True, timeout=_RESOLVE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        message = f"{jars.module} {jars.revision} did not arrive within {_RESOLVE_TIMEOUT_S:.0f} s"
        raise UnavailableError(message) from error
    if done.returncode != 0:
        raise UnavailableError(_explain_failure(jars, mirror, done.stdout + done.stderr))


def _explain_failure(jars: JarSet, mirror: str | None, output: str) -> str:
    marks = ("not found", "unresolved", "failed", "error", "exception", "no space")
    lines = [line.strip() for line in output.splitlines() if any(mark in line.lower() for mark in marks)]
    return (
        f"cannot download {jars.organisation}:{jars.module}:{jars.revision} from {mirror or 'Maven Central'}. "
        "Set RHEOSTAT_MAVEN_MIRROR to a repository that can be reached, or RHEOSTAT_JARS to a folder with the jars. "
        "Ivy said: " + " | ".join(lines[:6])
    )


def _install(jars: JarSet, fetched: Path, target: Path) -> None:
    sizes = {file.name: file.stat().st_size for file in _list_jars(fetched)}
    if jars.main not in sizes or len(sizes) < jars.least:
        message = f"the download of {jars.module} {jars.revision} gave {len(sizes)} jars, not {jars.least}: try again"
        raise UnavailableError(message)
    (fetched / _MARKER).write_text(json.dumps(sizes, indent=1))
    if target.exists():
        shutil.rmtree(target)
    fetched.rename(target)
