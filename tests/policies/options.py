"""The tables of options in docs/policies.md, against the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")


def documented(name: str) -> list[list[str]]:
    """Rows of the table: the option, its default, then one cell for each preset that has a column."""
    section = PAGE.split(f"\n## `{name}`\n")[1].split("\n## ")[0]
    table = section.split("| option |")[1].split("\n\n")[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    return [[cell.strip(" `") for cell in line.split("|")[1:-2]] for line in lines]


def expected(policy: Any, *columns: str) -> list[list[str]]:
    """The same, from the options' model and the presets. Defaults that are settings of their own are not compared."""
    fields: dict[str, FieldInfo] = policy.options_type.model_fields
    return [
        [name, _shown(field.default), *(_shown(_in(policy.presets[each], name)) for each in columns)]
        for name, field in fields.items()
    ]


def _in(preset: Any, name: str) -> Any:
    return preset.get(name, "")


def _shown(value: Any) -> str:
    """As a settings file has it."""
    if isinstance(value, BaseModel):
        return "below"
    return json.dumps(value).strip('"')
