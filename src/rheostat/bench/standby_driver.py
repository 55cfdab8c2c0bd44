"""The driver of ``rheostat bench standby``: rescales with a Worker in hot standby, and without, in turn.

``python -m rheostat.bench.standby_driver FOLDER``; what is in FOLDER/job.json: see :class:`StandbyJob`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from rheostat.bench.inside import until
from rheostat.bench.rescale_driver import Job, Play, main
from rheostat.execute.job import SparkJob
from rheostat.execute.nodes import NodeClient, NodeState
from rheostat.execute.workers import Upkeep, WorkersActuator
from rheostat.ports import Actuator

__all__ = ["StandbyJob", "StandbyPlay"]

_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class StandbyJob(Job):
    """What the driver is told.

    Attributes:
        node: address of the node server.
        standby: Workers in standby when each rescale begins, and kept through it.
    """

    node: str = ""
    standby: Sequence[int] = ()


class StandbyPlay(Play):
    """Each rescale begins with its standby, and moves both layers."""

    @cached_property
    def _actuators(self) -> dict[int, Actuator]:
        """One for each number of Workers in standby."""
        job = SparkJob(self._levers, self._jvm)
        return {
            backup: WorkersActuator(self._live, job, [self._node()], Upkeep(backup, every_s=_TIMEOUT_S))
            for backup in set(self._told.standby)
        }

    def actuator(self, number: int) -> Actuator:
        """Of both layers."""
        return self._actuators[self._told.standby[number]]

    def prepare(self, number: int) -> None:
        """As many idle Workers as the rescale is to begin with, all of them registered, and none on its way out."""
        wanted = self._told.standby[number]
        with closing(self._node()) as node:
            until(lambda: _stands(node.state(), 1, None), "one used Worker", _TIMEOUT_S)
            seen = node.state()
            if seen.idle < wanted:
                node.create(wanted - seen.idle)
            elif seen.idle > wanted:
                node.remove(seen.used, wanted)
            until(lambda: _stands(node.state(), 1, wanted), f"{wanted} Workers in standby", _TIMEOUT_S)

    @property
    def _told(self) -> StandbyJob:
        assert isinstance(self._job, StandbyJob)  # noqa: S101
        return self._job

    def _node(self) -> NodeClient:
        return NodeClient(self._told.node, None, timeout_s=10.0)


def _stands(seen: NodeState, used: int, idle: int | None) -> bool:
    """Whether so many Workers are used and idle, and no other one is there."""
    there = seen.n_max - seen.free
    return len(seen.used) == used and (idle is None or (len(seen.names) == there == used + idle))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], StandbyPlay, StandbyJob))
