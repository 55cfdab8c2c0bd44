"""The scripted source keeps the contract."""

import pytest
from tests.observe import contract

from rheostat.model import Cluster, Gap, Observation, Offsets, PartitionOffsets, QueryReading
from rheostat.testing.fakes import ScriptedSource

SEEN = Observation(
    1.0,
    (QueryReading("q", "r", None, 0.0, offsets=Offsets.of(1.0, (PartitionOffsets("t", 0, 3, 2, 1),))),),
    Cluster.of(1.0, ()),
    (Gap("batch", "no batch has ended yet", "q"),),
)


def test_the_fake_keeps_the_contract():
    source = ScriptedSource([SEEN])
    contract.looks(source, 5.0)
    contract.closes(source)
    assert source.closed == 2


def test_the_last_observation_is_repeated_and_ages():
    source = ScriptedSource([Observation(0.0, gaps=(Gap("cluster", "off"),)), SEEN])
    seen = [source.observe(at) for at in (10.0, 12.0, 14.0)]
    assert [each.at for each in seen] == [10.0, 12.0, 14.0]
    assert seen[2].cluster == Cluster.of(1.0, ())
    assert source.asked == [10.0, 12.0, 14.0]


def test_an_exception_in_the_script_is_raised():
    source = ScriptedSource([RuntimeError("gone"), SEEN])
    with pytest.raises(RuntimeError, match="gone"):
        source.observe(1.0)
    assert source.observe(2.0).cluster is not None


def test_an_empty_script_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        ScriptedSource([])
