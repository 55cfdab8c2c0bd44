"""What documented models are made of: fields with a meaning, a unit and a reason, and faults of our own."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from rheostat.errors import Fault

__all__ = ["FrozenModel", "documented", "reject"]


class FrozenModel(BaseModel):
    """A model that cannot be changed, takes no unknown key, and turns no text into a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def documented(meaning: str, why: str, *, default: Any = ..., unit: str = "", **limits: Any) -> Any:
    """A field whose description says what it means, in which unit, and why it has its default."""
    extra: JsonDict = {"unit": unit, "why": why}
    return Field(default, description=meaning, json_schema_extra=extra, **limits)


def reject(faults: list[Fault]) -> PydanticCustomError:
    """An error for pydantic that carries our faults; their fields are relative to where it is raised."""
    return PydanticCustomError("faults", "{message}", {"message": faults[0].message, "faults": tuple(faults)})
