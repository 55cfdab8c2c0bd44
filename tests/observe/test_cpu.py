"""The processor time of an observation: differences of what node servers count, for one application."""

from __future__ import annotations

import pytest

from rheostat.execute.node_client import ExecutorTime, NodeState, NodeTime
from rheostat.model import CpuUse, ExecutorCpu, NodeCpu
from rheostat.observe.cpu import CpuMeter


def state(cpu: NodeTime | None) -> NodeState:
    return NodeState(n_max=2, used=(), idle=0, free=0, names={}, cpu=cpu)


def count(at: float, busy_s: float, **executors: float) -> NodeTime:
    rows = [ExecutorTime("app-1", name.removeprefix("e"), cpu_s) for name, cpu_s in executors.items()]
    return NodeTime(at, 2, busy_s, (*rows, ExecutorTime("app-2", "0", 7 * at)))


def test_two_answers_show_what_was_used_between_them() -> None:
    meter = CpuMeter("app-1")
    first = {"near": state(count(100.0, 50.0, e0=10.0)), "far": state(count(7.0, 0.0))}
    assert meter.section(first)[0] is None

    second = {"near": state(count(110.0, 65.0, e0=17.5, e1=3.0)), "far": state(count(27.0, 5.0))}
    use, gaps = meter.section(second)

    assert use == CpuUse((NodeCpu("far", 2, 0.25), NodeCpu("near", 2, 1.5)), (ExecutorCpu("0", "near", 0.75),))
    assert gaps == ()


def test_the_speed_of_a_node_is_told() -> None:
    meter = CpuMeter("app-1")
    answers = [state(count(at, at)._replace(speed=1.5)) for at in (10.0, 20.0)]
    use, _ = [meter.section({"fast": each}) for each in answers][1]
    assert use == CpuUse((NodeCpu("fast", 2, 1.0, 1.5),))


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        pytest.param(None, count(100.0, 50.0), "has been read only once", id="the first answer"),
        pytest.param(count(100.0, 50.0), count(100.0, 50.0), "has not answered since", id="no new answer"),
        pytest.param(count(100.0, 50.0), count(5.0, 1.0), "has started anew", id="the machine has started anew"),
        pytest.param(count(100.0, 50.0), count(110.0, 49.0), "has started anew", id="counters went backwards"),
        pytest.param(count(100.0, 50.0), None, "of a version", id="an old server"),
    ],
)
def test_what_is_unknown_is_a_gap(before: NodeTime | None, now: NodeTime | None, why: str) -> None:
    meter = CpuMeter("app-1")
    if before is not None:
        meter.section({"near": state(before)})

    use, (gap,) = meter.section({"near": state(now)})

    assert use is None
    assert (gap.section, gap.why.partition(": ")[0]) == ("cpu", "near")
    assert why in gap.why


def test_an_executor_whose_counter_went_backwards_is_left_out_of_one_look() -> None:
    meter, counted = CpuMeter("app-1"), ((100.0, 9.0), (110.0, 5.0), (120.0, 10.0))

    found = [meter.section({"near": state(count(at, at, e0=cpu_s))})[0] for at, cpu_s in counted]

    assert [each and each.executors for each in found] == [None, (), (ExecutorCpu("0", "near", 0.5),)]
