"""Options of ``reactive``: ours by default, and those of the document (S1)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from rheostat.config.fields import FrozenModel

__all__ = ["FAITHFUL", "ReactiveOptions"]


class ReactiveOptions(FrozenModel):
    """Options of ``reactive``, with the defaults of the preset ``default``."""

    sla: float = Field(0.10, gt=0, le=100, description="Slow records from which on the SLA is violated, a share (S1).")
    occupancy_limit: float | None = Field(
        1.0, gt=0, le=100, description="Batch time ÷ τ from which on the job is overloaded; null: not looked at (S1)."
    )
    wait_limit: float | None = Field(
        0.6,
        gt=0,
        le=100,
        description="Expected wait ÷ the objective's lag from which on the job falls behind; null: not looked at (S1).",
    )
    slow_interval_s: float = Field(
        15.0, gt=0, le=3600, description="T of the slow records, s. One for all modes: y depends on it (S1: 15 s)."
    )
    increase: Literal["one", "needed"] = Field(
        "needed", description="one: n + 1 at a violation; needed: as many as arrival and backlog need."
    )
    decrease: Literal["one", "needed"] = Field(
        "needed", description="one: n − 1; needed: down to the need (the guard largest_step_down limits it)."
    )
    samples_to_shrink: int = Field(10, ge=1, le=10_000, description="Samples in a row with a surplus (S1: 10).")
    shrink_on: bool = Field(
        default=True, description="Whether the count goes on after a decrease; false: it begins again (S1)."
    )
    headroom: float = Field(0.9, gt=0, le=1, description="Share of the capacity to be used after a decrease (S1).")
    learn_from: Literal["arrival", "processed"] = Field(
        "processed", description="arrival: Algorithm 1 as printed; processed: what the executors have really done."
    )
    memory: int | None = Field(
        5, ge=1, le=10_000, description="Overloaded samples that the mean weighs at most; null: all of them (S1)."
    )
    settle_batches: int = Field(
        2, ge=0, le=1000, description="Batches at a new number before it is judged; 0: at once. The first one is cold."
    )
    catch_up_lags: float | None = Field(
        2.0, gt=0, le=10_000, description="Time to work off a backlog, in lags of the objective; null: not looked at."
    )
    probe: bool = Field(default=True, description="Whether to go down on low use while the capacity is unknown.")


FAITHFUL: Mapping[str, object] = MappingProxyType(
    {
        "increase": "one",
        "decrease": "one",
        "learn_from": "arrival",
        "memory": None,
        "settle_batches": 0,
        "catch_up_lags": None,
        "occupancy_limit": None,
        "wait_limit": None,
        "probe": False,
        "shrink_on": False,
    }
)
