from dataclasses import replace

import pytest

from rheostat.errors import InputError
from rheostat.model import Batch, Cluster, Gap, Observation, Offsets, QueryReading
from rheostat.observe.merge import MergedSource
from rheostat.testing.fakes import ScriptedSource, ToyJob

QUERY = QueryReading("id", "run", "q", 1.0)
OFFSETS = Offsets.of(1.0, ())
CLUSTER = Cluster.of(1.0, ())


def merged(*seen, requested=lambda: None):
    return MergedSource([ScriptedSource([each]) for each in seen], requested=requested).observe(5.0)


def test_what_the_first_lacks_comes_from_the_next_and_what_none_sees_stays_a_gap():
    first = Observation(5.0, (QUERY,), None, (Gap("offsets", "a", "id"), Gap("batch", "b", "id"), Gap("cluster", "c")))
    second = Observation(5.0, (QueryReading("id", "run", None, None, offsets=OFFSETS),), CLUSTER)

    assert merged(first, second) == Observation(
        5.0, (QueryReading("id", "run", "q", 1.0, offsets=OFFSETS),), CLUSTER, (Gap("batch", "b", "id"),)
    )


def test_earlier_batches_come_from_where_the_last_one_does():
    batches = [Batch(1.0 * number, number, 0.5) for number in range(3)]
    other = replace(QUERY, batch=batches[2], ended=tuple(batches[:2]))
    assert merged(Observation(5.0, (QUERY,)), Observation(5.0, (other,))).queries == (other,)
    own = replace(QUERY, batch=batches[2])
    assert merged(Observation(5.0, (own,)), Observation(5.0, (other,))).queries == (own,)


@pytest.mark.parametrize(
    ("cluster", "requested"),
    [
        pytest.param(Cluster.of(1.0, ()), 3, id="told to a source that does not know it"),
        pytest.param(Cluster.of(1.0, (), requested=7), 7, id="left to a source that knows it"),
    ],
)
def test_the_number_asked_for_is_filled_in(cluster, requested):
    seen = merged(Observation(5.0, (), cluster), requested=lambda: 3)
    assert seen.cluster == Cluster.of(1.0, (), requested=requested)


@pytest.mark.parametrize(
    ("sources", "messages"),
    [
        pytest.param([], ["there is nothing to observe with"], id="none"),
        pytest.param([ToyJob], ["it is a class: build it, ToyJob(…)"], id="a class"),
        pytest.param([ToyJob(), 3, None], ["it has no observe, no close"] * 2, id="no sources among one"),
        pytest.param(
            ToyJob(), ["it is no list: put it into one, also where it is the only source"], id="one without a list"
        ),
    ],
)
def test_what_cannot_be_observed_with_is_refused(sources, messages):
    with pytest.raises(InputError) as caught:
        MergedSource(sources)
    assert [(fault.field, fault.message) for fault in caught.value.faults] == [("sources", each) for each in messages]
