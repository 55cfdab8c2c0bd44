"""The golden files: where they are, how they are read and written."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
RECORD = "python -m tests.golden.record"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def golden_file(name: str) -> Path:
    """Figures are of one minor version of Python: from 3.12 on ``sum`` rounds floats otherwise."""
    return FOLDER / f"{name}-py{_PYTHON}.json"


@cache
def read_golden(name: str) -> Any:
    """The content of a golden file; None: there is none for this version of Python."""
    path = golden_file(name)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write_golden(name: str, values: dict[str, Any]) -> None:
    """Write a golden file, one line for each key."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    golden_file(name).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
