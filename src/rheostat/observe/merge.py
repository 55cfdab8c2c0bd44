"""Several sources as one: what the first cannot observe is taken from the next."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace

from rheostat.errors import Fault, InputError
from rheostat.model import Gap, Observation, QueryReading
from rheostat.ports import Source

_SECTIONS = ("offsets", "batch", "running")


class MergedSource:
    """Asks all of its sources in every cycle, the most trusted first. Raises InputError if one is no source.

    ``requested`` returns the number of executors requested last, which not every source knows.
    """

    def __init__(self, sources: Sequence[Source], *, requested: Callable[[], int | None] = lambda: None) -> None:
        if faults := _find_source_faults(sources):
            raise InputError(faults)
        self._sources = tuple(sources)
        self._requested = requested

    def observe(self, at: float) -> Observation:
        """Merge their observations. What none of them observed stays a gap, with the message of the first."""
        first, *others = (source.observe(at) for source in self._sources)
        for other in others:
            first = merge_observations(first, other)
        if first.cluster is None or first.cluster.requested is not None:
            return first
        return replace(first, cluster=replace(first.cluster, requested=self._requested()))

    def close(self) -> None:
        for source in self._sources:
            source.close()


def _find_source_faults(sources: object) -> list[Fault]:
    if not isinstance(sources, Collection):
        message = "it is no list: put it into one, also where it is the only source"
        return [Fault("sources", repr(sources), "a list of sources", message)]
    if not sources:
        return [Fault("sources", "none", "at least one source", "there is nothing to observe with")]
    allowed, faults = "an object with observe and close", []
    for source in sources:
        lacks = [name for name in ("observe", "close") if not callable(getattr(source, name, None))]
        if inspect.isclass(source):
            faults.append(Fault("sources", repr(source), allowed, f"it is a class: build it, {source.__name__}(…)"))
        elif lacks:
            faults.append(Fault("sources", repr(source), allowed, f"it has no {', no '.join(lacks)}"))
    return faults


def merge_observations(first: Observation, second: Observation) -> Observation:
    """The first observation, completed from the second. Queries are matched by ``query_id``."""
    others = {query.query_id: query for query in second.queries}
    mine = {query.query_id for query in first.queries}
    queries = tuple(_merge_query(query, others.get(query.query_id)) for query in first.queries)
    queries += tuple(query for query_id, query in others.items() if query_id not in mine)
    cluster = first.cluster or second.cluster
    nodes, cpu = first.nodes or second.nodes, first.cpu or second.cpu
    merged = Observation(at=first.at, queries=queries, cluster=cluster, nodes=nodes, cpu=cpu)
    gaps = [*first.gaps, *(gap for gap in second.gaps if gap not in first.gaps)]
    return replace(merged, gaps=tuple(gap for gap in gaps if _still_open(gap, merged)))


def _merge_query(first: QueryReading, second: QueryReading | None) -> QueryReading:
    if second is None:
        return first
    lacking = {field.name for field in fields(first) if getattr(first, field.name) is None}
    taken = {name: getattr(second, name) for name in ("trigger_s", "name", *_SECTIONS) if name in lacking}
    ended = second.ended if first.batch is None else first.ended
    return replace(first, sources=first.sources or second.sources, ended=ended, **taken)


def _still_open(gap: Gap, observation: Observation) -> bool:
    if gap.section == "cluster":
        return observation.cluster is None
    if gap.section in ("nodes", "cpu"):
        return True
    if gap.section == "queries":
        return not observation.queries
    queries = [query for query in observation.queries if query.query_id == gap.query_id]
    return any(getattr(query, gap.section, None) is None for query in queries)
