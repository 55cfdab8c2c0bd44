"""The benchmarks on a real cluster, as short as they can be: they end, and their figures are there."""

import pytest

from rheostat.research.bench import attach, rescale

pytestmark = pytest.mark.cluster


def test_a_rescale_is_measured():
    result = rescale.run_rescale(plan=rescale.Plan(steps=(1,), cap=200, before_s=2.0, warm_up=2))

    found = {one.name: one.value for one in result.metrics}
    registered, working = found["+1: decision to registered, median"], found["+1: decision to working, max"]
    assert registered is not None
    assert working is not None
    assert 0.5 < registered <= working + 0.2 < 60
    assert found["+3: decision to working, max"] is None
    assert found["+1 and −1: redone tasks, all told"] == 0


def test_what_a_standby_worker_saves_is_measured():
    result = rescale.run_standby(pairs=1, plan=rescale.Plan(cap=200, before_s=2.0, warm_up=2))

    found = {one.name: one for one in result.metrics}
    with_, without = (
        found[f"{name}: decision to working, median"] for name in ("with a Worker in standby", "without one")
    )
    assert (with_.n, without.n) == (1, 1)
    assert with_.value is not None
    assert without.value is not None
    assert 0.5 < with_.value < 60
    assert 0.5 < without.value < 60
    assert found["with ÷ without, median; judged by the upper end"].met is False, "one pair proves nothing"


def test_attaching_is_measured():
    result = attach.run_attach(plan=attach.Plan(pairs=1, block=3, cap=20, sample_s=0.5, cycles=3, warm_up=3))

    found = {one.name: one for one in result.metrics}
    without, memory = found["batch without, median"], found["added memory of the driver's Python"]
    assert without.n == 3
    assert without.value is not None
    assert without.value >= 50, "20 records wait 5 ms each, in two slots"
    assert memory.value is not None
    assert 1 < memory.value < 100
    assert found["added batch time, judged by the upper end"].met is False, "three batches a side resolve nothing"
    assert found["failed cycles"].value == 0
