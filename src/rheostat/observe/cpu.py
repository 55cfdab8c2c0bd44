"""The processor time of nodes and executors, from what node servers count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rheostat.model import CpuUse, ExecutorCpu, Gap, NodeCpu

if TYPE_CHECKING:
    from rheostat.execute.node_client import NodeState, NodeTime

_DIGITS = 3


class CpuMeter:
    """The section ``cpu`` of an observation, for the application with this id."""

    def __init__(self, app_id: str | None) -> None:
        self._app_id = app_id
        self._before: dict[str, NodeTime] = {}

    def section(self, states: Mapping[str, NodeState]) -> tuple[CpuUse | None, tuple[Gap, ...]]:
        """What was used since the section before, and its gaps, from the last answer of each node, by name.

        A node is left out at its first answer, without a new one, and where its counters began anew; an executor that
        was not there at the answer before is left out too.
        """
        nodes, executors, gaps = list[NodeCpu](), list[ExecutorCpu](), list[Gap]()
        for name, state in sorted(states.items()):
            before, now = self._before.get(name), state.cpu
            if now is not None:
                self._before[name] = now
            why = _why_unknown(before, now)
            if why is not None or before is None or now is None:
                gaps.append(Gap("cpu", f"{name}: {why}"))
                continue
            took_s = now.at - before.at
            busy = round((now.busy_s - before.busy_s) / took_s, _DIGITS)
            nodes.append(NodeCpu(name, now.cpus, busy, now.speed))
            executors += [ExecutorCpu(each, name, cores) for each, cores in self._executors(before, now, took_s)]
        return CpuUse(tuple(nodes), tuple(executors)) if nodes else None, tuple(gaps)

    def _executors(self, before: NodeTime, now: NodeTime, took_s: float) -> Iterator[tuple[str, float]]:
        past = {each.executor_id: each.cpu_s for each in before.executors if each.app_id == self._app_id}
        for each in now.executors:
            if each.app_id == self._app_id and past.get(each.executor_id, float("inf")) <= each.cpu_s:
                yield each.executor_id, round((each.cpu_s - past[each.executor_id]) / took_s, _DIGITS)


def _why_unknown(before: NodeTime | None, now: NodeTime | None) -> str | None:
    """Why two answers of a node show no use of its processors; None: they do."""
    if now is None:
        return "its server is of a version that tells no processor time"
    if before is None:
        return "its processor time has been read only once"
    if now.at == before.at:
        return "it has not answered since the look before"
    if now.at < before.at or now.busy_s < before.busy_s:
        return "it has started anew, and its counters with it"
    return None
