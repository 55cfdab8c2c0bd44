"""What a change of the number of executors costs: measured, and its part in the size and in the choice to wait.

Source: S4, sections 4 and 6 (its future work). Of a change are measured

* the *delay*: time from the decision until it happens, in which the job goes on as before;
* the *pause*: time in which nothing is processed. Executors that join or leave a running query cause none; a restart
  from the checkpoint does;
* the *cold* batch: how much longer the first batch takes than the third, with the reload of state in it.

While it lasts the lag grows (in records, w arriving and c processed per second):

    lag₀ = lag + (w − c) · delay
    lag₁ = lag₀ + w · (pause + cold)
    required rate = w + (lag₁ − threshold) ÷ catch-up time
"""

from __future__ import annotations

from typing import NamedTuple

from rheostat.model import Assessment, Outcome

__all__ = ["Cold", "Cost", "in_words", "lag_after", "measured", "required_rate", "watched"]

_MEMORY = 8
_WARM = 3


class Cost(NamedTuple):
    """Means over the last eight changes or so, s.

    Attributes:
        changes: how many are in it, at most eight.
        cold_s: None: not measured yet.
    """

    changes: int
    delay_s: float
    pause_s: float
    cold_s: float | None = None

    @property
    def blocked_s(self) -> float:
        """Time in which nothing is processed, pause and cold batch together."""
        return self.pause_s + (self.cold_s or 0.0)


class Cold(NamedTuple):
    """A change whose first batches are looked at.

    Attributes:
        first_s: duration of the first batch; None: it has not ended.
    """

    up: bool
    first_s: float | None = None


def lag_after(lag: float, arriving: float, processed: float, delay_s: float, blocked_s: float) -> float:
    """lag₁: records that wait when the change is done.

    >>> lag_after(100_000, arriving=1000, processed=800, delay_s=30, blocked_s=60)
    166000
    """
    return max(0.0, lag + (arriving - processed) * delay_s) + arriving * blocked_s


def required_rate(arriving: float, lag: float, threshold: float, catch_up_s: float) -> float:
    """Records/s that bring the lag under the threshold within the catch-up time, never less than what arrives.

    >>> required_rate(1000, lag=166_000, threshold=30_000, catch_up_s=170)
    1800.0
    """
    return arriving + max(0.0, lag - threshold) / catch_up_s


def measured(cost: Cost | None, outcome: Outcome) -> Cost | None:
    """The means with one more change, from its outcome; the same where it does not tell how long it took."""
    if outcome.took_s is None:
        return cost
    waited_s = min(outcome.waited_s or 0.0, outcome.took_s)
    delay_s, pause_s = (waited_s, outcome.took_s - waited_s) if outcome.method == "restart" else (outcome.took_s, 0.0)
    if cost is None:
        return Cost(1, delay_s, pause_s)
    changes = min(cost.changes + 1, _MEMORY)
    return Cost(changes, _mean(cost.delay_s, delay_s, changes), _mean(cost.pause_s, pause_s, changes), cost.cold_s)


def watched(cold: Cold, cost: Cost | None, seen: Assessment) -> tuple[Cold | None, Cost | None]:
    """What this sample says of the first batches after a change: what is looked at further, and the means.

    A first batch that was not seen, because the next one ended before the sample, says nothing.
    """
    if cost is None or seen.last_batch_s is None or seen.missing:
        return cold, cost
    if cold.first_s is None:
        if seen.batches == 0:
            return cold, cost
        return (cold._replace(first_s=seen.last_batch_s) if seen.batches == 1 else None), cost
    if seen.batches < _WARM:
        return cold, cost
    longer_s = max(0.0, cold.first_s - seen.last_batch_s)
    mean = longer_s if cost.cold_s is None else _mean(cost.cold_s, longer_s, cost.changes)
    return None, cost._replace(cold_s=mean)


def in_words(cost: Cost) -> str:
    """The cost for people.

    >>> in_words(Cost(3, 4.0, 0.0, 2.5))
    'a change takes 4.0 s to come, then 2.5 s of work'
    """
    return f"a change takes {cost.delay_s:.1f} s to come, then {cost.blocked_s:.1f} s of work"


def _mean(mean: float, new: float, count: int) -> float:
    return mean + (new - mean) / count
