"""The reference page of all settings, generated from the models and the docstrings under their fields."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rheostat.config.faults import allowed_of, keys_of
from rheostat.config.models import (
    PROFILES,
    GuardSettings,
    MetricsSettings,
    Settings,
    SheddingSettings,
    WorkersSettings,
)

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
    ("shedding", "Load shedding, see [shedding.md](shedding.md). Keys are under `shedding`.", SheddingSettings),
)


def reference() -> str:
    """The reference of all settings in Markdown."""
    lines = [_HEAD, *table(Settings, "")]
    for name, head, model in _SECTIONS:
        lines += ["", f"## {name.capitalize()}", "", head, "", *table(model, f"{name}.")]
    return "\n".join([*lines, *_profiles(), *_published("demo")]) + "\n"


def table(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """The keys of one model as a Markdown table, each with ``prefix`` before its name."""
    yield from _rows("key", "takes", "default", "meaning", "why this default")
    explained = explain_fields(model)
    for key, name in zip(keys_of(model), model.model_fields, strict=True):
        if name in explained:
            field = model.model_fields[name]
            cells = [f"`{prefix}{key}`", allowed_of(field), _default(field), *explained[name]]
            yield _row(cell.replace("|", "\\|") for cell in cells)


def explain_fields(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """The meaning of each field and the reason for its default, from the docstring under it in the source."""
    explained = {}
    for each in reversed(model.__mro__):
        for name, text in _read_docstrings(each.__module__).get(each.__name__, {}).items():
            meaning, why = re.split(r" (?:Default|Required): ", text, maxsplit=1)
            explained[name] = (meaning, why.removesuffix("."))
    return explained


@cache
def _read_docstrings(module: str) -> dict[str, dict[str, str]]:
    """Class → field → the docstring under it, of the models in a module of ours."""
    found: dict[str, dict[str, str]] = {}
    source = inspect.getsource(sys.modules[module]) if module.startswith("rheostat.") else ""
    for model in [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]:
        for node, under in pairwise(model.body):
            match node, under:
                case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(text))):
                    found.setdefault(model.name, {})[field] = " ".join(text.split())
    return found


def _profiles() -> Iterator[str]:
    flat = {name: dict(_flatten(values)) for name, values in PROFILES.items()}
    yield from ["", "## Profiles", "", "What each profile sets; an empty cell is the default.", ""]
    yield from [
        "With `faithful`, the hold of S1 is for its policies, `reactive` and `proactive`; others have none.",
        "",
    ]
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
