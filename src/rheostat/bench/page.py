"""The page of figures, ``docs/benchmarks.md``: one section a benchmark, replaced by each run that is told to."""

from __future__ import annotations

import re
from pathlib import Path

from rheostat.bench.measure import Bench, Metric, machine
from rheostat.errors import Fault, InputError
from rheostat.files import read_text, reason_of

__all__ = ["TITLE", "require_page", "section", "update_page", "with_section"]

TITLE = """# Benchmarks

Every figure here was printed by the command above it, which wrote this page too. Targets are upper limits.
"""
"""How the page begins."""

_MOST_BYTES = 16 * 2**20


def require_page(path: Path) -> None:
    """Check that the page can be written, before anything is measured; the folder that it lies in is made.

    Raises:
        InputError: it cannot: a folder, a device, no permission, not text.
    """
    try:
        if path.exists():
            read_text(path, _MOST_BYTES)
            path.open("r+b").close()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("xb").close()
            path.unlink()
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        allowed = "a Markdown page, old or new, that can be written"
        raise InputError([Fault("page", str(path), allowed, f"the page cannot be written: {reason}")]) from error


def update_page(path: Path, result: Bench) -> None:
    """Put a result into the page, in place of an older one of the same name."""
    text = path.read_text(encoding="utf-8") if path.exists() else TITLE
    path.write_text(with_section(text, result.name, section(result)), encoding="utf-8")


def with_section(text: str, name: str, fresh: str) -> str:
    """The page with the section of that name replaced, or added in the order of names."""
    head, *sections = re.split(r"(?m)^(?=## )", text)
    kept = [old for old in sections if not old.startswith(f"## {name}\n")]
    ordered = sorted([*(old.rstrip() for old in kept), fresh.rstrip()])
    return "\n\n".join([head.rstrip(), *ordered]) + "\n"


def section(result: Bench) -> str:
    """One benchmark as Markdown."""
    lines = [
        f"## {result.name}",
        "",
        f"`rheostat bench {result.name} --page docs/benchmarks.md`, on: {machine()}.",
        "",
        "| figure | value | 95 % interval | n | target |",
        "|---|---|---|---|---|",
        *(_row(metric) for metric in result.metrics),
        "",
        *(f"- {note}" for note in result.notes),
    ]
    return "\n".join(lines)


def _row(metric: Metric) -> str:
    value = "not measured" if metric.value is None else f"{metric.value:.4g} {metric.unit}"
    interval = "" if metric.ci95 is None else f"{metric.ci95[0]:.4g} … {metric.ci95[1]:.4g}"
    mark = {None: "", True: ", met", False: ", **missed**"}[metric.met]
    target = "" if metric.target is None else f"≤ {metric.target:g}{mark}"
    return f"| {metric.name} | {value} | {interval} | {metric.n} | {target} |"
