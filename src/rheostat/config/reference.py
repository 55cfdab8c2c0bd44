"""The reference page, made from the fields themselves, so that it cannot say anything else."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rheostat.config.models import PROFILES, GuardSettings, MetricsSettings, Settings, WorkersSettings

_WORDS = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "text",
    Path: "path",
    type(None): "null",
}
_LIMITS = {
    "ge": "≥ {:g}",
    "gt": "> {:g}",
    "le": "≤ {:g}",
    "lt": "< {:g}",
    "min_length": "of length ≥ {}",
    "max_length": "of length ≤ {}",
}
_PLURALS = {str: "text", float: "numbers", int: "integers", bool: "true or false"}
_COUNTS = {1: "one", 2: "two", 3: "three"}


def allowed_of(field: FieldInfo) -> str:
    """What a field takes, in words: type, range and unit.

    >>> allowed_of(Settings.model_fields["sample_s"])
    'number ≥ 0.2 and ≤ 3600 (s)'
    """
    limits = [
        text.format(getattr(limit, name))
        for limit in field.metadata
        for name, text in _LIMITS.items()
        if getattr(limit, name, None) is not None
    ]
    unit = _extra(field, "unit")
    words = " ".join(filter(None, [_type(field.annotation), " and ".join(limits), f"({unit})" if unit else ""]))
    return words + " or null" if _optional(field.annotation) else words


def reference() -> str:
    """The reference of all settings in Markdown."""
    settings = [*_head(), *table(Settings, ""), *_workers(), *_metrics(), *_guard()]
    return "\n".join([*settings, *_profiles(), *_published("demo")]) + "\n"


def _head() -> list[str]:
    return [
        "# Configuration",
        "",
        "<!-- Made by `rheostat config reference --out docs/configuration.md`; do not edit. -->",
        "",
        "A YAML file with the keys below, or the same keys as a mapping. Unknown keys and keys given twice are errors;",
        "`rheostat config check FILE` names everything that is wrong at once, and what is right and has no effect,",
        "with the reason. Times are in seconds. S1 is the thesis that the policy `reactive` comes from, see",
        "[sources](policies.md#sources).",
        "",
        'Give it as `rheostat.attach(spark, config="rheostat.yaml")`, `rheostat run --config rheostat.yaml app.py`, or',
        "`--config rheostat.yaml` to `simulate` and `compare`.",
        "",
        "```yaml",
        "objective: lag < 30s for 99%",
        "executors: [1, 20]",
        "guard:",
        "  largest_step_up: 4",
        "```",
        "",
        "## Settings",
        "",
    ]


def _workers() -> list[str]:
    head = "What the actuator `workers` needs to know. The keys stand under `workers`."
    return ["", "## Workers", "", head, "", *table(WorkersSettings, "workers.")]


def _metrics() -> list[str]:
    head = "Our own metrics, see [prometheus.md](prometheus.md). The keys stand under `metrics`."
    return ["", "## Metrics", "", head, "", *table(MetricsSettings, "metrics.")]


def _guard() -> list[str]:
    head = "Every recommendation, whichever policy made it, goes through these. The keys stand under `guard`."
    return ["", "## Guard", "", head, "", *table(GuardSettings, "guard.")]


def models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The models that values of this type hold: the type itself, or what it is a choice or a list of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(model for argument in typing.get_args(annotation) for model in models_in(argument))


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model by the keys that stand for them in a file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def table(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """The keys of one model as a table in Markdown, each with ``prefix`` before its name."""
    yield "| key | takes | default | meaning | why this default |"
    yield "|---|---|---|---|---|"
    for name, field in keys_of(model).items():
        cells = [f"`{prefix}{name}`", allowed_of(field), _default(field), str(field.description), _extra(field, "why")]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _profiles() -> Iterator[str]:
    names = list(PROFILES)
    flat = {name: dict(_flat(PROFILES[name])) for name in names}
    keys = list(dict.fromkeys(key for values in flat.values() for key in values))
    yield from ["", "## Profiles", "", "What each profile sets; an empty cell is the default.", ""]
    yield "| key | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for key in keys:
        yield f"| `{key}` | " + " | ".join(_text(flat[name][key]) if key in flat[name] else "" for name in names) + " |"


def _published(profile: str) -> Iterator[str]:
    yield from ["", f"### Profile `{profile}` beside the published constants of S1", ""]
    yield "| what | here | published | ratio | note |"
    yield "|---|---|---|---|---|"
    for row in profile_ratios(profile):
        yield "| " + " | ".join(_cells(row)) + " |"


def _cells(row: Ratio) -> tuple[str, ...]:
    unit = f" {row.unit}" if row.unit else ""
    figures = ("" if value is None else f"{value:g}{unit}" for value in (row.ours, row.published))
    return (row.meaning, *figures, "" if row.ratio is None else f"{row.ratio:.3g}", row.note)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _extra(field: FieldInfo, name: str) -> str:
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, Mapping) else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(needed)"
    if isinstance(field.default, BaseModel):
        return ""
    return "`[]`" if field.default == () else _text(field.default)


def _text(value: Any) -> str:
    """A value as it would stand in a YAML file."""
    if isinstance(value, bool) or value is None:
        return {True: "`true`", False: "`false`", None: "`null`"}[value]
    return f"`{value:g}`" if isinstance(value, int | float) else f"`{value}`"


def _optional(annotation: Any) -> bool:
    return type(None) in typing.get_args(annotation)


def _type(annotation: Any) -> str:
    """A type in words, without its None."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(argument) for argument in arguments if argument is not type(None))
    if origin is tuple:
        return _list(arguments)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is not None or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "keys with values"
    return _WORDS.get(annotation, "a value")


def _list(arguments: tuple[Any, ...]) -> str:
    of = arguments[0]
    if Ellipsis not in arguments:
        return f"list of {_COUNTS.get(len(arguments), len(arguments))} {_PLURALS.get(of, 'values')}"
    if models_in(of):
        return "list of keys with values"
    if typing.get_origin(of) is tuple:
        return "list of lists of numbers" if Ellipsis in typing.get_args(of) else "list of pairs of numbers"
    return f"list of {_PLURALS.get(of) or _type(of)}"


# How the values of a profile stand to the constants that S1 was published with.


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
