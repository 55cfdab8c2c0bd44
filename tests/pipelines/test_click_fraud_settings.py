"""Settings of the click-fraud pipeline: what is allowed, and that all faults are told at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rheostat.errors import InputError
from rheostat.pipelines.click_fraud import PIPELINE
from rheostat.pipelines.running import ClickFraudSettings, Pipeline, PipelineSettings, base_conf, parse_seconds

KAFKA = {"source": "kafka", "bootstrap": "127.0.0.1:9092", "topic": "clicks", "checkpoint": "c", "out": "o"}


def faults(**changes: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        ClickFraudSettings(**(KAFKA | changes))
    return [fault.field for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        pytest.param({"source": "pulsar"}, ["source"], id="unknown source"),
        pytest.param({"bootstrap": None, "topic": ""}, ["bootstrap", "topic"], id="Kafka without its address"),
        pytest.param({"source": "log"}, ["log"], id="the log without its folder"),
        pytest.param({"checkpoint": "", "out": ""}, ["checkpoint", "out"], id="no folders"),
        pytest.param({"out": "c"}, ["out"], id="checkpoint and output in one folder"),
        pytest.param({"starting": "newest"}, ["starting"], id="unknown start"),
        pytest.param({"cap": 0}, ["cap"], id="a cap of nothing"),
        pytest.param({"cap": True}, ["cap"], id="a cap that is no number"),
        pytest.param({"shuffle_partitions": 0}, ["shuffle_partitions"], id="no task"),
        pytest.param({"distinct_error": 0.001}, ["distinct_error"], id="a distinct count too exact"),
        pytest.param({"distinct_error": 0.5}, ["distinct_error"], id="a distinct count too rough"),
        pytest.param({"lookup_ms": -1}, ["lookup_ms"], id="a negative wait"),
        pytest.param({"trigger_s": float("nan")}, ["trigger_s"], id="an interval that is no number"),
        pytest.param({"lateness_s": float("inf")}, ["lateness_s"], id="an endless watermark"),
        pytest.param({"window_s": 0}, ["window_s"], id="no window"),
        pytest.param(
            {"source": "", "checkpoint": "", "cap": -1, "lookup_ms": -1, "window_s": 0},
            ["checkpoint", "source", "cap", "lookup_ms", "window_s"],
            id="all at once",
        ),
    ],
)
def test_faults(changes: dict[str, Any], fields: list[str]) -> None:
    assert faults(**changes) == fields


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="Kafka"),
        pytest.param({"source": "log", "log": "l", "bootstrap": None, "topic": None}, id="the log"),
        pytest.param({"cap": None, "trigger_s": 0, "lookup_ms": 0}, id="no cap, no interval, no wait"),
    ],
)
def test_allowed(changes: dict[str, Any]) -> None:
    settings = ClickFraudSettings(**(KAFKA | changes))
    assert settings.checkpoint == "c"


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("2s", 2.0), ("1.5 s", 1.5), ("3", 3.0), ("2m", 120.0), ("10min", 600.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "2 hours", "1e3"])
def test_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_seconds(text)


def test_the_program_has_an_option_for_every_setting() -> None:
    given = ["--master=local[1]", "--source=log", "--log=in", "--checkpoint=kept", "--out=out", "--trigger=100ms"]
    found = PIPELINE.read_settings(PIPELINE.parser().parse_args([*given, "--fetch-wait-ms=20", "--cap=none"]))
    assert (found.log, found.trigger_s, found.fetch_wait_ms, found.cap) == ("in", 0.1, 20, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSettings(PipelineSettings):
    suffix: str
    most_clicks: int | None = 5
    exact: bool = False


OWN = Pipeline("own", "Adds a suffix.", OwnSettings, conf=lambda _: base_conf(), build=lambda _, records: records)
COMMON = ["--master=local[1]", "--source=log", "--log=in", "--checkpoint=kept", "--out=out"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(["--suffix=x"], ("x", 5, False), id="defaults"),
        pytest.param(["--suffix=x", "--most-clicks=7", "--exact=true"], ("x", 7, True), id="of their types"),
    ],
)
def test_settings_of_its_own_get_options(given: list[str], expected: tuple[object, ...]) -> None:
    found = OWN.read_settings(OWN.parser().parse_args([*COMMON, *given]))
    assert (found.suffix, found.most_clicks, found.exact) == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param([], "the following arguments are required: --suffix", id="none, without a default"),
        pytest.param(
            ["--suffix=x", "--most-clicks=many"], "--most-clicks: invalid setting value: 'many'", id="no number"
        ),
    ],
)
def test_wrong_options_of_its_own(given: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        OWN.parser().parse_args([*COMMON, *given])
    assert says in capsys.readouterr().err
