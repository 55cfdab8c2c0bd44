"""Several sources as one: what the first does not see is taken from the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from rheostat.errors import Fault, InputError
from rheostat.model import Gap, Observation, QueryReading
from rheostat.ports import Source

_SECTIONS = ("offsets", "batch", "running")


class MergedSource:
    """Asks all of its sources each time.

    Args:
        sources: in the order of trust; at least one.
        requested: tells the number of executors asked for last, for sources that do not know it.

    Raises:
        InputError: there is none.
    """

    def __init__(self, sources: Sequence[Source], *, requested: Callable[[], int | None] = lambda: None) -> None:
        if not sources:
            raise InputError([Fault("sources", "none", "at least one source", "there is nothing to look through")])
        self._sources = tuple(sources)
        self._requested = requested

    def observe(self, at: float) -> Observation:
        """What they see together; what none of them sees stays a gap, in the words of the first."""
        first, *others = (source.observe(at) for source in self._sources)
        for other in others:
            first = merged_observation(first, other)
        if first.cluster is None or first.cluster.requested is not None:
            return first
        return replace(first, cluster=replace(first.cluster, requested=self._requested()))

    def close(self) -> None:
        """Close them all."""
        for source in self._sources:
            source.close()


def merged_observation(first: Observation, second: Observation) -> Observation:
    """The first, with what it lacks taken from the second. Queries are the same if their ``query_id`` is."""
    others = {query.query_id: query for query in second.queries}
    mine = {query.query_id for query in first.queries}
    queries = tuple(_merged_query(query, others.get(query.query_id)) for query in first.queries)
    queries += tuple(query for query_id, query in others.items() if query_id not in mine)
    cluster = first.cluster or second.cluster
    seen = Observation(first.at, queries, cluster, nodes=first.nodes or second.nodes)
    gaps = tuple(gap for gap in first.gaps if _still_open(gap, seen))
    return replace(seen, gaps=gaps + tuple(gap for gap in second.gaps if gap not in gaps and _still_open(gap, seen)))


def _merged_query(first: QueryReading, second: QueryReading | None) -> QueryReading:
    if second is None:
        return first
    lacking = {field.name for field in fields(first) if getattr(first, field.name) is None}
    taken = {name: getattr(second, name) for name in ("trigger_s", "name", *_SECTIONS) if name in lacking}
    return replace(first, sources=first.sources or second.sources, **taken)


def _still_open(gap: Gap, seen: Observation) -> bool:
    if gap.section == "cluster":
        return seen.cluster is None
    if gap.section == "nodes":
        return True
    if gap.section == "queries":
        return not seen.queries
    return any(query.query_id == gap.query_id and getattr(query, gap.section, None) is None for query in seen.queries)
