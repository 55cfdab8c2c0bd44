"""The simulated job as the loop sees it: an Observation, as the real source makes it."""

from __future__ import annotations

from dataclasses import replace

from rheostat.model import (
    Batch,
    Cluster,
    Gap,
    Nodes,
    Observation,
    Offsets,
    QueryReading,
    Roster,
    RunningBatch,
    SourceInfo,
)
from rheostat.sim.fleet import Fleet, SimExecutor
from rheostat.sim.jobfile import JobFile
from rheostat.sim.tally import Done

__all__ = ["Viewer", "without"]

_NO_BATCH = "no batch of this run has ended yet"
_STARTING = "the query is being started again"


class Viewer:
    """Makes the sections of an observation."""

    def __init__(self, job: JobFile) -> None:
        self._job = job
        self._name = job.name
        self._sources = (SourceInfo("kafka", job.name, job.partitions, job.batch_cap),)
        self._trigger_s = job.trigger_s if job.record is None else job.record.commit_every_s
        self._named = (job.name,) * job.partitions, tuple(range(job.partitions))
        self._there: list[SimExecutor] = []
        self._none: tuple[int, ...] = ()
        self._roster = Roster()

    def offsets(self, at: float, records: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]) -> Offsets:
        """Positions of each partition: latest, planned, committed."""
        topics, numbers = self._named
        latest, planned, committed = records
        return Offsets(at, topics, numbers, latest, planned, committed)

    def query(
        self, at: float, run: int, offsets: Offsets, finished: Batch | None, running: tuple[int, float] | None
    ) -> QueryReading:
        """One query. ``running``: id and start of the running batch."""
        batch_id, since = running or (None, None)
        now = RunningBatch(at, running is not None, batch_id, since)
        name = self._name
        return QueryReading(name, f"run-{run}", name, self._trigger_s, self._sources, offsets, finished, now)

    def cluster(self, at: float, fleet: Fleet, done: Done) -> Cluster:
        """The registered executors, and what they have done and are doing."""
        roster = self._roster if self._there == fleet.running else self._present(fleet.running)
        finished, busy_s, active = done
        return Cluster(at, roster, active, self._none, finished, busy_s, fleet.requested)

    def _present(self, there: list[SimExecutor]) -> Roster:
        """Who is there: the same object in every look, until there are others."""
        self._there = there[:]
        self._none = (0,) * len(there)
        self._roster = Roster(
            ids=tuple([each.name for each in there]),
            hosts=tuple([each.host for each in there]),
            cores=(self._job.executor.cores,) * len(there),
            added_at=tuple([each.ready_at for each in there]),
            nodes=(None,) * len(there),
        )
        return self._roster

    def observation(self, at: float, query: QueryReading | None, cluster: Cluster, nodes: Nodes | None) -> Observation:
        """All of it; ``query`` None: it is being started again."""
        if query is None:
            return Observation(at, (), cluster, (Gap("queries", _STARTING),), nodes)
        gaps = () if query.batch is not None else (Gap("batch", _NO_BATCH, query.query_id),)
        return Observation(at, (query,), cluster, gaps, nodes)


def without(seen: Observation, sections: frozenset[str], why: str) -> Observation:
    """An observation in which some sections could not be seen."""
    gaps = [gap for gap in seen.gaps if gap.section not in sections]
    cluster = None if "cluster" in sections else seen.cluster
    gaps += [Gap("cluster", why)] if cluster is None else []
    nodes = None if "nodes" in sections or cluster is None else seen.nodes
    gaps += [Gap("nodes", why)] if nodes is None and seen.nodes is not None else []
    if "queries" in sections:
        return replace(seen, queries=(), cluster=cluster, gaps=(*gaps, Gap("queries", why)), nodes=nodes)
    lost = sorted(sections & {"offsets", "batch", "running"})
    changes = dict.fromkeys(lost)
    queries = tuple(replace(query, **changes) for query in seen.queries)  # type: ignore[arg-type]
    gaps += [Gap(section, why, query.query_id) for query in queries for section in lost]
    return replace(seen, queries=queries, cluster=cluster, gaps=tuple(gaps), nodes=nodes)
