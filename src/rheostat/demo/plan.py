"""What a demo run consists of: one value, checked as a whole, from which every part is configured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rheostat.config import split_policy
from rheostat.errors import Fault, InputError
from rheostat.load.curves import RateCurve
from rheostat.load.payload import Payloads, PayloadSpec, RecordMaker
from rheostat.load.shapes import parse_shape
from rheostat.model import Objective
from rheostat.pipelines.settings import ClickFraudSettings, PipelineSettings

if TYPE_CHECKING:
    from rheostat.demo.ground import Ground
    from rheostat.lab.lab import Lab
    from rheostat.pipelines.sink import RecordTotals, SinkTotals

__all__ = ["DemoPlan"]

SOURCES = ("kafka", "log")

_MOST: Mapping[str, float] = {"base_rate": 1e6, "peak_rate": 1e6, "partitions": 1000}
"""What one machine can be asked for; a larger number is a slip of the keyboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """The demo's figures. All faults are reported at once.

    Attributes:
        source: ``"kafka"``, or ``"log"`` where no broker can be had.
        objective: as in ``attach``.
        executors: bounds; each executor has one slot.
        policy: name of a policy, or ``NAME:PRESET``.
        seed: of keys and payloads.
        base_rate, peak_rate: records/s before and after the rise.
        rise_s, plateau_s, fall_s: lengths of the phases, counted from the first committed batch.
        lookup_ms: wait of each record for its local look-up: capacity then grows with executors also on few cores.
        fetch_wait_ms: longest time that a reading task waits for further records in Kafka; the consumer's own 500 ms
            would be most of a small batch.
        trigger_s: trigger interval.
        cap: most records in a batch.
        partitions: of the topic or log. 12 divides among 1, 2, 3, 4 and 6 executors without a rest.
        drain_s: longest wait, after the load, for the last record to be committed.
        begin_s: the phases begin no sooner after the autoscaler's first decision.
        shape: a load in place of the three phases, as ``rheostat load --shape`` has it.
        policy_options: of the policy, over those of its preset.
    """

    program: ClassVar[str] = "click_fraud"
    """The pipeline: its module in :mod:`rheostat.pipelines`."""

    source: str = "kafka"
    objective: str = "lag < 20s"
    executors: tuple[int, int] = (1, 6)
    policy: str = "reactive"
    seed: int = 7
    base_rate: float = 50.0
    peak_rate: float = 500.0
    rise_s: float = 40.0
    plateau_s: float = 50.0
    fall_s: float = 60.0
    lookup_ms: float = 4.0
    fetch_wait_ms: int = 20
    trigger_s: float = 2.0
    cap: int = 2400
    partitions: int = 12
    drain_s: float = 120.0
    begin_s: float = 0.0
    shape: str | None = None
    policy_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        faults = [*self._choice_faults(), *self._number_faults()]
        if faults:
            raise InputError(faults)

    @property
    def seconds(self) -> float:
        """Length of the load."""
        return self.curve().duration

    @property
    def objective_s(self) -> float:
        """The lag that must not be exceeded."""
        return Objective.parse(self.objective).lag_s

    def curve(self) -> RateCurve:
        """The load: a rise, a plateau and a fall, unless a shape is given."""
        if self.shape is not None:
            return parse_shape(self.shape)
        low, high = self.base_rate, self.peak_rate
        return parse_shape(
            f"ramp:{low}..{high}@{self.rise_s}+constant:{high}@{self.plateau_s}+ramp:{high}..{low}@{self.fall_s}"
        )

    def phase(self, second: float | None) -> str:
        """Name of the phase at a second of the curve; None: before it."""
        if second is None:
            return "warm-up"
        if self.shape is not None:
            return "load" if second < self.seconds else "drain"
        ends = ((self.rise_s, "rise"), (self.rise_s + self.plateau_s, "plateau"), (self.seconds, "fall"))
        return next((name for end, name in ends if second < end), "drain")

    def static(self, executors: int) -> DemoPlan:
        """The same run with a fixed number of executors."""
        return replace(self, executors=(executors, executors), policy="static")

    def settings(self, folder: Path) -> Mapping[str, Any]:
        """The autoscaler's settings, in the shape of a settings file: the demo profile."""
        fixed = {"executors": self.executors[0]} if split_policy(self.policy)[0] == "static" else {}
        options = {**fixed, **self.policy_options}
        return {
            "profile": "demo",
            "objective": self.objective,
            "executors": list(self.executors),
            "policy": self.policy,
            "journal": str(folder / "journal"),
            **({"policy_options": options} if options else {}),
        }

    def payloads(self) -> RecordMaker:
        """What the records say, those of the warm-up first."""
        return Payloads(PayloadSpec(seed=self.seed))

    def ground(self, lab: Lab, folder: Path) -> Ground:  # noqa: ARG002
        """What the executors stand on; ``folder``: for its data."""
        from rheostat.demo.ground import OneWorker

        return OneWorker(lab, self.executors[1])

    def counted(self, out: Path) -> SinkTotals | RecordTotals:
        """What got through the sink.

        Raises:
            InputError: there is no such folder.
        """
        from rheostat.pipelines.sink import verify

        return verify(out)

    def pipeline(self, folder: Path, bootstrap: str | None, topic: str | None) -> PipelineSettings:
        """The pipeline's settings; for Kafka with a broker, else upon the log in ``folder``."""
        return ClickFraudSettings(**self.common(folder, bootstrap, topic))

    def common(self, folder: Path, bootstrap: str | None, topic: str | None) -> dict[str, Any]:
        """The settings that all pipelines have."""
        return {
            "source": self.source,
            "bootstrap": bootstrap,
            "topic": topic,
            "log": str(folder / "log"),
            "checkpoint": str(folder / "checkpoint"),
            "out": str(folder / "out"),
            "cap": self.cap,
            "trigger_s": self.trigger_s,
            "lookup_ms": self.lookup_ms,
            "fetch_wait_ms": self.fetch_wait_ms,
        }

    def notes(self) -> tuple[str, ...]:
        """What one must know to judge the figures of a run."""
        top = 1000 / self.lookup_ms if self.lookup_ms else math.inf
        return (
            f"Each record waits {self.lookup_ms:g} ms for a local look-up, so an executor of one slot carries at most "
            f"{top:g} records/s and capacity grows with executors also on a machine with few cores. The wait is "
            "simulated; broker, cluster, executors, pipeline and records are real.",
            f"A batch is capped at {self.cap} records (maxOffsetsPerTrigger): without a cap an overloaded query "
            "swallows all that waits in one ever longer batch, and nothing can be measured until it ends.",
            f"{self._load_words()} count from the first committed batch.",
            "The policy runs with its demo profile, made for runs of minutes; the table beside the published constants "
            "shows by how much it is faster.",
            "Executor-hours count from the request of an executor until it is gone. The static run is computed, peak × "
            "duration, unless it is labelled as run.",
            "Lag is the age of the oldest record that is not committed. Records commit only at the end of a batch, so "
            "even an idle job's lag swings up to about two batches.",
        )

    def _load_words(self) -> str:
        if self.shape is not None:
            return f"The seconds of the load {self.shape}"
        return f"Phases of {self.rise_s:g}, {self.plateau_s:g}, {self.fall_s:g} s"

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def _choice_faults(self) -> list[Fault]:
        faults = []
        if self.source not in SOURCES:
            faults.append(Fault("source", repr(self.source), ", ".join(SOURCES), "where the records go through"))
        least, most = self.executors
        if not 1 <= least <= most:
            faults.append(Fault("executors", f"{least},{most}", "1 ≤ least ≤ greatest", "the bounds"))
        if most > self.partitions:
            message = "more executors than partitions have nothing to read"
            faults.append(Fault("partitions", str(self.partitions), f"≥ {most}, the greatest number", message))
        try:
            objective = Objective.parse(self.objective)
        except InputError as error:
            return [*faults, *error.faults]
        if objective.lag_s < 2 * self.trigger_s:
            allowed = f"at least two triggers, {2 * self.trigger_s:g} s"
            faults.append(Fault("objective", self.objective, allowed, "it is shorter than two batches"))
        return faults

    def _number_faults(self) -> list[Fault]:
        positive = ("base_rate", "peak_rate", "rise_s", "plateau_s", "fall_s", "trigger_s", "cap", "partitions")
        faults = [
            Fault(name, repr(getattr(self, name)), _allowed(name), "it is out of range")
            for name in positive
            if not (math.isfinite(getattr(self, name)) and 0 < getattr(self, name) <= _MOST.get(name, math.inf))
        ]
        if self.peak_rate < self.base_rate:
            given = f"{self.peak_rate:g}"
            faults.append(Fault("peak_rate", given, f"≥ base_rate, {self.base_rate:g}", "the load would fall first"))
        if self.seed < 0:
            faults.append(Fault("seed", str(self.seed), "an integer ≥ 0", "the seed of keys and payloads"))
        return faults


def _allowed(name: str) -> str:
    return "a number > 0" + (f" and ≤ {_MOST[name]:.0f}" if name in _MOST else "")
