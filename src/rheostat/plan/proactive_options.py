"""Options of ``proactive``: those of ``reactive``, which it explores with, and those of the model and the forecast."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import Field

from rheostat.learn.training import TrainingOptions
from rheostat.plan.reactive_options import FAITHFUL as FAITHFUL_REACTIVE
from rheostat.plan.reactive_options import ReactiveOptions

__all__ = ["FAITHFUL", "ProactiveOptions"]


class ProactiveOptions(ReactiveOptions):
    """Options of ``proactive``, with the defaults of the preset ``default``."""

    headroom: float = Field(
        0.95,
        gt=0,
        le=1,
        description="Share of the capacity to be used after a decrease; a rise is seen before it comes (S1: 0.9).",
    )
    explore_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two checks in exploration, s; null: each sample (S1: 15 s)."
    )
    sample_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two samples in control, s; null: each one (S1: 5 s)."
    )
    decide_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two decisions in control, s; null: each sample (S1: 60 s)."
    )
    hold_s: float | None = Field(
        240.0,
        ge=0,
        le=86_400,
        description="How long recovery from a change is waited for at most, s; until then samples are not learnt from. "
        "null: they always are (the profile faithful has the hold of S1 in its guards).",
    )
    most_slow: float | None = Field(
        1.0, gt=0, le=1e6, description="Slow records above this are learnt as this: a stall of minutes is no more."
    )
    check_every: int = Field(240, ge=10, le=100_000, description="Samples between two checks of the model (S1: 450).")
    learn_rows: int = Field(3000, ge=50, le=1_000_000, description="Newest samples that a model is made of.")
    degree: int = Field(8, ge=1, le=8, description="The highest degree that is tried, from 1 on (S1: 8).")
    resamples: int = Field(250, ge=2, le=10_000, description="k, resamples of the stability check (S1: 250).")
    block: int = Field(30, ge=1, le=10_000, description="Samples in a row that are drawn together.")
    stability_limit: float = Field(
        TrainingOptions.stability_limit,
        gt=0,
        le=100,
        description="λ, the largest standard deviation of a stable model's predictions (S1: 0.05, by another method).",
    )
    outliers: bool = Field(default=True, description="Whether outliers are found and left out of the training data.")
    relearn: bool = Field(
        default=True, description="Whether the model is learnt anew in control too; false: once, in exploration (S1)."
    )
    back_s: float = Field(600.0, gt=0, le=86_400, description="How far back the forecast looks, s (S1: 10 minutes).")
    horizon_s: float = Field(
        60.0, gt=0, le=3600, description="How far ahead it looks, at least as far as a change takes, s (S1: 1 minute)."
    )
    step_s: float = Field(5.0, gt=0, le=3600, description="Step of the forecast, s (S1: 5 s).")
    timely: bool = Field(
        default=True, description="Whether a rate counts for the middle of the window that it is the mean of."
    )
    present: bool = Field(default=True, description="Whether the present rate must be carried too, not only forecasts.")
    bounded: bool = Field(
        default=True, description="Whether what the executors were seen to carry is believed beside the model."
    )
    net: bool = Field(
        default=True, description="Whether a violation in control is answered at once, as in exploration."
    )
    gain_up: float = Field(
        0.9, gt=0, le=1, description="α of the hysteresis: share of the way up by one decision (S1)."
    )
    gain_down: float = Field(0.4, gt=0, le=1, description="β of the hysteresis: share of the way down (S1).")
    residual_limit: float = Field(
        0.08, gt=0, le=100, description="Slow records by which a prediction may be wrong (S1)."
    )
    residuals_in_a_row: int = Field(
        3, ge=1, le=1000, description="Residuals above the limit in a row that are a change point (S1: 1)."
    )
    residual_allowance: float | None = Field(
        0.02, ge=0, le=100, description="Residual that does not add up to a gradual change; null: not looked for (S1)."
    )
    residual_patience: float = Field(
        5.0,
        gt=0,
        le=10_000,
        description="How many times the limit may add up before it is a change point.",
        json_schema_extra={"only_with": ["residual_allowance", "set"]},
    )


FAITHFUL: Mapping[str, object] = MappingProxyType(
    {
        **FAITHFUL_REACTIVE,
        "headroom": 0.9,
        "explore_every_s": 15.0,
        "sample_every_s": 5.0,
        "decide_every_s": 60.0,
        "hold_s": None,
        "most_slow": None,
        "check_every": 450,
        "learn_rows": 1_000_000,
        "outliers": False,
        "relearn": False,
        "timely": False,
        "present": False,
        "bounded": False,
        "net": False,
        "residuals_in_a_row": 1,
        "residual_allowance": None,
    }
)
