"""Options of ``mst`` and ``mst-alpha``: ours by default, and those of the document (S2)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from rheostat.config.fields import FrozenModel

__all__ = ["FAITHFUL", "NO_HOLD", "MstOptions"]


class MstOptions(FrozenModel):
    """Options of ``mst``, with the defaults of the preset ``default``."""

    dt_threshold: float = Field(
        7.0, ge=0, lt=100, description="T, % of MST that must be left over; never less than the model's error."
    )
    check_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two decisions, s; null: each sample (S2: each minute)."
    )
    increase: Literal["one", "needed"] = Field(
        "needed", description="one: n + 1 (S2, Algorithm 3); needed: as many as arrival rate and backlog need."
    )
    grow_at: float | None = Field(
        1.0, gt=0, le=2, description="Arrival ÷ MST above which they are added before that; null: not looked at (S2)."
    )
    catch_up_lags: float | None = Field(
        2.0, gt=0, le=10_000, description="Time to work off a backlog, in lags of the objective; null: not looked at."
    )
    settle_batches: int = Field(
        2, ge=0, le=1000, description="Batches at a new number before it is measured or judged; 0: at once."
    )
    samples_to_shrink: int = Field(
        10, ge=1, le=10_000, description="Decisions in a row with a surplus before executors are given up (S2: 1)."
    )
    lower_bounds: bool = Field(
        default=True, description="Whether healthy samples raise the model; false: only saturated ones count (S2)."
    )
    shun_far: bool = Field(
        default=True, description="Whether nodes so far away that they lower MST are left alone; false: only warn (S2)."
    )
    beta_from: int = Field(2, ge=2, le=100, description="Configurations from which on β is fitted (S2: 3).")
    residual_limit: float | None = Field(
        0.25, gt=0, le=10, description="Relative residual of a change point; null: the model never forgets (S2)."
    )
    residuals_in_a_row: int = Field(
        2,
        ge=1,
        le=1000,
        description="How many residuals above the limit make one.",
        json_schema_extra={"only_with": ["residual_limit", "set"]},
    )


FAITHFUL: Mapping[str, object] = MappingProxyType(
    {
        "dt_threshold": 10.0,
        "check_every_s": 60.0,
        "increase": "one",
        "grow_at": None,
        "catch_up_lags": None,
        "settle_batches": 0,
        "samples_to_shrink": 1,
        "lower_bounds": False,
        "shun_far": False,
        "beta_from": 3,
        "residual_limit": None,
    }
)

NO_HOLD: Mapping[str, Any] = MappingProxyType({"hold_s": 0.0, "hold_both": False})
"""Guard settings to be used with the profile ``faithful``, which brings the hold of S1: S2 has none."""
