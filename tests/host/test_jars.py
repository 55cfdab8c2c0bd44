"""Jars: what is asked of Ivy, when a set counts as complete, and several processes at once."""

import json
import stat
import subprocess
import sys
import threading
import xml.etree.ElementTree as ElementTree

import pytest

from rheostat.errors import InputError, UnavailableError
from rheostat.files import lock_file
from rheostat.host.java import BROKER, JarSet, Java, connector, is_complete, ivy_module, ivy_settings, resolve
from rheostat.host.processes import module_environment

SMALL = JarSet("small", "org.example", "thing", "1.0", megabytes=1, least=2)

FAKE_IVY = """\
#!{python}
import pathlib, sys
with open({calls!r}, "a") as file:
    file.write("called\\n")
folder = pathlib.Path(sys.argv[sys.argv.index("-retrieve") + 1]).parent
folder.mkdir(parents=True)
for name in {names!r}:
    (folder / name).write_bytes(b"jar")
print("unresolved dependency: org.example#thing;1.0: not found")
sys.exit({code})
"""


def java_with_ivy(tmp_path, *names, code=0):
    """A program started as Java is, which does what Ivy does with its arguments; counts its calls in a file."""
    program = tmp_path / "java"
    text = FAKE_IVY.format(python=sys.executable, calls=str(tmp_path / "calls"), names=names, code=code)
    program.write_text(text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Java(program, "17", 17, tmp_path)


def fill(folder, sizes, marker=None):
    folder.mkdir(parents=True)
    for name, size in sizes.items():
        (folder / name).write_bytes(b"x" * size)
    if marker is not None:
        (folder / "complete.json").write_text(marker)


@pytest.mark.parametrize(
    ("sizes", "marker", "expected"),
    [
        pytest.param({"thing-1.0.jar": 3, "a.jar": 2}, '{"thing-1.0.jar": 3, "a.jar": 2}', True, id="whole"),
        pytest.param({"thing-1.0.jar": 3, "a.jar": 2}, None, False, id="no marker: the writer was cut off"),
        pytest.param({"thing-1.0.jar": 3, "a.jar": 1}, '{"thing-1.0.jar": 3, "a.jar": 2}', False, id="a short file"),
        pytest.param({"thing-1.0.jar": 3}, '{"thing-1.0.jar": 3, "a.jar": 2}', False, id="a file is gone"),
        pytest.param({"thing-1.0.jar": 3}, '{"thing-1.0.jar": 3}', False, id="fewer than there must be"),
        pytest.param({"b.jar": 3, "a.jar": 2}, '{"b.jar": 3, "a.jar": 2}', False, id="the main jar is not there"),
        pytest.param({"thing-1.0.jar": 3, "a.jar": 2}, "{", False, id="a torn marker"),
    ],
)
def test_a_set_is_complete_only_when_marker_and_files_agree(tmp_path, sizes, marker, expected):
    fill(tmp_path / "small-1.0", sizes, marker)

    assert is_complete(SMALL, tmp_path / "small-1.0") is expected


@pytest.mark.parametrize(
    ("mirror", "root"),
    [
        pytest.param(None, None, id="Ivy's own default"),
        pytest.param("https://mirror.example/a?b=1&c=2", "https://mirror.example/a?b=1&c=2", id="a mirror is escaped"),
    ],
)
def test_ivy_settings_name_one_repository(mirror, root):
    (resolver,) = ElementTree.fromstring(ivy_settings(mirror)).findall("resolvers/ibiblio")  # noqa: S314

    assert resolver.get("m2compatible") == "true"
    assert resolver.get("root") == root


def test_the_connector_leaves_out_what_pyspark_has():
    module = ElementTree.fromstring(ivy_module(connector("4.2.0")))  # noqa: S314

    (wanted,) = module.findall("dependencies/dependency")
    assert (wanted.get("org"), wanted.get("name"), wanted.get("rev")) == (
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
    )
    assert "org.apache.hadoop" in {one.get("org") for one in module.findall("dependencies/exclude")}


def test_the_broker_brings_what_leads_its_log_to_a_file():
    module = ElementTree.fromstring(ivy_module(BROKER))  # noqa: S314

    assert [one.get("name") for one in module.findall("dependencies/dependency")] == ["kafka_2.13", "log4j-slf4j-impl"]


def test_a_download_says_what_how_large_and_where(tmp_path):
    said: list[str] = []
    java = java_with_ivy(tmp_path, "thing-1.0.jar", "a.jar")

    files = resolve(SMALL, said.append, java, {"RHEOSTAT_CACHE": str(tmp_path / "cache")})

    place = tmp_path / "cache" / "jars" / "small-1.0"
    assert files == [place / "a.jar", place / "thing-1.0.jar"]
    assert said == [f"Downloading org.example:thing:1.0 from Maven Central: about 1 MB, 2 jars, into {place}"]
    assert json.loads((place / "complete.json").read_text()) == {"a.jar": 3, "thing-1.0.jar": 3}
    assert sorted(one.name for one in place.parent.iterdir()) == [".small-1.0.lock", "small-1.0"]


def test_a_complete_set_is_used_without_java(tmp_path):
    place = tmp_path / "jars" / "small-1.0"
    fill(place, {"thing-1.0.jar": 3, "a.jar": 2}, '{"thing-1.0.jar": 3, "a.jar": 2}')

    files = resolve(SMALL, environ={"RHEOSTAT_CACHE": str(tmp_path)})

    assert [file.name for file in files] == ["a.jar", "thing-1.0.jar"]


def test_of_several_that_ask_at_once_one_downloads(tmp_path):
    java = java_with_ivy(tmp_path, "thing-1.0.jar", "a.jar")
    results = []
    ask = lambda: results.append(resolve(SMALL, java=java, environ={"RHEOSTAT_CACHE": str(tmp_path)}))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [[file.name for file in files] for files in results] == [["a.jar", "thing-1.0.jar"]] * 4
    assert (tmp_path / "calls").read_text() == "called\n"


@pytest.mark.parametrize(
    ("names", "code", "message"),
    [
        pytest.param(("thing-1.0.jar", "a.jar"), 1, "RHEOSTAT_MAVEN_MIRROR .* not found", id="Ivy fails"),
        pytest.param(("thing-1.0.jar",), 0, "gave 1 jars, not 2", id="a jar is missing"),
        pytest.param(("b.jar", "a.jar"), 0, "try again", id="the main jar is missing"),
    ],
)
def test_a_failed_download_leaves_nothing_behind(tmp_path, names, code, message):
    java = java_with_ivy(tmp_path, *names, code=code)

    with pytest.raises(UnavailableError, match=message):
        resolve(SMALL, java=java, environ={"RHEOSTAT_CACHE": str(tmp_path)})

    assert [one.name for one in (tmp_path / "jars").iterdir()] == [".small-1.0.lock"]


def test_an_offline_folder_is_used_as_it_is(tmp_path):
    fill(tmp_path / "small-1.0", {"thing-1.0.jar": 1, "a.jar": 1})

    assert len(resolve(SMALL, environ={"RHEOSTAT_JARS": str(tmp_path)})) == 2


def test_an_incomplete_offline_folder_is_an_input_error(tmp_path):
    fill(tmp_path / "small-1.0", {"a.jar": 1})

    with pytest.raises(InputError) as caught:
        resolve(SMALL, environ={"RHEOSTAT_JARS": str(tmp_path)})

    assert [fault.field for fault in caught.value.faults] == ["RHEOSTAT_JARS"]


def test_the_lock_goes_with_a_killed_holder(tmp_path):
    program = (
        "import pathlib, sys\nfrom rheostat.files import lock_file\n"
        "with lock_file(pathlib.Path(sys.argv[1]), wait=True):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", program, str(lock)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=module_environment()
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        got = threading.Event()

        def take():
            with lock_file(lock, wait=True):
                got.set()

        waiting = threading.Thread(target=take)
        waiting.start()
        assert not got.wait(0.2)
        holder.kill()
        assert got.wait(10)
        waiting.join()
