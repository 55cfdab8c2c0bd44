"""An actuator is one file and its entry point: here one of another package, installed into a temporary folder."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rheostat.attachment import assemble
from rheostat.config.loading import load_settings
from rheostat.decide.settings_check import check_settings
from rheostat.errors import InputError, RefusedError
from rheostat.execute.actuator import build_actuator, load_actuator
from rheostat.execute.live import LiveExecutors
from rheostat.execute.workers import WorkersActuator
from rheostat.spark.jvm import SessionFacts
from rheostat.testing.fakes import ToyJob

STANDALONE = SessionFacts(connect=False, master="spark://host:7077", deploy="standalone", executor_cores=1)
ACT = {"objective": "lag < 30s", "executors": [2, 4], "profile": "demo", "mode": "act"}

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def example_of_the_page() -> str:
    blocks = re.findall(r"   ```python\n(.*?)   ```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return textwrap.dedent(next(block for block in blocks if "class PrintedCommands" in block))


PRINTED = example_of_the_page()
OTHER = "printed-elsewhere"
"""Not the name of the page: whoever follows the page in this repository registers that one."""

SESSION = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-7"))


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package with one module and these actuators."""

    def install(package: str, module: str, **actuators: str) -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in actuators.items()]
        (info / "entry_points.txt").write_text("\n".join(["[rheostat.actuators]", *lines, ""]))
        (folder / f"{package}.py").write_text(module)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, package, raising=False)

    return install


def faults_of(name):
    with pytest.raises(InputError) as caught:
        load_actuator(name)
    return [(fault.field, fault.given, fault.message) for fault in caught.value.faults]


def test_the_built_in_ones_come_through_entry_points():
    assert (load_actuator("executors"), load_actuator("workers")) == (LiveExecutors, WorkersActuator)


def test_one_of_another_package_executes_the_decisions(install, capsys):
    install("otherpackage", PRINTED, **{OTHER: "otherpackage:PrintedCommands"})
    settings = check_settings({**ACT, "actuator": OTHER})

    assembly = assemble(cast("Any", SESSION), STANDALONE, settings, [ToyJob(executors=1)])
    assembly.loop.cycle()

    actuator: Any = assembly.actuator
    assert (type(actuator).__name__, actuator.requested) == ("PrintedCommands", 2)
    assert capsys.readouterr().out == "scale app-7 to 2\n"
    assembly.loop.stop()
    assembly.run()


@pytest.mark.parametrize("mode", ["act", "dry-run"])
def test_its_refusals_are_reported_with_all_others(install, mode):
    install("otherpackage", PRINTED, **{OTHER: "otherpackage:PrintedCommands"})
    settings = load_settings({**ACT, "actuator": OTHER, "mode": mode})

    with pytest.raises(RefusedError) as caught:
        assemble(
            cast("Any", SESSION), SessionFacts(connect=False, master="local[2]", deploy="local"), settings, [ToyJob()]
        )

    assert [fault.field for fault in caught.value.faults] == ["spark.master", "actuator"]


def test_a_mistyped_name_gets_a_hint_and_the_list_together_with_other_faults(install):
    install("otherpackage", PRINTED, **{OTHER: "otherpackage:PrintedCommands"})
    with pytest.raises(InputError) as caught:
        check_settings({"objective": "soon", "actuator": "worker"})

    told = {fault.field: fault for fault in caught.value.faults}
    assert set(told) == {"objective", "actuator"}
    assert told["actuator"].given == "'worker'"
    assert {"executors", OTHER, "workers"} <= set(told["actuator"].allowed.split(" | "))
    assert told["actuator"].message == (
        "no such actuator; did you mean 'workers'? A new one is found after its entry point in `rheostat.actuators` "
        "was added and its package installed again"
    )


@pytest.mark.parametrize("value", [3, "", None, ["workers"]], ids=["a number", "no text", "null", "a list"])
def test_what_is_no_name_is_one_fault(value):
    with pytest.raises(InputError) as caught:
        check_settings({**ACT, "actuator": value})
    assert [fault.field for fault in caught.value.faults] == ["actuator"]


def test_one_that_cannot_be_imported_says_why(install):
    install("broken", "import no_such_package_of_ours", broken="broken:PrintedCommands")
    [(field, given, message)] = faults_of("broken")
    assert (field, given) == ("actuator", "broken")
    assert message == (
        "the actuator of the package broken cannot be loaded: "
        "ModuleNotFoundError: No module named 'no_such_package_of_ours'"
    )


def test_what_cannot_be_built_is_no_actuator(install):
    install("plain", "", plain="builtins:dict")
    assert faults_of("plain") == [("actuator", "plain", "builtins:dict is not an actuator: it has no build")]


UNFINISHED = """
class Unfinished:
    @classmethod
    def build(cls, context): ...
    def apply(self, decision): ...

class Factory:
    def build(self, context):
        return Unfinished()

class Nothing:
    def build(self, context):
        return None

factory, nothing = Factory(), Nothing()
"""


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param("Unfinished", "unfinished:Unfinished is not an actuator: it has no poll, no close", id="a class"),
        pytest.param("factory", "build returned <Unfinished>: it has no poll, no close", id="what a factory builds"),
        pytest.param("nothing", "build returned None: it has no apply, no poll, no close", id="None"),
    ],
)
def test_what_lacks_a_method_is_no_actuator(install, entry, message):
    install("unfinished", UNFINISHED, unfinished=f"unfinished:{entry}")
    with pytest.raises(InputError) as caught:
        build_actuator("unfinished", cast("Any", None))
    [fault] = caught.value.faults
    assert (fault.field, fault.given) == ("actuator", "unfinished")
    assert re.sub(r"<unfinished\.(\w+) .*?>", r"<\1>", fault.message) == message


def test_two_packages_under_one_name_are_refused(install):
    install("otherpackage", PRINTED, workers="otherpackage:PrintedCommands")
    [(_, _, message)] = faults_of("workers")
    assert message.startswith("registered more than once: ")
    assert {"rheostat.execute.workers:WorkersActuator", "otherpackage:PrintedCommands"} == set(
        message.partition(": ")[2].split(", ")
    )


def test_a_journal_of_another_actuator_loads_where_it_is_not_installed():
    assert load_settings({**ACT, "actuator": "elsewhere"}).actuator == "elsewhere"


def test_only_the_actuator_that_is_used_is_imported():
    listing = (
        "from rheostat.execute.actuator import load_actuator\n"
        "import rheostat.attachment, sys\n"
        "before = set(sys.modules)\n"
        "load_actuator('executors')\n"
        "print(*sorted(name for name in sys.modules if name.startswith('rheostat.execute.')))\n"
        "print(*sorted(name for name in before if name.startswith('rheostat.execute.')))\n"
    )
    command = [sys.executable, "-c", listing]
    after, before = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert before == "rheostat.execute.actuator"
    assert after == "rheostat.execute.actuator rheostat.execute.live"
