"""``amadeus``: the share of the trigger that batches take, averaged; outside its band n × mean executors.

At the end of each batch, with α the smoothing factor::

    num ← α·num + batch time ÷ trigger;   den ← α·den + 1;   mean = num ÷ den          both start at 1
    mean > high or mean < low  →  ⌈n × mean⌉

n are the registered executors; nothing is proposed until the last proposal is done.

A batch that was missed, because another one had finished by the next sample, does not enter the mean. A trigger of 0
(as soon as possible) has no length: the period τ stands for it.

Source: https://github.com/AmadeusITGroup/Elastic-Scaling, ElasticScaling.scala (``computeExecutorNumber``,
``updateOccupation``) and README.md. It has no lag, backlog, cooldown or hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import Field, model_validator

from rheostat.config.models import FrozenModel, reject
from rheostat.errors import Fault
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import BuiltInPolicy, propose_nothing, round_up, valid_target
from rheostat.text import percent, several


class AmadeusOptions(FrozenModel):
    """Options of ``amadeus``, with its published defaults."""

    threshold_high: float = Field(1.0, gt=0, le=10, description="Mean share of the trigger above which it scales up.")
    threshold_low: float = Field(0.75, ge=0, le=10, description="Mean share of the trigger below which it scales down.")
    smoothing_factor: float = Field(
        0.6, ge=0, le=1, description="Weight of the past: 0: only the last batch counts; 1: all alike."
    )
    batch_s: float | None = Field(
        None, gt=0, le=86_400, description="The configured batch duration, s; null: the trigger interval, or τ."
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.threshold_low >= self.threshold_high:
            allowed = f"< threshold_high ({self.threshold_high:g})"
            message = "the lower threshold must be less than the upper one"
            raise reject([Fault("threshold_low", f"{self.threshold_low:g}", allowed, message)])
        return self


@dataclass(frozen=True, slots=True)
class AmadeusState:
    """The mean, as its numerator and denominator, and the batch that entered it last."""

    num: float = 1.0
    den: float = 1.0
    last_batch_id: int | None = None

    @property
    def mean(self) -> float:
        """Mean share of the trigger that batches take."""
        return self.num / self.den


def needed_executors(mean: float, current: int, options: AmadeusOptions) -> int:
    """The number to propose.

    >>> needed_executors(1.2, 2, AmadeusOptions()), needed_executors(0.8, 2, AmadeusOptions())
    (3, 2)
    """
    if options.threshold_low <= mean <= options.threshold_high:
        return current
    return round_up(current * mean)


class AmadeusPolicy(BuiltInPolicy[AmadeusOptions, AmadeusState]):
    """The listener. See the module's description."""

    name: ClassVar[str] = "amadeus"
    self_managed_steps = frozenset({"largest_step"})
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": {}, "faithful": {}}

    def recommend(self, assessment: Assessment, state: AmadeusState) -> tuple[Recommendation, AmadeusState]:
        """Propose by the mean at the end of a batch; hold between two, and while executors are starting."""
        current = valid_target(assessment)
        batch_s = 0.0 if assessment.idle else assessment.last_batch_s  # [ours] the listener itself hears nothing then
        whole_s = self.options.batch_s or assessment.trigger_s or assessment.period_s
        if current is None or batch_s is None or not whole_s:
            return propose_nothing(assessment, "last_batch_s"), state
        if assessment.last_batch_id == state.last_batch_id and not assessment.idle:
            return _propose(current, current, ReasonCode.STEADY, "no batch has ended since", state), state
        alpha, share = self.options.smoothing_factor, batch_s / whole_s
        state = AmadeusState(state.num * alpha + share, state.den * alpha + 1, assessment.last_batch_id)
        if (assessment.executors or 0) + len(assessment.excluded) != current:
            text = f"{assessment.executors} of {several(current, 'executor')} registered"
            return _propose(current, current, ReasonCode.RESCALE_RUNNING, text, state), state
        target = needed_executors(state.mean, current, self.options)
        low, high = percent(self.options.threshold_low), percent(self.options.threshold_high)
        if target > current:
            return _propose(current, target, ReasonCode.UNDERSIZED, f"> {high}", state), state
        if target < current:
            return _propose(current, target, ReasonCode.OVERSIZED, f"< {low}", state), state
        inside = self.options.threshold_low <= state.mean <= self.options.threshold_high
        what = f"within {low} and {high}" if inside else f"{current} × mean rounds up to {target}"
        text = f"the last batch took {percent(share)}, {what}"
        return _propose(current, current, ReasonCode.STEADY, text, state), state


def _propose(current: int, target: int, code: ReasonCode, why: str, state: AmadeusState) -> Recommendation:
    move = f"{current} stays" if target == current else f"{current} → {target}"
    text = f"batches take {percent(state.mean)} of the trigger on average, {why}: {move}"
    return Recommendation(target, Reason(code, text, {"mean": state.mean, "executors": float(current)}))
