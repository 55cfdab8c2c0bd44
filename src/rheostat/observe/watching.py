"""Which queries run, which have failed: taken up and let go of as they come and go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rheostat.errors import UnavailableError
from rheostat.jvm.reading import DriverJvm, QueryHandle, QueryPlan
from rheostat.jvm.texts import Run
from rheostat.model import Gap, QueryReading
from rheostat.observe.sources import source_info

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["NOT_SEEN", "Watched", "Watching"]

NOT_SEEN = (UnavailableError, ValueError, KeyError)
"""What the parts of a look raise for that which could not be seen, or not understood."""

_FAILURES_KEPT = 20


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that was seen active, with what does not change while it runs."""

    handle: QueryHandle
    plan: QueryPlan


class Watching:
    """The runs of an application's queries.

    Args:
        queries: names or ids of those wanted, or the queries themselves; None: all.
    """

    def __init__(self, jvm: DriverJvm, queries: Iterable[str | StreamingQuery] | None) -> None:
        self._jvm = jvm
        self._wanted = None if queries is None else frozenset(map(_name_or_id, queries))
        self._known: dict[Run, Watched] = {}
        self._failed: dict[str, QueryReading] = {}

    def look(self, gaps: list[Gap]) -> tuple[Watched, ...]:
        """The wanted runs that are active now. Adds a gap for each run of which nothing can be told.

        Raises:
            UnavailableError: Spark has been stopped, or its JVM does not answer.
            ValueError: the answer is not understood.
        """
        if self._jvm.stopped():
            message = "Spark has been stopped"
            raise UnavailableError(message)
        active = self._jvm.runs()
        for run in set(self._known) - set(active):
            self._let_go(self._known.pop(run), gaps)
        for run in active:
            self._failed.pop(run.query_id, None)
        found = (self._take_up(run, gaps) for run in active)
        return tuple(watched for watched in found if watched is not None and self._is_wanted(watched.plan))

    def failed(self) -> tuple[QueryReading, ...]:
        """The wanted queries that have failed and were not started again since."""
        return tuple(self._failed.values())

    def _take_up(self, run: Run, gaps: list[Gap]) -> Watched | None:
        if run not in self._known:
            try:
                handle = self._jvm.query(run)
                if handle is None:
                    return None
                self._known[run] = Watched(handle, handle.plan())
            except NOT_SEEN as error:
                gaps.append(Gap("queries", str(error), run.query_id))
                return None
        return self._known[run]

    def _let_go(self, watched: Watched, gaps: list[Gap]) -> None:
        if not self._is_wanted(watched.plan):
            return
        try:
            because = watched.handle.failure()
        except NOT_SEEN as error:
            gaps.append(Gap("queries", str(error), watched.plan.run.query_id))
            return
        if because is not None:
            self._failed[watched.plan.run.query_id] = _failed_reading(watched.plan, because)
            while len(self._failed) > _FAILURES_KEPT:
                self._failed.pop(next(iter(self._failed)))

    def _is_wanted(self, plan: QueryPlan) -> bool:
        return self._wanted is None or not self._wanted.isdisjoint({plan.name, plan.run.query_id})


def _name_or_id(query: str | StreamingQuery) -> str:
    return query if isinstance(query, str) else str(query.id)


def _failed_reading(plan: QueryPlan, because: str) -> QueryReading:
    return QueryReading(
        query_id=plan.run.query_id,
        run_id=plan.run.run_id,
        name=plan.name,
        trigger_s=plan.trigger.interval_s,
        sources=tuple(source_info(leaf.provider, leaf.options) for leaf in plan.leaves),
        failed_because=because,
    )
