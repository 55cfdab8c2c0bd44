"""What an experiment says: statements of the document, with our figures beside its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rheostat.judge.experiments.trial import Trial

__all__ = ["SCHEMA", "Experiment", "Part", "Result", "Seen", "over_seeds"]

SCHEMA = "rheostat.experiment/1"
_LISTED = ("id", "statement", "ours", "document", "holds", "why")
_MOST_SEEDS = 0.8


class Seen(NamedTuple):
    """What was seen with one seed.

    Attributes:
        ours: the figures, in words.
        holds: whether the statement is to be seen in them.
    """

    seed: int
    ours: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Result:
    """One statement.

    Attributes:
        id: section of the document, and a word.
        statement: what is to be seen.
        ours, document: the figures, in words; None: there is none.
        holds: whether it is to be seen in ours; of several seeds, in four of five or more.
        why: what explains the difference, or how it was made.
        by_seed: what was seen with each seed, where there are several.
    """

    id: str
    statement: str
    ours: str | None
    document: str | None
    holds: bool
    why: str
    by_seed: tuple[Seen, ...] = ()


@dataclass(frozen=True)
class Part:
    """One of the document's experiments.

    Attributes:
        title: its section and its subject.
        results: what it showed.
        trials: runs of one seed that it was seen in, by name.
        shares: whether w ÷ w_max is plotted against the executors (figure 36 of S1).
    """

    title: str
    results: Sequence[Result]
    trials: dict[str, Trial] = field(default_factory=dict)
    shares: bool = False


@dataclass(frozen=True)
class Experiment:
    """All parts that were run.

    Attributes:
        seeds: of all that is random; the plots show the first.
    """

    name: str
    parts: Sequence[Part]
    seeds: Sequence[int] = (1,)

    @property
    def results(self) -> list[Result]:
        """Every statement, in order."""
        return [result for part in self.parts for result in part.results]

    @property
    def notes(self) -> list[str]:
        """What policies never did in the runs of the first seed, and what they would have needed."""
        trials = [(part.title, name, trial) for part in self.parts for name, trial in part.trials.items()]
        return [f"{title}, {name}: {trial.unready}" for title, name, trial in trials if trial.unready is not None]

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        listed = [{name: getattr(result, name) for name in _LISTED} for result in self.results]
        by_seed = [{"id": result.id, **seen._asdict()} for result in self.results for seen in result.by_seed]
        return {
            "schema": SCHEMA,
            "name": self.name,
            "results": listed,
            "seeds": list(self.seeds),
            "by_seed": by_seed,
            "notes": self.notes,
        }


def over_seeds(result: Result, seen: Sequence[Seen]) -> Result:
    """The same statement over several seeds: it holds if it does with at least four of five of them.

    Args:
        result: with the means as ``ours``.
        seen: what was seen with each seed, at least one.

    >>> once = Result("5.3 x", "it is less", "1.5", None, False, "")
    >>> found = over_seeds(once, [Seen(1, "1", True), Seen(2, "2", False)])
    >>> found.ours, found.holds
    ('1.5; in 1 of 2 seeds', False)
    """
    held = sum(each.holds for each in seen)
    if len(seen) == 1:
        return replace(result, ours=seen[0].ours, holds=seen[0].holds)
    ours = f"{result.ours}; in {held} of {len(seen)} seeds"
    return replace(result, ours=ours, holds=held >= _MOST_SEEDS * len(seen), by_seed=tuple(seen))
