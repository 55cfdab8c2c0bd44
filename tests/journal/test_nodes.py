"""Nodes and placements in a journal: they come back as they were, and a record of many nodes stays short."""

import dataclasses
from itertools import combinations

import pytest
from tests.journal import synthetic

from rheostat.journal.records import DecisionRecord, Header
from rheostat.journal.store import JournalWriter, read_journal
from rheostat.model import CpuUse, ExecutorCpu, NodeCpu, NodeReading, Nodes, Placement, RoundTrip


def nodes(at, names, used, trips=None):
    rows = tuple(NodeReading(name, used.get(name, 0), 2 - used.get(name, 0)) for name in names)
    trips = {pair: 10.0 + len(pair[0]) for pair in combinations(names, 2)} if trips is None else trips
    return Nodes(at, rows, tuple(RoundTrip(a, b, ms) for (a, b), ms in sorted(trips.items())))


def written(folder, readings, placements=(), seen=()):
    """Synthetic cycles with these nodes and placements, in a journal; what was written, and what is read."""
    placements = [*placements, *[None] * (len(readings) - len(placements))]
    more = [*seen, *[{}] * (len(readings) - len(seen))]
    some = [
        (
            dataclasses.replace(seen, nodes=reading, **extra),
            dataclasses.replace(meant, nodes=reading),
            dataclasses.replace(decided, placement=placement),
        )
        for (seen, meant, decided), reading, placement, extra in zip(
            synthetic.cycles(len(readings)), readings, placements, more, strict=True
        )
    ]
    writer = JournalWriter(folder)
    writer.start(Header("0", {}, seed=7))
    for cycle in some:
        writer.record(DecisionRecord.of(*cycle), dict)
    writer.close()
    return some, [record for record in read_journal(folder) if isinstance(record, DecisionRecord)]


def test_nodes_come_back_as_they_change(tmp_path):
    readings = [
        nodes(5.0, ["a", "b", "c"], {"a": 1}),
        nodes(20.0, ["a", "b", "c"], {"a": 1, "b": 2}),
        nodes(35.0, ["a", "b", "c"], {"a": 1}, {("a", "b"): 1.23, ("a", "c"): 1 / 3, ("b", "c"): 0.0}),
        None,
        nodes(50.0, ["a", "c"], {"c": 1}),
        nodes(65.0, ["a", "b", "c"], {"a": 1}),
        nodes(80.0, ["a", "b", "c"], {}, {}),
        nodes(95.0, [], {}, {}),
    ]
    some, records = written(tmp_path, readings)
    assert [record.observation for record in records] == [seen for seen, _, _ in some]
    assert [record.assessment.nodes for record in records] == readings


def test_processor_time_comes_back_as_it_changes(tmp_path):
    def cpu(*busy, speed=1.0):
        return CpuUse(
            (NodeCpu("a", 2, busy[0], speed),), tuple(ExecutorCpu(str(n), "a", each) for n, each in enumerate(busy[1:]))
        )

    readings = [
        cpu(1.5, 0.25),
        cpu(1.75, 1 / 3),
        None,
        cpu(0.0, 0.25, 0.75),
        cpu(1.5, 0.125),
        CpuUse(()),
        cpu(0.5, speed=2.5),
    ]
    some, records = written(tmp_path, [None] * len(readings), seen=[{"cpu": each} for each in readings])
    assert [record.observation for record in records] == [seen for seen, _, _ in some]
    assert [record.observation.cpu for record in records] == readings


def test_executors_come_back_with_their_nodes(tmp_path):
    [(seen, meant, decided)] = synthetic.cycles(1, synthetic.Shape(executors=3))
    assert seen.cluster is not None
    roster = dataclasses.replace(seen.cluster.roster, nodes=("near", None, "far"))
    seen = dataclasses.replace(seen, cluster=dataclasses.replace(seen.cluster, roster=roster))
    writer = JournalWriter(tmp_path)
    writer.start(Header("0", {}, seed=7))
    writer.record(DecisionRecord.of(seen, meant, decided), dict)
    writer.close()
    [read] = [record.observation for record in read_journal(tmp_path) if isinstance(record, DecisionRecord)]
    assert read == seen


def test_placements_come_back(tmp_path):
    placements = [
        Placement(("a", "a", "b"), ("a", "b"), ()),
        Placement(("a",), (), ("b", "a", "b", "b")),
        Placement(("a",), ("a",), (), ("b", "c")),
        Placement(()),
        None,
    ]
    _, records = written(tmp_path, [None] * 5, placements)
    assert [record.decision.placement for record in records] == placements


@pytest.mark.parametrize(
    ("count", "measured"), [(20, True), (40, False)], ids=["20 nodes, all ways measured anew", "40 nodes at rest"]
)
def test_a_record_of_many_nodes_stays_under_2_kib(tmp_path, count, measured):
    names = [f"node-{number:02}" for number in range(count)]
    pairs = list(combinations(names, 2))
    readings = [
        nodes(
            15.0 * cycle,
            names,
            {names[cycle]: 1},
            {pair: 20.0 + (measured * 7 * cycle + place) % 50 / 10 for place, pair in enumerate(pairs)},
        )
        for cycle in range(8)
    ]
    written(tmp_path, readings)
    lines = next(tmp_path.glob("*.jsonl")).read_bytes().splitlines()
    sizes = [len(line) for line in lines if line.startswith(b'{"type":"decision"')]
    assert len(sizes) == 8
    assert max(sizes) <= 2048
