"""From what the drivers wrote to the figures."""

import pytest

from rheostat.errors import RheostatError
from rheostat.research.bench import attach, rescale
from rheostat.research.bench.harness import abba

UP = {"status": "applied", "took_s": 2.0, "method": "request", "redone_tasks": 0, "text": "well"}
DOWN = {"status": "applied", "took_s": 0.5, "method": "gap", "redone_tasks": 1, "text": "well"}
ONE = {"step": 1, "new": ["1"], "decided_at": 100.0, "down_at": 110.0, "up": UP, "down": DOWN}


def seen(working_at):
    """A look each tenth of a second; executor 0 ends ten tasks a second, the new one begins to work in time."""
    samples = []
    for tenth in range(950, 1110):
        working = tenth >= working_at * 10
        new = {"1": [int(working), int(tenth >= working_at * 10 + 15)]} if tenth >= 1020 else {}
        samples.append([tenth / 10, {"0": [1, tenth - 950], **new}])
    return samples


RESULT = {
    "rescales": [ONE],
    "samples": seen(102.5),
    "batches": [(102.0, 3.0, 400), (105.0, 1.5, 400), (106.5, 1.5, 400)],
}


def test_a_rescale_is_read():
    (found,) = rescale.read_rescales(RESULT, before_s=4.0)
    assert (found.registered_s, found.working_s, found.first_s) == (2.0, 2.5, 4.0)
    assert found.dip == pytest.approx(1.0)
    assert found.pause_s == pytest.approx(0.1)
    assert (found.cold, found.redone_up, found.redone_down, found.gone_s) == (2.0, 0, 1, 0.5)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"up": {**UP, "status": "no_room"}}, id="no room"),
        pytest.param({"new": ["7"]}, id="an executor that never worked"),
        pytest.param({"step": 3}, id="one of three came"),
    ],
)
def test_a_rescale_that_did_not_work_is_an_error(change):
    with pytest.raises(RheostatError, match="going up by"):
        rescale.read_rescales({**RESULT, "rescales": [{**ONE, **change}]}, before_s=4.0)


def test_targets_are_those_of_the_steps():
    found = rescale.read_rescales(RESULT, before_s=4.0)
    targets = {one.name: (one.value, one.target, one.met) for one in rescale.figures(found) if one.target}
    assert targets == {
        "+1: decision to working, median": (2.5, 3.5, True),
        "+1: decision to working, max": (2.5, 5.0, True),
        "+3: decision to working, max": (None, 10.0, False),
    }


def rescaled(working_s):
    return rescale.Rescale(1, working_s - 0.5, working_s, None, None, None, None, 0.1, 0, 1, 0.5, "gap")


def test_what_a_standby_worker_saves():
    ones = [rescaled(seconds) for seconds in (2.0, 8.0, 6.0, 3.0, 2.0, 4.0)]
    found = {one.name: one for one in rescale.standby_figures(ones, (1, 0, 0, 1, 1, 0))}

    with_, without = (
        found[f"{name}: decision to working, median"] for name in ("with a Worker in standby", "without one")
    )
    assert (with_.value, with_.n, without.value, without.n) == (2.0, 3, 6.0, 3)
    assert found["with a Worker in standby: redone tasks, up and down"].value == 3
    assert found["saved by the standby Worker, median"].value == 3.0  # 8 − 2, 6 − 3, 4 − 2
    ratio = found["with ÷ without, median; judged by the upper end"]
    assert (ratio.value, ratio.n, ratio.met) == (0.5, 3, True)  # 2 ÷ 8, 3 ÷ 6, 2 ÷ 4


def test_one_pair_does_not_prove_that_a_standby_worker_helps():
    ratio = rescale.standby_figures([rescaled(2.0), rescaled(8.0)], (1, 0))[-1]
    assert (ratio.value, ratio.met) == (0.25, False)


def attached(more_ms, pairs=10):
    blocks = [
        {
            "attached": on,
            "batch_ms": [200 + (more_ms if on else 0)] * 20,
            "jvm_s": 0.44 if on else 0.4,
            "cycles": 4 if on else 0,
            "seconds": 4.0,
        }
        for on in abba(pairs)
    ]
    memory = {
        "before_mb": 60.0,
        "first_mb": 85.0,
        "later_mb": 90.0,
        "heap_before_mb": 80.0,
        "heap_later_mb": 84.0,
        "cycle_s": 0.02,
        "cycles": 30.0,
    }
    return {"blocks": blocks, "memory": memory, "failures": 0}


@pytest.mark.parametrize(
    ("more_ms", "percent", "met"),
    [pytest.param(1, 0.5, True, id="half a percent"), pytest.param(4, 2.0, False, id="two percent")],
)
def test_the_figures_of_attaching(more_ms, percent, met):
    found = {one.name: one for one in attach.figures(attached(more_ms))}
    added = found["added batch time, judged by the upper end"]
    assert added.value == pytest.approx(percent)
    assert (added.met, added.n) == (met, 200)
    assert found["added memory of the driver's Python"].value == 30.0
    assert found["processor time of a cycle, Python"].value == 20.0
    assert found["processor time of a cycle, JVM, by difference"].value == pytest.approx(10.0)


def test_without_an_interval_the_target_is_not_met():
    assert attach.figures(attached(0, pairs=2))[0].met is False


def test_the_share_of_a_controller_counts_python_and_the_jvm():
    memory = {"cycle_s": 0.010, "cycles": 240.0, "before_mb": 100.0, "first_mb": 112.0, "later_mb": 115.0}
    memory |= {"heap_before_mb": 50.0, "heap_later_mb": 51.0}
    blocks = [
        {"attached": True, "jvm_s": 1.4, "seconds": 4.0, "cycles": 8},
        {"attached": False, "jvm_s": 1.0, "seconds": 4.0, "cycles": 0},
    ]
    share, _, jvm, added, _ = attach.controller_figures(memory, blocks)
    assert jvm.value == pytest.approx(50.0)
    assert share.value == pytest.approx(100 * 0.060 / 15)
    assert (share.met, added.value) == (True, 15.0)


def test_a_share_without_the_jvm_is_not_known():
    memory = {"cycle_s": 0.010, "cycles": 2.0, "before_mb": 1.0, "first_mb": 1.0, "later_mb": 1.0}
    share = attach.controller_figures(memory | {"heap_before_mb": 1.0, "heap_later_mb": 1.0}, [])[0]
    assert (share.value, share.met) == (None, False)
