"""Backlog, arrival rate and lag of one query, with values worked out by hand."""

from __future__ import annotations

from math import inf, nan

import pytest

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.model import Assessment, Batch, Cluster, Executor, Observation, Offsets, PartitionOffsets, QueryReading

SETTINGS = AnalysisSettings(objective_lag_s=30.0, rate_window_s=20.0, failure_window_s=20.0)


def part(latest, planned, committed, number=0):
    return PartitionOffsets("clicks", number, latest, planned, committed)


def look(at, *partitions, offsets_at=None, exact=True, because=None):
    offsets = Offsets.of(at if offsets_at is None else offsets_at, partitions, exact, because)
    query = QueryReading("q", "run", None, 2.0, offsets=offsets, batch=Batch(at, 1, 1.0))
    return Observation(at, (query,), Cluster.of(at, (Executor("0", "host", 1, 0),)))


def run(*observations: Observation, settings: AnalysisSettings = SETTINGS) -> Assessment:
    """The assessment of the last of them."""
    state, seen = AnalysisState(), Assessment(0.0)
    for observation in observations:
        seen, state = analyze(observation, state, settings)
    return seen


def test_two_partitions_add_up():
    seen = run(
        look(0.0, part(1000, 1000, 1000), part(500, 500, 500, 1)),
        look(10.0, part(1200, 1100, 1050), part(600, 600, 500, 1)),
    )
    assert seen.backlog == 250  # 150 + 100
    assert seen.waiting == 100  # 100 + 0
    assert seen.in_flight == 150  # 50 + 100
    assert seen.arrival_rate == 30.0  # 20 + 10
    assert seen.partitions == 2


def test_lag_is_the_age_of_the_oldest_uncommitted_record_of_the_worst_partition():
    seen = run(
        look(0.0, part(1000, 1000, 1000), part(500, 500, 500, 1)),
        look(10.0, part(1200, 1100, 1050), part(600, 600, 500, 1)),
        look(14.0, part(1280, 1100, 1050), part(640, 600, 575, 1)),
    )
    # partition 0: record 1050 came at 2.5, so 11.5 s old; partition 1: record 575 came at 7.5, so 6.5 s old
    assert seen.lag_s == 11.5


@pytest.mark.parametrize(
    ("observations", "lag_s"),
    [
        pytest.param([look(0.0, part(10, 10, 10))], None, id="one sample"),
        pytest.param([look(0.0, part(10, 10, 10)), look(5.0, part(10, 10, 10))], 0.0, id="nothing waits"),
        pytest.param([look(0.0, part(10, 10, 10)), look(5.0, part(20, 20, 20))], 0.0, id="all is committed"),
        pytest.param([look(0.0, part(10, 0, 0)), look(5.0, part(20, 0, 0))], 5.0, id="older than what we saw: a bound"),
        pytest.param(
            [look(0.0, part(10, 10, 10)), look(5.0, part(10, 10, 10)), look(10.0, part(20, 10, 10))],
            5.0,
            id="after a pause: from the pause's last sample",
        ),
        pytest.param(
            [look(0.0, part(0, 0, 0)), look(10.0, part(100, 0, 0)), look(25.0, part(100, 50, 50), offsets_at=10.0)],
            20.0,
            id="records go on ageing while readings are stale",
        ),
        pytest.param(
            [look(0.0, part(0, 0, 0)), look(10.0, part(100, 50, 50), offsets_at=10.5)],
            5.25,
            id="a reading made just after the observation began",
        ),
    ],
)
def test_lag(observations, lag_s):
    assert run(*observations).lag_s == lag_s


@pytest.mark.parametrize(
    ("latest", "at", "lag_s", "waited_s"),
    [
        pytest.param(10, 15.0, 0.0, 0.0, id="nothing waits"),
        pytest.param(11, 15.0, 15.0, 0.0, id="one record, new: it came within the 15 s before"),
        pytest.param(11, 20.0, 20.0, 5.0, id="one record that the look before found"),
        pytest.param(1510, 15.0, 15.0, 14.99, id="one of many"),
    ],
)
def test_what_a_record_has_waited_for_certain(latest, at, lag_s, waited_s):
    looks = [look(now, part(10 if now == 0.0 else latest, 10, 10)) for now in (0.0, 15.0, at)]
    seen = run(*looks)
    assert seen.lag_s == lag_s
    assert seen.waited_s == pytest.approx(waited_s)


@pytest.mark.parametrize(
    ("readings", "rate"),
    [
        pytest.param([(0.0, 0)], None, id="one sample"),
        pytest.param([(0.0, 0), (3.0, 30)], 10.0, id="two samples"),
        pytest.param([(0.0, 0), (3.0, 30), (4.0, 40), (11.0, 110)], 10.0, id="irregular cycles"),
        pytest.param([(0.0, 0), (10.0, 100), (20.0, 400), (30.0, 400)], 15.0, id="over the window of 20 s only"),
        pytest.param([(0.0, 0), (40.0, 400), (50.0, 700)], 20.0, id="a gap: the part of it that the window reaches"),
        pytest.param([(0.0, 50), (10.0, 50)], 0.0, id="nothing arrives: a known zero"),
        pytest.param([(0.0, 900), (10.0, 1000), (20.0, 10)], None, id="topic recreated: from the start"),
        pytest.param([(0.0, 900), (10.0, 10), (20.0, 50)], 4.0, id="topic recreated, two samples since"),
        pytest.param([(0.0, 0), (10.0, 100), (10.0, 100)], 10.0, id="the same reading again"),
        pytest.param([(100.0, 0), (110.0, 100), (50.0, 200)], None, id="the clock was set back"),
    ],
)
def test_arrival_rate(readings, rate):
    looks = [look(at, part(latest, 0, 0)) for at, latest in readings]
    assert run(*looks).arrival_rate == rate


@pytest.mark.parametrize(
    ("last", "known"),
    [
        pytest.param([part(20, 20, 20)], {}, id="a partition left out"),
        pytest.param([part(20, 20, 20), part(None, 9, 9, 1)], {}, id="a latest offset unknown"),
        pytest.param(
            [part(20, 20, 20), part(15, 9, 9, 1), part(7, 0, 0, 2)],
            {"backlog": 13, "waiting": 13, "arrival_rate": 1.5, "lag_s": 10.0},
            id="new: it counts from the second look on",
        ),
        pytest.param([part(20, 20, 20), part(15, 9, None, 1)], {"arrival_rate": 1.5}, id="committed unknown"),
        pytest.param(
            [part(20, 20, 20), part(15, None, 9, 1)],
            {"arrival_rate": 1.5, "backlog": 6, "lag_s": 10.0},
            id="planned unknown: only the split is missing",
        ),
    ],
)
def test_an_unknown_partition_makes_sums_unknown_and_never_zero(last, known):
    seen = run(look(0.0, part(10, 10, 10), part(10, 9, 9, 1)), look(10.0, *last))
    for name in ("arrival_rate", "backlog", "waiting", "in_flight", "lag_s"):
        expected = known.get(name, 0 if name == "in_flight" and "waiting" in known else None)
        assert getattr(seen, name) == expected, name
    assert seen.missing == tuple(
        name for name in ("arrival_rate", "backlog", "backlog_excess", "lag_s") if getattr(seen, name) is None
    )


def test_a_partition_that_stays_away_for_longer_than_the_window_is_gone():
    both = look(0.0, part(10, 10, 10), part(10, 10, 10, 1))
    alone = [look(10.0 * i, part(10 + 10 * i, 10, 10)) for i in range(1, 5)]
    assert run(both, *alone[:3]).backlog is None  # away since 10, now 30: 20 s
    assert run(both, *alone).backlog == 40
    assert run(both, *alone).arrival_rate == 1.0


def test_a_partition_that_comes_back_goes_on_with_its_past():
    looks = [look(0.0, part(0, 0, 0), part(0, 0, 0, 1)), look(5.0, part(50, 0, 0))]
    seen = run(*looks, look(10.0, part(100, 0, 0), part(200, 0, 0, 1)))
    assert (seen.arrival_rate, seen.backlog, seen.lag_s) == (30.0, 300, 10.0)


@pytest.mark.parametrize(
    ("last", "backlog", "invalid"),
    [
        pytest.param(part(100, 105, 90), (0, 15, 15), (), id="a batch planned just after latest was read"),
        pytest.param(part(100, 105, 105), (0, 0, 0), (), id="a batch ended just after latest was read"),
        pytest.param(part(100, 80, 90), (10, 0, 10), (), id="planned read before committed"),
        pytest.param(part(30, 80, 80), (None, None, None), ("offsets.committed",), id="committed in another topic"),
    ],
)
def test_positions_are_not_read_at_one_instant(last, backlog, invalid):
    first = part(200 if last.latest == 30 else 50, 80, 80)
    seen = run(look(0.0, first), look(10.0, last))
    assert (seen.waiting, seen.in_flight, seen.backlog) == backlog
    assert seen.invalid == invalid


def test_a_recreated_topic_never_reads_as_an_empty_backlog():
    looks = [look(0.0, part(1000, 900, 900)), look(10.0, part(5, 950, 950)), look(20.0, part(40, 950, 950))]
    for count in (2, 3):
        seen = run(*looks[:count])
        assert (seen.backlog, seen.backlog_excess, seen.lag_s) == (None, None, None)
        assert seen.invalid == ("offsets.committed",)


@pytest.mark.parametrize("bad", [nan, inf, -inf, -1])
@pytest.mark.parametrize("name", ["latest", "planned", "committed"])
def test_an_impossible_offset_is_unknown_and_named(name, bad):
    figures = {"latest": 20, "planned": 15, "committed": 15, name: bad}
    seen = run(look(0.0, part(10, 10, 10)), look(10.0, part(**figures)))
    assert seen.invalid == (f"offsets.{name}",)
    assert seen.waiting is None
    assert (seen.backlog is None) == (name != "planned")
    assert (seen.arrival_rate is None) == (name == "latest")


def other(latest, committed, topic="views"):
    return PartitionOffsets(topic, 0, latest, committed, committed)


def test_no_partition_at_all_is_an_empty_source():
    """As of a pattern that no topic matches; a source that could not be read has no offsets at all."""
    seen = run(look(0.0))
    assert (seen.backlog, seen.arrival_rate, seen.lag_s, seen.partitions) == (0, 0.0, 0.0, 0)
    seen = run(look(0.0), look(10.0, part(100, 40, 40)))
    assert (seen.missing, seen.backlog, seen.arrival_rate, seen.lag_s) == ((), 60, 0.0, 0.0)
    seen = run(look(0.0), look(10.0, part(100, 40, 40)), look(20.0, part(200, 40, 40)))
    assert (seen.missing, seen.backlog, seen.arrival_rate, seen.lag_s) == ((), 160, 10.0, 10.0)


def test_a_topic_that_is_gone_counts_as_it_was_and_then_no_more():
    """20 records of it wait; nobody waits for them."""
    both = [look(at, part(int(10 * at), 0, 0), other(100, 80)) for at in (0.0, 10.0)]
    alone = [look(at, part(int(10 * at), int(10 * at), int(10 * at))) for at in (20.0, 30.0, 40.0, 50.0)]
    for count, backlog in ((1, 20), (3, 20), (4, 0)):
        seen = run(*both, *alone[:count])
        assert (seen.missing, seen.backlog, seen.arrival_rate, seen.lag_s) == ((), backlog, 10.0, 0.0)
        assert seen.partitions == 1


def test_topics_that_come_and_go_leave_every_sample_complete():
    """1000 records/s in a topic that stays; beside it a new one each minute, with 5/s, which is deleted then."""
    looks = []
    for step in range(1, 120):
        at, number = 15.0 * step, step // 4
        came = part(int(1000 * at), int(1000 * at) - 500, int(1000 * at) - 500)
        brief = 5 * int(at - 60 * number)
        looks.append(look(at, came, other(brief, 0, f"minute-{number:03}")))
    state, seen = AnalysisState(), list[Assessment]()
    for each in looks:
        assessment, state = analyze(each, state, SETTINGS)
        seen.append(assessment)
    assert [each.at for each in seen if each.missing or each.invalid] == [15.0]
    assert all(1000.0 <= (each.arrival_rate or 0.0) <= 1005.0 for each in seen[1:])
    assert all((each.lag_s or 0.0) <= 60.0 for each in seen[1:])


def test_a_deleted_and_a_new_topic_at_once():
    seen = run(look(0.0, other(100, 100, "old")), look(10.0, other(200, 200, "old")), look(20.0, other(50, 0, "new")))
    assert (seen.missing, seen.backlog, seen.partitions) == ((), 50, 1)


def test_an_inexact_source_is_said_to_be_one():
    assert run(look(0.0, part(1, 1, 1), exact=False, because="compaction")).backlog_exact is False
    assert run(look(0.0, part(1, 1, 1))).backlog_exact is True


def test_the_history_reaches_back_as_far_as_the_backlog_does():
    """Committed stays at 100 for an hour; its age stays right although few samples are kept."""
    state = AnalysisState()
    for step in range(1801):
        at = 2.0 * step
        seen, state = analyze(look(at, part(100 + int(50 * at), 100, 100)), state, SETTINGS)
        assert step == 0 or seen.lag_s == pytest.approx(at)
    assert len(state.queries[0].offsets.times) <= SETTINGS.max_samples
    seen, _ = analyze(look(3602.0, part(180_200, 90_100, 90_100)), state, SETTINGS)
    assert seen.lag_s == pytest.approx(1802.0)  # record 90 100 came at 1800
    assert seen.arrival_rate == pytest.approx(50.0)
