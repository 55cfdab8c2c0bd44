"""Finding a Java that Spark and Kafka run on."""

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


# Where things are kept between runs, and whether there is room for a run.


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


# The jars that we do not ship: fetched once by the Ivy that PySpark brings, kept in the user's cache.


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
    """A published module with all that it needs at run time.

    Attributes:
        name: folder in the cache, without the revision.
        organisation, module, revision: its coordinate.
        megabytes: size of the download, about, to be told to people.
        least: number of jars below which the set cannot be complete.
        without: (organisation, module) pairs to leave out because they are there already.
        also: (organisation, module, revision) of modules that are wanted with it.
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
        """Name of its folder."""
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
"""A broker. Its published module lacks what leads its log to an output; ``also`` adds that."""


def connector(spark_version: str) -> JarSet:
    """Spark's Kafka connector of that version, without what PySpark has in its own ``jars`` folder."""
    module = f"spark-sql-kafka-0-10_{SCALA_VERSION}"
    return JarSet("spark-kafka", "org.apache.spark", module, spark_version, megabytes=10, least=4, without=_IN_PYSPARK)


def pyspark_home() -> Path:
    """Folder of the installed PySpark package, which is a ``SPARK_HOME``. Does not import it.

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
    """The jars of a Kafka broker, downloaded if they are not in the cache; errors as :func:`resolve`."""
    return resolve(BROKER, say, java)


def kafka_connector_jars(say: Say = quiet, java: Java | None = None) -> list[Path]:
    """The jars of Spark's Kafka connector, to be given as ``spark.jars``; errors as :func:`resolve`."""
    return resolve(connector(pyspark_version()), say, java)


def resolve(
    jars: JarSet, say: Say = quiet, java: Java | None = None, environ: Mapping[str, str] | None = None
) -> list[Path]:
    """The files of a set, sorted by name: from ``RHEOSTAT_JARS``, from the cache, or downloaded into the cache.

    Safe when several processes ask at once: one downloads, the others wait for it.

    Raises:
        InputError: no Java, no PySpark, no room, a cache that cannot be written, an incomplete ``RHEOSTAT_JARS``.
        UnavailableError: the download failed.
    """
    env = os.environ if environ is None else environ
    if offline := env.get("RHEOSTAT_JARS"):
        return _offline(jars, Path(offline).expanduser().absolute())
    place = cache_folder(env) / "jars"
    if not is_complete(jars, place / jars.folder):
        require_writable(place, "RHEOSTAT_CACHE")
        with lock_file(place / f".{jars.folder}.lock", wait=True):
            if not is_complete(jars, place / jars.folder):
                _download(jars, place, say, java or find_java(env), env.get("RHEOSTAT_MAVEN_MIRROR"))
    return _files(place / jars.folder)


def is_complete(jars: JarSet, folder: Path) -> bool:
    """Whether the marker, which is written last, is there and every file has the size that it records."""
    try:
        sizes: dict[str, int] = json.loads((folder / _MARKER).read_text())
        whole = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False
    return whole and jars.main in sizes and len(sizes) >= jars.least


def ivy_settings(mirror: str | None) -> str:
    """Ivy's settings: one Maven repository, the given one or Ivy's own default, Maven Central."""
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        '<ivysettings><settings defaultResolver="maven"/>'
        f'<resolvers><ibiblio name="maven" m2compatible="true"{root}/></resolvers></ivysettings>'
    )


def ivy_module(jars: JarSet) -> str:
    """Ivy's module file that asks for the set."""
    wanted = ((jars.organisation, jars.module, jars.revision), *jars.also)
    dependencies = "".join(
        f'<dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(rev)} conf="default-&gt;default"/>'
        for org, name, rev in wanted
    )
    exclusions = "".join(f"<exclude org={quoteattr(org)} module={quoteattr(name)}/>" for org, name in jars.without)
    return (
        '<ivy-module version="2.0"><info organisation="rheostat" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{exclusions}</dependencies></ivy-module>"
    )


def _offline(jars: JarSet, root: Path) -> list[Path]:
    folder = root / jars.folder
    files = _files(folder)
    if len(files) < jars.least or jars.main not in {file.name for file in files}:
        allowed = f"{jars.folder}/ with {jars.main} and at least {jars.least} jars"
        message = f"{folder} has {len(files)} jars: copy the jars folder of a cache that is complete"
        raise InputError([Fault("RHEOSTAT_JARS", str(root), allowed, message)])
    return files


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jar"))


def _download(jars: JarSet, place: Path, say: Say, java: Java, mirror: str | None) -> None:
    """Fetch into a folder beside the final one, then rename. Runs under the set's lock."""
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
        _put_in_place(jars, part / "jars", place / jars.folder)
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
        raise UnavailableError(_why(jars, mirror, done.stdout + done.stderr))


def _why(jars: JarSet, mirror: str | None, output: str) -> str:
    """What Ivy complained about, short, and the ways out."""
    marks = ("not found", "unresolved", "failed", "error", "exception", "no space")
    lines = [line.strip() for line in output.splitlines() if any(mark in line.lower() for mark in marks)]
    return (
        f"cannot download {jars.organisation}:{jars.module}:{jars.revision} from {mirror or 'Maven Central'}. "
        "Set RHEOSTAT_MAVEN_MIRROR to a repository that can be reached, or RHEOSTAT_JARS to a folder with the jars. "
        "Ivy said: " + " | ".join(lines[:6])
    )


def _put_in_place(jars: JarSet, fetched: Path, target: Path) -> None:
    sizes = {file.name: file.stat().st_size for file in _files(fetched)}
    if jars.main not in sizes or len(sizes) < jars.least:
        message = f"the download of {jars.module} {jars.revision} gave {len(sizes)} jars, not {jars.least}: try again"
        raise UnavailableError(message)
    (fetched / _MARKER).write_text(json.dumps(sizes, indent=1))
    if target.exists():
        shutil.rmtree(target)
    fetched.rename(target)
