"""Options of ``router``: ours by default, and what the talk says or implies (S5)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from rheostat.config.fields import FrozenModel
from rheostat.plan.router_load import Spikes

__all__ = ["FAITHFUL", "RouterOptions"]


class RouterOptions(FrozenModel):
    """Options of ``router``, with the defaults of the preset ``default``."""

    metrics_delay_s: float = Field(
        0.0,
        ge=0,
        le=3600,
        description="How old figures are at least when they are seen, s; more if they say so (S5: 120).",
    )
    decide_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two decisions, s; null: each sample (S5: 60 s)."
    )
    bucket_s: float = Field(
        60.0, gt=0, le=3600, description="Length of the time buckets of the load, s (S5: 1 minute)."
    )
    window_s: float = Field(
        600.0, gt=0, le=86_400, description="N: how far back the regression looks, s (S5 gives none)."
    )
    horizon_s: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="X: how far ahead it looks, at least as far as a change takes, s (S5 gives none).",
    )
    deviations: float = Field(3.0, gt=0, le=100, description="Errors of so many σ are outliers (S5: 3).")
    sigma_floor: float = Field(0.05, ge=0, le=10, description="Least σ, as a share of the predicted rate.")
    outliers_to_reset: int = Field(
        3, ge=1, le=1000, description="Outliers in a row that reset the baseline (S5 gives none)."
    )
    significant_wait: float = Field(
        0.85, gt=0, le=100, description="Time to process the backlog ÷ the objective's lag that is significant lag."
    )
    utilization: Literal["occupancy", "busy"] = Field(
        "occupancy", description="What utilization is: batch time ÷ τ, or the share of slot time in tasks (S5: CPU)."
    )
    safe_utilization: float = Field(
        1.0, gt=0, le=100, description="Utilization from which on it scales up (S5 gives none)."
    )
    eager: bool = Field(
        default=True, description="Whether it scales up before any lag, by regression and table (S5: future work)."
    )
    eager_utilization: float = Field(
        1.05,
        gt=0,
        le=10,
        description="Predicted rate ÷ the table's, from which on that is so.",
        json_schema_extra={"only_with": ["eager", "true"]},
    )
    ride_out: bool = Field(
        default=False,
        description="Whether a spike is waited for with that, where the objective leaves the time to see if it stays.",
        json_schema_extra={"only_with": ["eager", "true"]},
    )
    rows: Literal["learned", "saturated"] = Field(
        "learned",
        description="saturated: a row is what was processed when saturated (S5); learned: what each batch shows.",
    )
    memory: int | None = Field(
        10,
        ge=1,
        le=10_000,
        description="Measurements that a learned row weighs at most; null: all of them.",
        json_schema_extra={"only_with": ["rows", "learned"]},
    )
    version: str = Field(
        "", max_length=100, description="Version of the job; rows of another one are put aside when it changes."
    )
    record_change: float = Field(
        1.5, gt=1, le=1000, description="Factor of the cost of a record beyond which rows are of another record size."
    )
    catch_up_lags: float = Field(
        2.0, gt=0, le=10_000, description="Catch-up time, in lags of the objective (S5 gives none)."
    )
    buffered: Literal["excess", "all"] = Field(
        "excess", description="What is to be caught up: the backlog beyond a healthy one, or all of it (S5)."
    )
    pause_up_s: float = Field(
        0.0, ge=0, le=3600, description="How long an increase stops processing, s (S5: < 1 minute)."
    )
    pause_down_s: float = Field(0.0, ge=0, le=3600, description="How long a decrease does, s (S5: 1 to 3 minutes).")
    utilization_up: float = Field(
        1.0, gt=0, le=1, description="Share of the table's rate to be used after an increase (S5: 0.6)."
    )
    utilization_down: float = Field(
        1.0, gt=0, le=1, description="Share of the table's rate to be used after a decrease (S5: 0.6)."
    )
    interval: float | None = Field(
        1.0,
        ge=0,
        le=100,
        description="Half of the prediction interval, in deviations, that a decrease must carry; null: not asked (S5).",
    )
    anticipation: Literal["needed", "any"] = Field(
        "needed",
        description="The anticipated increase that forbids a decrease: one that fewer executors do not carry, "
        "or any beyond σ (S5 gives none).",
    )
    samples_to_shrink: int = Field(4, ge=1, le=10_000, description="Decisions in a row that ask for fewer (S5: 1).")
    settle_batches: int = Field(2, ge=0, le=1000, description="Batches at a new number before it is judged.")
    unsettled: Literal["rise", "hold"] = Field(
        "rise", description="After failures or a change: increases only, or no decision at all (S5)."
    )
    least_partitions: float | None = Field(
        None,
        gt=0,
        le=10_000,
        description="Least partitions for each slot, so the largest size; null: the guard's limit.",
    )
    most_partitions: float | None = Field(
        None, gt=0, le=10_000, description="Most partitions for each slot, so the smallest size; null: no limit."
    )
    cooldown_up_s: float = Field(0.0, ge=0, le=86_400, description="Least time from a change to the next increase, s.")
    cooldown_down_s: float = Field(
        60.0, ge=0, le=86_400, description="Least time from a change to the next decrease, s."
    )
    largest_step_up: int | None = Field(50, ge=1, le=100_000, description="Largest increase at a time (S5: 50).")
    largest_step_down: int | None = Field(None, ge=1, le=100_000, description="Largest decrease at a time (S5: none).")
    largest_size: int | None = Field(None, ge=1, le=100_000, description="Largest size; null: the bounds alone.")

    @property
    def spikes(self) -> Spikes:
        """How outliers are told."""
        return Spikes(self.deviations, self.sigma_floor, self.outliers_to_reset)


FAITHFUL: Mapping[str, object] = MappingProxyType(
    {
        "metrics_delay_s": 120.0,
        "decide_every_s": 60.0,
        "window_s": 900.0,
        "horizon_s": 600.0,
        "significant_wait": 1.0,
        "utilization": "busy",
        "safe_utilization": 0.8,
        "eager": False,
        "rows": "saturated",
        "memory": None,
        "buffered": "all",
        "pause_up_s": 60.0,
        "pause_down_s": 180.0,
        "utilization_up": 0.6,
        "utilization_down": 0.6,
        "interval": None,
        "anticipation": "any",
        "samples_to_shrink": 1,
        "settle_batches": 1,
        "unsettled": "hold",
        "least_partitions": 1.0,
        "cooldown_up_s": 300.0,
        "cooldown_down_s": 900.0,
    }
)
