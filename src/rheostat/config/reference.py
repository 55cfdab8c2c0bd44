"""The reference page of all settings, generated from the fields of the models."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rheostat.config.models import PROFILES, GuardSettings, MetricsSettings, Settings, WorkersSettings

_HEAD = """# Configuration

<!-- Made by `rheostat config reference --out docs/configuration.md`; do not edit. -->

A YAML file with the keys below, or the same keys as a mapping. Unknown keys and duplicate keys are errors.
`rheostat config check FILE` reports all errors at once, and valid settings that have no effect, with the reason.
Times are in seconds. S1 is the thesis that the policy `reactive` comes from, see [sources](policies.md#sources).

Pass it as `rheostat.attach(spark, config="rheostat.yaml")`, `rheostat run --config rheostat.yaml app.py`, or
`--config rheostat.yaml` to `simulate` and `compare`.

```yaml
objective: lag < 30s for 99%
executors: [1, 20]
guard:
  largest_step_up: 4
```

## Settings
"""

_SECTIONS: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ("workers", "Settings of the `workers` actuator. Keys are under `workers`.", WorkersSettings),
    ("metrics", "Rheostat's metrics, see [prometheus.md](prometheus.md). Keys are under `metrics`.", MetricsSettings),
    ("guard", "Steps that every policy's recommendation passes. Keys are under `guard`.", GuardSettings),
)

_WORDS = {bool: "true or false", int: "integer", float: "number", str: "text", Path: "path", type(None): "null"}
_PLURALS = {bool: "true or false", int: "integers", float: "numbers", str: "text"}
_COUNTS = {1: "one", 2: "two", 3: "three"}
_LIMITS = {
    "ge": "≥ {:g}",
    "gt": "> {:g}",
    "le": "≤ {:g}",
    "lt": "< {:g}",
    "min_length": "of length ≥ {}",
    "max_length": "of length ≤ {}",
}


def reference() -> str:
    """The reference of all settings in Markdown."""
    lines = [_HEAD, *table(Settings, "")]
    for name, head, model in _SECTIONS:
        lines += ["", f"## {name.capitalize()}", "", head, "", *table(model, f"{name}.")]
    return "\n".join([*lines, *_profiles(), *_published("demo")]) + "\n"


def table(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """The keys of one model as a Markdown table, each with ``prefix`` before its name."""
    yield from _rows("key", "takes", "default", "meaning", "why this default")
    for name, field in keys_of(model).items():
        cells = [f"`{prefix}{name}`", allowed_of(field), _default(field), str(field.description), _extra(field, "why")]
        yield _row(cell.replace("|", "\\|") for cell in cells)


def _profiles() -> Iterator[str]:
    flat = {name: dict(_flatten(values)) for name, values in PROFILES.items()}
    yield from ["", "## Profiles", "", "What each profile sets; an empty cell is the default.", ""]
    yield from _rows("key", *flat)
    for key in dict.fromkeys(key for values in flat.values() for key in values):
        yield _row([f"`{key}`", *(_yaml(values[key]) if key in values else "" for values in flat.values())])


def _published(profile: str) -> Iterator[str]:
    yield from ["", f"### Profile `{profile}` compared with the published constants of S1", ""]
    yield from _rows("what", "here", "published", "ratio", "note")
    for row in profile_ratios(profile):
        unit = f" {row.unit}" if row.unit else ""
        figures = ["" if value is None else f"{value:g}{unit}" for value in (row.ours, row.published)]
        yield _row([row.meaning, *figures, "" if row.ratio is None else f"{row.ratio:.3g}", row.note])


def _rows(*heads: str) -> Iterator[str]:
    yield _row(heads)
    yield "|---" * len(heads) + "|"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        yield from _flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, value)]


def _extra(field: FieldInfo, name: str) -> str:
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, Mapping) else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    if isinstance(field.default, BaseModel):
        return ""
    return "`[]`" if field.default == () else _yaml(field.default)


def _yaml(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "`true`", False: "`false`", None: "`null`"}[value]
    return f"`{value:g}`" if isinstance(value, int | float) else f"`{value}`"


# Fields in words, for the page and for error messages


def keys_of(model: type[Any]) -> dict[str, FieldInfo]:
    """The fields of a model or a dataclass by their keys in a file."""
    if is_dataclass(model):
        return {name: FieldInfo.from_annotation(kind) for name, kind in typing.get_type_hints(model).items()}
    return {field.alias or name: field for name, field in model.model_fields.items()}


def models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The models that values of this type hold: the type itself, or what it is a choice or a list of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(model for argument in typing.get_args(annotation) for model in models_in(argument))


def allowed_of(field: FieldInfo) -> str:
    """What a field takes, in words: type, range and unit.

    >>> allowed_of(Settings.model_fields["sample_s"])
    'number ≥ 0.2 and ≤ 3600 (s)'
    """
    given = [(text, getattr(limit, name, None)) for limit in field.metadata for name, text in _LIMITS.items()]
    limits = " and ".join(text.format(value) for text, value in given if value is not None)
    unit = _extra(field, "unit")
    words = " ".join(filter(None, [_type(field.annotation), limits, f"({unit})" if unit else ""]))
    return words + " or null" if type(None) in typing.get_args(field.annotation) else words


def _type(annotation: Any) -> str:
    """A type in words, without its None."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(argument) for argument in arguments if argument is not type(None))
    if origin is tuple:
        count = "" if Ellipsis in arguments else f"{_COUNTS.get(len(arguments), len(arguments))} "
        return f"list of {count}{_plural(arguments[0])}"
    if origin is typing.Annotated:
        return _type(arguments[0])
    return "keys with values" if origin is not None or models_in(annotation) else _WORDS.get(annotation, "a value")


def _plural(annotation: Any) -> str:
    if models_in(annotation):
        return "keys with values"
    if typing.get_origin(annotation) is tuple:
        return "lists of numbers" if Ellipsis in typing.get_args(annotation) else "pairs of numbers"
    return _PLURALS.get(annotation) or _type(annotation)


# A profile compared with the published constants


@dataclass(frozen=True, slots=True)
class Ratio:
    """One value of a profile and the published one.

    Attributes:
        key: dotted key of the setting, or a name for a value derived from several settings.
        ours: None if the value is not a number; ``note`` then says what it is.
        published: None if S1 has no such setting.
    """

    key: str
    meaning: str
    unit: str
    ours: float | None
    published: float | None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours ÷ published; None if either is missing."""
        return None if self.ours is None or self.published is None else self.ours / self.published


def profile_ratios(profile: str) -> tuple[Ratio, ...]:
    """Each time-related value of a profile with the published constant.

    S1 checks every 15 s in exploration, shrinks by one at the 10th sample in a row, holds for 240 s after a rescale,
    and has no cooldowns.

    >>> [(row.key, row.ours, row.published) for row in profile_ratios("demo")][0]
    ('sample_s', 2.0, 15.0)
    """
    settings = Settings.model_validate({"objective": "lag < 24h", "profile": profile})
    samples, guard, every_s = settings.policy_options.get("samples_to_shrink", 10), settings.guard, settings.sample_s
    hold_s, step, no_cooldown = guard.hold_s, guard.largest_step_down, "S1 has no cooldown"
    hold = f"until {guard.hold_batches} batch(es) ended at the new number, at most {guard.hold_fallback_s:g} s"
    no_limit = "no limit, the policy decreases by one" if step is None else ""
    return (
        Ratio("sample_s", "time between two checks", "s", every_s, 15.0),
        Ratio("samples_to_shrink", "samples in a row to shrink", "", samples, 10.0),
        Ratio("time_to_shrink_s", "least time to shrink (samples × time)", "s", every_s * samples, 150.0),
        Ratio("guard.hold_s", "hold after a rescale", "s", hold_s, 240.0, hold if hold_s is None else ""),
        Ratio("guard.largest_step_down", "largest decrease at once", "executors", step, 1.0, no_limit),
        Ratio("guard.cooldown_up_s", "cooldown before an increase", "s", guard.cooldown_up_s, None, no_cooldown),
        Ratio("guard.cooldown_down_s", "cooldown before a decrease", "s", guard.cooldown_down_s, None, no_cooldown),
    )
