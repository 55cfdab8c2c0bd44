"""What an experiment says: statements of the document, with our figures beside its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rheostat.judge.experiments.trial import Trial

__all__ = ["SCHEMA", "Experiment", "Part", "Result"]

SCHEMA = "rheostat.experiment/1"


@dataclass(frozen=True, slots=True)
class Result:
    """One statement.

    Attributes:
        id: section of the document, and a word.
        statement: what is to be seen.
        ours, document: the figures, in words; None: there is none.
        holds: whether it is to be seen in ours.
        why: what explains the difference, or how it was made.
    """

    id: str
    statement: str
    ours: str | None
    document: str | None
    holds: bool
    why: str


@dataclass(frozen=True)
class Part:
    """One of the document's experiments: what it showed, and the runs that it was seen in, by name."""

    title: str
    results: Sequence[Result]
    trials: dict[str, Trial] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """All parts that were run."""

    name: str
    parts: Sequence[Part]

    @property
    def results(self) -> list[Result]:
        """Every statement, in order."""
        return [result for part in self.parts for result in part.results]

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"schema": SCHEMA, "name": self.name, "results": [asdict(result) for result in self.results]}
