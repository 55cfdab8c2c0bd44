"""What holds for any data: predictions are finite, never negative, monotone; a model can be told in JSON."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rheostat.learn.slow_records import Sample, SlowModel, Trained, TrainingOptions, stability, train

pytestmark = pytest.mark.slow

ROUNDING = 1e-9

rates = st.one_of(st.floats(0, 1e4), st.floats(0, 1e9), st.sampled_from([0.0, 1.0, 1e3, 1e15]))
shares = st.one_of(st.just(0.0), st.floats(0, 1), st.sampled_from([0.1, 5.0, 1e9]))
numbers = st.one_of(st.integers(1, 6), st.sampled_from([1, 40, 1_000_000]))


def rows_of(topics):
    row = st.tuples(st.tuples(*[rates] * topics), numbers, shares)
    return st.lists(row, min_size=20, max_size=40).map(
        lambda found: [Sample(15.0 * at, *row) for at, row in enumerate(found)]
    )


models = st.integers(1, 3).flatmap(
    lambda topics: st.tuples(
        rows_of(topics),
        st.one_of(st.none(), st.floats(1e-3, 1e9)),
        st.lists(st.tuples(st.tuples(*[rates] * topics), numbers), min_size=2, max_size=8),
        st.booleans(),
    )
)
OPTIONS = TrainingOptions(degrees=(1, 2, 4), resamples=10, block=7)


@given(models)
def test_predictions_are_sane_on_any_data(drawn):
    rows, w_max, asked, outliers = drawn
    model = train(rows, w_max, TrainingOptions(degrees=(1, 2, 4), outliers=outliers)).model
    asked = [*asked, *((s.workload, s.executors) for s in rows[:6])]

    found = {point: model.predict(*point) for point in asked}

    assert all(0 <= share <= 1e9 for share in found.values())
    for (workload, n), share in found.items():
        for (other, m), other_share in found.items():
            if n <= m and all(w >= v for w, v in zip(workload, other, strict=True)):
                assert share >= other_share - ROUNDING * (1 + other_share), (workload, n, other, m)


@settings(max_examples=15)
@given(models)
def test_training_is_deterministic_and_goes_through_json(drawn):
    rows, w_max, asked, _ = drawn
    trained = train(rows, w_max, OPTIONS)
    adapter = TypeAdapter(Trained)

    assert train(rows[::-1], w_max, OPTIONS) == trained
    assert adapter.validate_json(adapter.dump_json(trained)) == trained
    assert TypeAdapter(SlowModel).validate_json(TypeAdapter(SlowModel).dump_json(trained.model)) == trained.model
    deviation = stability(rows, trained, asked, OPTIONS)
    assert 0 <= deviation < float("inf")
    assert deviation == stability(rows, trained, asked, OPTIONS)
