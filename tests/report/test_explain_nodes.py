from dataclasses import replace

from tests.journal import synthetic

from rheostat.journal.records import DecisionRecord, Header, SessionRecord
from rheostat.model import NodeReading, Nodes, Placement
from rheostat.report.explain import Story, explain_decision

NODES = Nodes(5.0, (NodeReading("a", 2, 0), NodeReading("b", 1, 1), NodeReading("c", 0, 3)))


def told(nodes, placement):
    [(seen, meant, decided)] = synthetic.cycles(1)
    record = DecisionRecord.of(seen, replace(meant, nodes=nodes), replace(decided, placement=placement))
    story = Story([SessionRecord(seen.at, Header("0", {}), {}), record], "here")
    return explain_decision(story.cycles[0])


def test_where_executors_are_and_where_they_come_and_go_is_told():
    said = told(NODES, Placement(("a", "b", "c", "c"), ("c", "c"), ("a",)))
    assert "  nodes     in use: a ×2, b; room for 4 more on 2 of 3 nodes" in said["lines"]
    assert "  placed    added on c ×2; given up on a; then on a, b, c ×2" in said["lines"]
    assert said["placement"] == {"use": ("a", "b", "c", "c"), "add": ("c", "c"), "leave": ("a",), "slow": ()}


def test_without_nodes_nothing_is_said_of_them():
    said = told(None, None)
    assert said["placement"] is None
    assert not [line for line in said["lines"] if line.split()[0] in {"nodes", "placed"}]
