"""The experiments of S5's talk: what they are made of, on short loads."""

import json
from dataclasses import replace
from typing import Any

import pytest

from rheostat.cli import main
from rheostat.judge.cases import PolicySpec
from rheostat.judge.scoring import TimeSeries
from rheostat.model import ReasonCode
from rheostat.research.papers import s5 as setting
from rheostat.research.papers.results import Experiment, write_experiment
from rheostat.research.papers.s5 import (
    PARTS,
    STATEMENTS,
    Change,
    Failover,
    PolicyRun,
    Scene,
    count_answered,
    count_round_trips,
    part_of,
    play,
    table_rows,
)

DOWN, UP = ReasonCode.OVERSIZED, ReasonCode.UNDERSIZED


def played(*acts: tuple[float, int, int], **more: object) -> PolicyRun:
    decisions = tuple(
        Change(at, before, after, UP if after > before else DOWN if after < before else ReasonCode.STEADY, "")
        for at, before, after in acts
    )
    values: dict[str, Any] = {
        "executor_hours": 10.0, "changes": len(acts), "violation_s": 0.0, "lag_max": 40.0, "cost": 10.5, "static": 5,
        "static_hours": 20.0, "cooldown_s": 60.0, "faults": (), "lines": TimeSeries([], [], []), **more,
    }  # fmt: skip
    return PolicyRun(decisions=decisions, **values)


def held(part: str, number: int, runs: dict[str, PolicyRun]) -> bool:
    return STATEMENTS[part][number].check({name: (run,) for name, run in runs.items()})[0]


@pytest.mark.parametrize(
    ("acts", "trips"),
    [
        pytest.param([(0.0, 2, 3), (119.0, 3, 2)], 1, id="up and down within two cooldowns"),
        pytest.param([(0.0, 2, 3), (120.0, 3, 2)], 0, id="two cooldowns later"),
        pytest.param([(0.0, 3, 2), (60.0, 2, 3)], 0, id="down and up is a surge"),
        pytest.param([(0.0, 2, 3), (60.0, 3, 4), (150.0, 4, 3)], 1, id="the last increase counts"),
    ],
)
def test_round_trips(acts, trips):
    run = played(*acts)
    assert run.round_trips == count_round_trips(run.acts, 120.0) == trips


def test_a_spike_is_answered_by_an_increase_while_figures_show_it_that_is_not_there_without_it():
    spiked = played((180.0, 4, 7), (420.0, 7, 4), (1000.0, 4, 5), (2000.0, 5, 5))
    calm = played((1020.0, 4, 5), (2000.0, 5, 5))
    assert count_answered(spiked, calm, (0.0,)) == 1  # the figures show second 0 at second 120
    assert count_answered(spiked, calm, (0.0, 870.0)) == 1  # at 1000 s it is raised without the spike too
    assert count_answered(spiked, calm, (100.0,)) == 0


def test_statements_hold_where_the_figures_do():
    cheap, dear = played(), played(cost=11.0, lag_max=90.0)
    runs = {"router": cheap, "reactive": dear, "hpa": dear, "flink": dear}
    assert [held("sine", number, runs) for number in range(3)] == [True, True, True]
    assert not held("sine", 0, {"router": played(lag_max=301.0, violation_s=1.0)})
    assert not held("sine", 1, {"router": played((0.0, 2, 3), (60.0, 3, 2))})
    assert held("sine", 1, {"router": cheap, "hpa": played((0.0, 2, 3), (60.0, 3, 2))})
    assert not held("sine", 2, {**runs, "hpa": played(cost=10.4)})
    assert held("day", 3, runs)
    assert not held("day", 3, {**runs, "router": played(cost=11.6)})


def test_the_fleet_is_summed():
    runs = {1: {"router": (played(), played()), "hpa": (played(executor_hours=11.0),) * 2}}
    assert [statement.judge(runs).ours for statement in STATEMENTS["fleet"][:3]] == [
        "20 for 40 executor-hours: 50.0 % less",
        "20 for 22 executor-hours: 9.1 % less",
        "0 s and 0 s",
    ]
    assert table_rows(runs)[1] == ["router", "21.0", "20.0", "50%", "0", "0", "40"]


@pytest.fixture(scope="module")
def waves() -> PolicyRun:
    """Forty minutes of the wave, by the router of the talk."""
    scene = setting.sine(1, 2400.0)
    return play(scene, setting.policy_spec("router"), 1)


class TestARun:
    def test_decides_once_a_minute_on_figures_of_two_minutes_ago(self, waves):
        assert [each.at for each in waves.decisions[:3]] == [0.0, 60.0, 120.0]
        assert not waves.with_code(ReasonCode.METRICS_STALE)
        assert waves.faults == ()

    def test_never_falls_back_to_the_number_that_old_figures_show(self, waves):
        for last, now in zip(waves.decisions, waves.decisions[1:], strict=False):
            assert now.before == last.after
        assert len(waves.acts) >= 2

    def test_has_lines_to_the_end(self, waves):
        assert waves.lines.paid[-1][0] == waves.lines.capacity[-1][0] >= 2400.0
        assert waves.violation_s == 0


def test_as_published_the_number_in_force_stays_too():
    scene = setting.sine(1, 2400.0)
    run = play(scene, setting.policy_spec("router:faithful"), 1)
    assert run.acts
    assert all(now.before == last.after for last, now in zip(run.decisions, run.decisions[1:], strict=False))


def test_a_failover_blocks_decreases_from_its_begin_to_its_end():
    scene = setting.incident("failover", 1)
    load = replace(scene.load, curve=scene.load.curve.between(3000.0, 4800.0))  # its traffic goes after 600 s
    run = play(Scene(scene.job, load), PolicySpec("router"), 1, Failover(600.0, 900.0))
    blocked = [each.at for each in run.with_code(ReasonCode.FAILOVER)]
    assert 600.0 <= blocked[0] < 900.0
    assert blocked[-1] == 885.0 + 300.0 - 15.0  # the last look with the switch on was at 885 s
    fewer = [each.at for each in run.acts if each.after < each.before]
    assert [at for at in fewer if 600.0 <= at < 1185.0] == []
    assert fewer[-1] >= 1185.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("incident", "seed"),
    [
        pytest.param("slow", 3, id="one slow node"),
        pytest.param("sink", 2, id="a sick sink"),
        pytest.param("failover", 3, id="a failover"),
        pytest.param("17", 1, id="17 partitions"),
        pytest.param("31", 1, id="31 partitions"),
        pytest.param("97", 1, id="97 partitions"),
    ],
)
def test_a_policy_that_is_made_to_jump_makes_no_round_trip(incident, seed):
    """In each of these runs ds2 goes up and soon down again if it may."""
    scene = setting.incident(incident, seed)
    if incident.isdigit():  # one wave of the two
        scene = scene._replace(load=replace(scene.load, curve=scene.load.curve.between(0.0, 7200.0)))
    thrown = setting.FAILOVER if incident == "failover" else None
    run = play(scene, PolicySpec("ds2"), seed, thrown)
    assert (run.round_trips, run.faults) == (0, ())
    assert {DOWN, UP} <= {each.code for each in run.acts}


def test_loads_are_as_they_are_said_to_be():
    spiked, calm = (setting.spikes(3, among=among).load.curve for among in (True, False))
    times = setting.spike_times(3)
    assert len(times) == 5
    ratios = [
        (spiked.cumulative(at + 60) - spiked.cumulative(at)) / (calm.cumulative(at + 60) - calm.cumulative(at))
        for at in (*times, 600.0)
    ]
    assert ratios == pytest.approx([1.4] * 5 + [1.0], rel=0.01)
    assert setting.day(1).load.curve.duration == 86_400
    jobs = [setting.fleet_job(1, number).job for number in range(3)]
    assert len({(job.n_max, job.partitions, job.stages[1].cost_ms) for job in jobs}) == 3
    assert setting.incident("97", 1).job.partitions == 97


def test_the_page_has_statements_tables_and_plots(tmp_path, waves):
    runs = {1: {"router": (waves,), "hpa": (waves,)}}
    part = part_of("fleet", [STATEMENTS["fleet"][2].judge(runs)], runs)
    found = Experiment("s5", [part], (1,))
    text = write_experiment(tmp_path / "report.html", found).read_text(encoding="utf-8")
    assert all(
        words in text
        for words in ("1 of 1 statements hold. Seeds: 1.", "of a fleet of 16", "Executors paid for", "Lag, s")
    )


def test_every_part_has_statements_of_its_own():
    assert tuple(STATEMENTS) == PARTS
    ids = [statement.id for part in STATEMENTS.values() for statement in part]
    assert len(ids) == len(set(ids)) == 21


def test_options_of_other_experiments_are_refused(capsys, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("second,events_per_second\n0,1\n60,2\n")
    assert main(["experiment", "s5", "--part", "sine,5.2", "--trace", str(trace), "--live", "--json"]) == 2
    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert [fault["field"] for fault in faults] == ["part", "trace", "live"]
