"""How an actuator is found and built, and the one that only records decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rheostat.config.models import Settings
from rheostat.errors import Fault, InputError
from rheostat.model import Decision, Outcome, OutcomeStatus, Reason, ReasonCode, RoundTrip
from rheostat.plugins import ACTUATORS
from rheostat.ports import Actuator, Clock
from rheostat.text import executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ActuatorContext:
    """What an actuator is built for.

    Attributes:
        spark: the session of the driver.
        clock: for waits; it runs on after the loop has ended.
        paused: whether nothing may be changed now.
        round_trips: returns the present round trips between nodes; None: nodes play no part.
    """

    spark: SparkSession
    settings: Settings
    clock: Clock
    paused: Callable[[], bool] = lambda: False
    round_trips: Callable[[], tuple[RoundTrip, ...]] | None = None


class ActuatorFactory(Protocol):
    """What an entry point of the group ``rheostat.actuators`` names, usually the class of the actuator.

    It may also have a static method ``refusals(facts)``: the faults of a session
    (:class:`~rheostat.spark.jvm.SessionFacts`) that it cannot change.
    """

    def build(self, context: ActuatorContext) -> Actuator:
        """Build the actuator. Nothing is changed before its first decision."""
        ...


def load_actuator(name: str) -> ActuatorFactory:
    """Import the actuator of that name, and no other.

    Raises:
        InputError: it is unknown, cannot be imported, or is a class that lacks a part.
    """
    factory: ActuatorFactory = ACTUATORS.load(name, ["build"], class_parts=_METHODS)
    return factory


def build_actuator(name: str, context: ActuatorContext) -> Actuator:
    """Build the actuator of that name. Raises InputError if it cannot be loaded, or if what it builds is none."""
    actuator: Any = load_actuator(name).build(context)
    lacks = [method for method in _METHODS if not callable(getattr(actuator, method, None))]
    if lacks:
        message = f"build returned {actuator!r}: it has no {', no '.join(lacks)}"
        raise InputError([Fault("actuator", name, f"an object with {', '.join(_METHODS)}", message)])
    return actuator  # type: ignore[no-any-return]


_METHODS = ("apply", "poll", "close")


class DryRun:
    """An actuator that changes nothing: the outcome of each decision is that it was recorded."""

    def __init__(self) -> None:
        self._decision: Decision | None = None

    def apply(self, decision: Decision) -> None:
        self._decision = decision

    def poll(self, at: float) -> Outcome | None:
        decision, self._decision = self._decision, None
        if decision is None or decision.target is None:
            return None
        text = f"a dry run: {executors(decision.target)} would have been asked for"
        return Outcome(
            at=at,
            decision_id=decision.decision_id,
            status=OutcomeStatus.RECORDED,
            reason=Reason(ReasonCode.DRY_RUN, text),
            target=decision.target,
            before=decision.current,
            after=decision.current,
            method="dry-run",
        )

    def close(self) -> None:
        """Nothing is open."""
