"""How the values of a profile stand to the constants that S1 was published with."""

from __future__ import annotations

from dataclasses import dataclass

from rheostat.config.models import Settings

__all__ = ["PUBLISHED", "Ratio", "profile_ratios"]

PUBLISHED = {"sample_s": 15.0, "samples_to_shrink": 10.0, "hold_s": 240.0, "largest_step_down": 1.0}
"""Constants of S1: check every 15 s in exploration, shrink at the 10th sample in a row, by one, hold 240 s after a
rescale. S1 has no cooldowns."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """One value of a profile beside the published one.

    Attributes:
        key: dotted key of the setting, or a name for what follows from several.
        ours: None where the value is not a number; ``note`` says what it is then.
        published: None where S1 has no such thing.
        ratio: ours ÷ published; None where there is nothing to divide.
    """

    key: str
    meaning: str
    unit: str
    ours: float | None
    published: float | None
    ratio: float | None
    note: str = ""


def profile_ratios(profile: str) -> tuple[Ratio, ...]:
    """Each value of a profile that has to do with time, beside the published constant.

    >>> [(row.key, row.ours, row.published) for row in profile_ratios("demo")][0]
    ('sample_s', 2.0, 15.0)
    """
    settings = Settings.model_validate({"objective": "lag < 24h", "profile": profile})
    samples = settings.policy_options.get("samples_to_shrink", PUBLISHED["samples_to_shrink"])
    least = settings.sample_s * samples
    published_least = PUBLISHED["sample_s"] * PUBLISHED["samples_to_shrink"]
    guard = settings.guard
    return (
        _ratio("sample_s", "time between two checks", "s", settings.sample_s, PUBLISHED["sample_s"]),
        _ratio("samples_to_shrink", "samples in a row to shrink", "", samples, PUBLISHED["samples_to_shrink"]),
        _ratio("time_to_shrink_s", "least time to shrink (the two multiplied)", "s", least, published_least),
        _hold(settings),
        _step_down(guard.largest_step_down),
        _ratio("guard.cooldown_up_s", "cooldown before an increase", "s", guard.cooldown_up_s, None),
        _ratio("guard.cooldown_down_s", "cooldown before a decrease", "s", guard.cooldown_down_s, None),
    )


def _ratio(key: str, meaning: str, unit: str, ours: float, published: float | None) -> Ratio:
    note = "" if published is not None else "S1 has no cooldown"
    return Ratio(key, meaning, unit, float(ours), published, ours / published if published else None, note)


def _step_down(limit: int | None) -> Ratio:
    """The largest decrease by one decision; without a limit it is the policy's, which is by one in S1."""
    key, meaning, published = "guard.largest_step_down", "largest decrease at once", PUBLISHED["largest_step_down"]
    if limit is None:
        return Ratio(key, meaning, "executors", None, published, None, "no limit, the policy goes down by one")
    return _ratio(key, meaning, "executors", limit, published)


def _hold(settings: Settings) -> Ratio:
    """The hold after a rescale: seconds, or batches with a limit in seconds."""
    guard = settings.guard
    if guard.hold_s is not None:
        return _ratio("guard.hold_s", "hold after a rescale", "s", guard.hold_s, PUBLISHED["hold_s"])
    note = f"until {guard.hold_batches} batch(es) ended at the new number, at most {guard.hold_fallback_s:g} s"
    return Ratio("guard.hold_s", "hold after a rescale", "s", None, PUBLISHED["hold_s"], None, note)
