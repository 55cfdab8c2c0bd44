"""How far a benchmark is: from the driver's file to a line on standard error."""

import inspect
from typing import Any, cast

import pytest

from rheostat.cli import main
from rheostat.cli.research import BENCHMARKS, benchmark
from rheostat.research.bench.harness import Bench, Driver, progress_in


def test_what_the_driver_says_is_passed_on_once(tmp_path):
    told = []
    driver = Driver(cast(Any, None), cast(Any, None), tmp_path, lambda *said: told.append(said))
    say = progress_in(tmp_path)

    before = driver._pass_on("")
    say(0, 0, "warming up")
    same = driver._pass_on(driver._pass_on(before))
    say(3, 11, "rescales")
    driver._pass_on(same)

    assert told == [(0, 0, "warming up"), (3, 11, "rescales")]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_can_be_watched(name):
    assert list(inspect.signature(benchmark(name)).parameters)[:1] == ["watch"]


def test_without_a_terminal_a_benchmark_says_lines(capsys, monkeypatch):
    def run(watch):
        watch(0, 2, "blocks")
        watch(1, 2, "blocks")
        watch(0, 0, "end")
        return Bench("decision", [])

    monkeypatch.setattr("rheostat.research.bench.speed.run_decision", run)
    assert main(["bench", "decision"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["bench decision: blocks 0 of 2", "bench decision: end"]
