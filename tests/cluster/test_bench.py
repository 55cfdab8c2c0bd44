"""The benchmarks on a real cluster, as short as they can be: they end, and their figures are there.

The driver of ``rescale`` is that of ``standby``; what it makes of the samples is in ``test_bench_samples.py``.
"""

import pytest

from rheostat.research.bench import attach, rescale

pytestmark = pytest.mark.cluster


def test_what_a_standby_worker_saves_is_measured():
    result = rescale.run_standby(pairs=1, plan=rescale.Plan(cap=200, before_s=2.0, warm_up=2))

    found = {one.name: one for one in result.metrics}
    with_, without = (
        found[f"{name}: decision to working, median"] for name in ("with a Worker in standby", "without one")
    )
    registered, redone = (
        found[f"with a Worker in standby: {name}"]
        for name in ("decision to registered, median", "redone tasks, up and down")
    )
    assert (with_.n, without.n) == (1, 1)
    assert with_.value is not None
    assert without.value is not None
    assert registered.value is not None
    assert 0.5 < registered.value <= with_.value + 0.2 < 60
    assert redone.value == 0
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
