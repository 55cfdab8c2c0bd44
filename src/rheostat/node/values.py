"""What is known of a node and of its Workers: frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rheostat.errors import InputError
from rheostat.node.folder import Record
from rheostat.node.master import MasterView, Standing

__all__ = ["STAYING", "DisagreementError", "Patience", "Removal", "Rules", "Situation", "State", "Worker"]


class State(StrEnum):
    """Where a Worker is in its life."""

    QUEUED = "queued"
    STARTING = "starting"
    READY = "ready"
    LEAVING = "leaving"
    ENDING = "ending"


STAYING = (State.QUEUED, State.STARTING, State.READY)
"""Those that a removal may choose from."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One Worker. ``since``: when it came into its state; ``told_at``: when it was last told to leave."""

    record: Record
    state: State
    since: float
    told_at: float | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, in seconds.

    Attributes:
        look_s: between two looks while something is in motion.
        idle_s: between two looks otherwise.
        start_s: until a Worker must be registered.
        again_s: after that a Worker is told to leave again.
        leave_s: an executor that came to a leaving Worker has so long to end.
        end_s: from SIGTERM to SIGKILL.
    """

    look_s: float = 0.1
    idle_s: float = 1.0
    start_s: float = 60.0
    again_s: float = 5.0
    leave_s: float = 60.0
    end_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What a node is.

    Attributes:
        name: stands at the beginning of its Workers' names.
        n_max: Workers that there can be, standby included.
        addresses: see :func:`~rheostat.node.spark.address_of`.
    """

    name: str
    n_max: int
    addresses: Sequence[str]
    patience: Patience = Patience()


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of a request to remove: ids that go, ids that stay because they are used, idle ones left."""

    removing: tuple[int, ...]
    used: tuple[int, ...]
    free: int


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything at one time. ``view`` None: the master does not answer."""

    workers: tuple[Worker, ...]
    view: MasterView | None
    free_ids: tuple[int, ...]
    last_error: tuple[float, str] | None

    def standing(self, worker: Worker) -> Standing | None:
        """The master's word on a Worker; None: it does not know it, or does not answer."""
        return None if self.view is None else self.view.workers.get(worker.record.name)


class DisagreementError(InputError):
    """The request and the master say different things of which Workers are used: nothing is removed."""
