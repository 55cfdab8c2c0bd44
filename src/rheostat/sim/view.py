"""The simulated job as the loop sees it: an Observation, as the real source makes it."""

from __future__ import annotations

from collections.abc import Mapping
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
from rheostat.sim.arrivals import Positions
from rheostat.sim.fleet import Fleet, SimExecutor
from rheostat.sim.jobfile import JobFile
from rheostat.sim.tasks import Progress

__all__ = ["Viewer", "without"]

_NO_BATCH = "no batch of this run has ended yet"
_STARTING = "the query is being started again"


class Viewer:
    """Makes the sections of an observation."""

    def __init__(self, job: JobFile) -> None:
        self._job = job
        self._sources = (SourceInfo("kafka", job.name, job.partitions, job.batch_cap),)
        self._trigger_s = job.trigger_s if job.record is None else job.record.commit_every_s

    def offsets(self, at: float, records: tuple[Positions, Positions, Positions]) -> Offsets:
        """Positions of each partition: latest, planned, committed."""
        latest, planned, committed = records
        count = self._job.partitions
        return Offsets(
            at=at,
            topics=(self._job.name,) * count,
            numbers=tuple(range(count)),
            latest=latest,
            planned=planned,
            committed=committed,
        )

    def query(
        self, at: float, run: int, offsets: Offsets, finished: Batch | None, running: tuple[int, float] | None
    ) -> QueryReading:
        """One query. ``running``: id and start of the running batch."""
        batch_id, since = running or (None, None)
        return QueryReading(
            query_id=self._job.name,
            run_id=f"run-{run}",
            name=self._job.name,
            trigger_s=self._trigger_s,
            sources=self._sources,
            offsets=offsets,
            batch=finished,
            running=RunningBatch(at, running is not None, batch_id, since),
        )

    def cluster(self, at: float, fleet: Fleet, progress: Mapping[SimExecutor, Progress]) -> Cluster:
        """The registered executors: what they have done in finished batches and in the running one, and are doing."""
        there, count = fleet.running, len(fleet.running)
        now = [progress.get(each, Progress()) for each in there]
        return Cluster(
            at=at,
            roster=Roster(
                ids=tuple(each.name for each in there),
                hosts=tuple(each.host for each in there),
                cores=(self._job.executor.cores,) * count,
                added_at=tuple(each.ready_at for each in there),
                nodes=(None,) * count,
            ),
            active_tasks=tuple(each.running for each in now),
            failed_tasks=(0,) * count,
            finished_tasks=tuple(one.finished + more.ended for one, more in zip(there, now, strict=True)),
            busy_s=tuple(one.busy_s + more.busy_s for one, more in zip(there, now, strict=True)),
            requested=fleet.requested,
        )

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
