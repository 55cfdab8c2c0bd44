"""What the stages of ``router`` ask at each turn, told from options and context once."""

from __future__ import annotations

from dataclasses import dataclass

from rheostat.plan.policy import PolicyContext
from rheostat.plan.router_load import Spikes
from rheostat.plan.router_options import RouterOptions
from rheostat.plan.words import percent

__all__ = ["Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a turn goes: what is asked at each one. To read it from the options takes ten times as long.

    Attributes:
        options: what is asked now and then.
        bucket_s, window_s, version, horizon_s, settle_batches, safe_utilization: as in the options.
        eager_utilization, memory, record_change, interval, utilization_down, samples_to_shrink: as in the options.
        half_window_s: half of the time that arrival rates are means of, s.
        counted_s: how long a size must have been in force for a row, s.
        spikes: how outliers are told.
        significant_s: the wait that is significant lag, s.
        by_batches: whether utilization is that of batches.
        learned: whether rows are what each batch shows.
        eager: whether it scales up before any lag.
        timely: whether the load is fitted up to now, and not by complete buckets alone.
        any_rise: whether any anticipated increase forbids a decrease.
        used_down: ``utilization_down`` as people read it.
        catch_up_s: the catch-up time, s.
        pause_up_s, pause_down_s: how long a change stops processing, s.
    """

    options: RouterOptions
    bucket_s: float
    window_s: float
    version: str
    horizon_s: float
    settle_batches: int
    safe_utilization: float
    eager_utilization: float
    memory: int | None
    record_change: float
    interval: float | None
    utilization_down: float
    samples_to_shrink: int
    half_window_s: float
    counted_s: float
    spikes: Spikes
    significant_s: float
    by_batches: bool
    learned: bool
    eager: bool
    timely: bool
    any_rise: bool
    used_down: str
    catch_up_s: float
    pause_up_s: float
    pause_down_s: float

    @classmethod
    def of(cls, options: RouterOptions, context: PolicyContext) -> Rules:
        """Those of a policy."""
        lag_s, window_s = context.objective.lag_s, context.rate_window_s
        return cls(
            options=options,
            bucket_s=options.bucket_s,
            window_s=options.window_s,
            version=options.version,
            horizon_s=options.horizon_s,
            settle_batches=options.settle_batches,
            safe_utilization=options.safe_utilization,
            eager_utilization=options.eager_utilization,
            memory=options.memory,
            record_change=options.record_change,
            interval=options.interval,
            utilization_down=options.utilization_down,
            samples_to_shrink=options.samples_to_shrink,
            half_window_s=window_s / 2,
            counted_s=window_s if options.rows == "saturated" else 0.0,
            spikes=options.spikes,
            significant_s=options.significant_wait * lag_s,
            by_batches=options.utilization == "occupancy",
            learned=options.rows == "learned",
            eager=options.eager,
            timely=options.decide_every_s is None,
            any_rise=options.anticipation == "any",
            used_down=percent(options.utilization_down),
            catch_up_s=options.catch_up_lags * lag_s,
            pause_up_s=options.pause_up_s,
            pause_down_s=options.pause_down_s,
        )
