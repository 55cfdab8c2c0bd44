import subprocess
import sys
from typing import Any, cast

import pytest

import rheostat
from rheostat.errors import InputError

NO_SESSION = cast("Any", None)


def test_every_wrong_argument_is_named_at_once():
    with pytest.raises(InputError) as caught:
        rheostat.attach(NO_SESSION, objective="lag under 3", executors=(5, 2), mode="fly", policy="")
    assert {fault.field for fault in caught.value.faults} == {"objective", "executors", "mode", "policy"}


def test_switched_off_by_the_environment_it_does_nothing(monkeypatch):
    monkeypatch.setenv("RHEOSTAT_DISABLED", "1")
    with rheostat.attach(NO_SESSION, objective="lag < 30s", executors=(1, 5)) as attachment:
        attachment.pause()
        attachment.resume()
        attachment.set_bounds(1, 3)
        attachment.failover(on=True)
        assert attachment.status() is None


def test_what_has_no_effect_is_logged(monkeypatch, caplog):
    monkeypatch.setenv("RHEOSTAT_DISABLED", "1")
    config = {"metrics": {"host": "10.0.0.7"}, "guard": {"align_most": 0.5}}
    rheostat.attach(NO_SESSION, objective="lag < 30s", executors=(1, 5), config=config)
    told = [record.getMessage() for record in caplog.records if "no effect" in record.getMessage()]
    assert told == [
        "metrics.host: has no effect, because nothing is served: give metrics.port (given: '10.0.0.7')",
        "guard.align_most: has no effect, because nothing is aligned: give guard.align_to (given: 0.5)",
    ]


def test_wrong_arguments_are_told_also_when_it_is_switched_off(monkeypatch):
    monkeypatch.setenv("RHEOSTAT_DISABLED", "1")
    with pytest.raises(InputError):
        rheostat.attach(NO_SESSION, objective="lag < 0s")


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        pytest.param(
            "import rheostat", {"numpy", "scipy", "pydantic", "pyspark", "httpx", "yaml"}, id="importing the package"
        ),
        pytest.param(
            "import rheostat.attachment, rheostat.attachment",
            {"numpy", "scipy", "httpx", "confluent_kafka", "rich", "typer", "pyarrow", "pandas", "prometheus_client"},
            id="everything that attaching needs",
        ),
    ],
)
def test_imports_stay_light(statement, heavy):
    listing = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True).stdout.split()
    assert heavy.isdisjoint(loaded)


def test_the_surface_is_closed():
    assert set(rheostat.__all__) == {"Attachment", "__version__", "attach"}
    assert all(hasattr(rheostat, name) for name in rheostat.__all__)
