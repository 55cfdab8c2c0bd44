"""Which Java is taken, and what is said when there is none."""

import stat

import pytest

from rheostat.errors import InputError
from rheostat.host.java import bash_faults, find_java, parse_version


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', ("17.0.15", 17), id="openjdk 17"),
        pytest.param('openjdk version "21" 2023-09-19', ("21", 21), id="a first release has no dots"),
        pytest.param('openjdk version "22-ea" 2024-03-19', ("22-ea", 22), id="early access"),
        pytest.param('java version "1.8.0_392"', ("1.8.0_392", 8), id="Java 8 counts from 1"),
        pytest.param('java version "11.0.21" 2023-10-17 LTS', ("11.0.21", 11), id="Oracle 11"),
        pytest.param(
            'Picked up JAVA_TOOL_OPTIONS: -Da=b\nopenjdk version "17.0.1"', ("17.0.1", 17), id="a notice first"
        ),
        pytest.param(
            "The operation couldn’t be completed. Unable to locate a Java Runtime.", None, id="the macOS stub"
        ),
        pytest.param("", None, id="silence"),
    ],
)
def test_version_is_read_from_what_java_prints(output, expected):
    assert parse_version(output) == expected


def java_that_says(folder, version, code=0):
    """A program in ``folder/bin`` that answers as a Java of this version does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}' >&2\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_java_home_comes_before_the_path(tmp_path):
    chosen = java_that_says(tmp_path / "chosen", "21.0.2")
    other = java_that_says(tmp_path / "other", "17.0.1")

    java = find_java({"JAVA_HOME": str(tmp_path / "chosen"), "PATH": str(other.parent)}, places=())

    assert (java.executable, java.major, java.home) == (chosen, 21, tmp_path / "chosen")


def test_a_java_home_of_another_version_is_passed_over(tmp_path):
    java_that_says(tmp_path / "old", "11.0.2")
    right = java_that_says(tmp_path / "right", "17.0.1")

    java = find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(right.parent)}, places=())

    assert java.executable == right


def test_common_places_are_searched_last(tmp_path):
    right = java_that_says(tmp_path / "jvm" / "17", "17.0.1")

    assert find_java({}, places=(f"{tmp_path}/jvm/*/bin/java",)).executable == right


def test_without_a_fitting_java_the_error_lists_what_was_found_and_names_the_packages(tmp_path):
    old = java_that_says(tmp_path / "old", "11.0.2")
    java_that_says(tmp_path / "broken", "17.0.1", code=1)

    with pytest.raises(InputError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "broken"), "PATH": str(old.parent)}, places=())

    (fault,) = caught.value.faults
    assert fault.given == f"Java 11.0.2 at {old}"
    assert fault.allowed == "Java 17 or Java 21"
    for package in ("openjdk-17-jre-headless", "java-17-openjdk-headless", "brew install openjdk@17"):
        assert package in fault.message


def test_without_any_java_the_error_says_so(tmp_path):
    with pytest.raises(InputError, match="found no Java"):
        find_java({"PATH": str(tmp_path)}, places=())


def test_a_program_that_prints_garbage_is_no_java(tmp_path):
    program = java_that_says(tmp_path, "17.0.1")
    program.write_bytes(b"#!/bin/sh\nprintf '\\377\\376\\310' >&2\n")
    with pytest.raises(InputError) as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}, places=())
    assert caught.value.faults[0].given == "no Java"


def test_a_path_without_bash_is_a_fault_that_names_it(tmp_path):
    (fault,) = bash_faults({"PATH": str(tmp_path)})

    assert (fault.field, fault.given, fault.allowed) == ("PATH", repr(str(tmp_path)), "a path with bash on it")
    assert "bash is not on the path" in fault.message


def test_a_path_with_bash_on_it_is_enough(tmp_path):
    program = tmp_path / "bash"
    program.write_text("#!/bin/sh\n")
    assert bash_faults({"PATH": str(tmp_path)}) != []
    program.chmod(0o755)

    assert bash_faults({"PATH": str(tmp_path)}) == []
