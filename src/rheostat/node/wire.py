"""What goes over the wire: requests and answers, documented; the OpenAPI page is made from them."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from rheostat import __version__
from rheostat.config.fields import FrozenModel, documented
from rheostat.node.master import Standing
from rheostat.node.values import Removal, Situation, State, Worker
from rheostat.node.ways import Ways

__all__ = ["CreateOrder", "Created", "NodeDescription", "Problem", "RemoveOrder", "Removed", "describe"]

Host = Annotated[str, Field(min_length=1, max_length=255)]


class CreateOrder(FrozenModel):
    """How many Workers more."""

    target: int = documented(
        "Workers to create; beyond the free ids it is clipped, with none free it is ignored.", "", ge=0, le=100_000
    )


class RemoveOrder(FrozenModel):
    """Which Workers host executors, and how many idle ones to keep."""

    used: list[Host] = documented(
        "Hosts of the job's executors, also those on other nodes. Where Workers share an address: `host:port` of the "
        "Worker's web page, or its name.",
        "",
        max_length=10_000,
    )
    free: int = documented("Idle Workers to keep; clipped to the idle ones.", "", ge=0, le=100_000)


class Created(BaseModel):
    """What will be created; it has only begun."""

    target: int = Field(description="What was asked for.")
    creating: list[int] = Field(description="Ids of the Workers that start now.")


class Removed(BaseModel):
    """What will be removed; it has only begun."""

    removing: list[int] = Field(description="Ids of the Workers that leave now.")
    used: list[int] = Field(description="Ids that stay because they host an executor, by the request or the master.")
    free: int = Field(description="Idle Workers that stay.")


class WorkerDescription(BaseModel):
    """One Worker."""

    id: int
    name: str = Field(description="What the master calls it.")
    host: str = Field(description="Address that it, and its executors, are bound to.")
    web: str | None = Field(description="`host:port` of its web page; null: not registered.")
    state: State
    standing: str | None = Field(
        description="The master's word on it: `ALIVE`, `DECOMMISSIONED`, …; null: not registered, or no answer."
    )
    used: bool | None = Field(description="Whether it hosts an executor; null: the master does not answer.")
    pid: int | None
    in_state_s: float = Field(description="Seconds since it came into this state.")


class Trouble(BaseModel):
    """The last thing that went wrong."""

    at: float = Field(description="Seconds of the epoch.")
    text: str


class PeerDescription(BaseModel):
    """The way to one peer."""

    name: str
    url: str
    round_trip_ms: float | None = Field(
        description="Median of the last three rounds, each the median of five pings; null: none was answered."
    )
    age_s: float | None = Field(description="Seconds since it was measured.")
    trouble: str | None = Field(description="What went wrong at the last try.")


class NodeDescription(BaseModel):
    """The node and its Workers."""

    schema_: Literal["rheostat.node/1"] = Field("rheostat.node/1", alias="schema", serialization_alias="schema")
    version: str
    name: str
    n_max: int = Field(description="Workers that there can be, standby included.")
    cores: int = Field(description="Of each Worker.")
    memory_mb: int = Field(description="Of each Worker.")
    master: str | None = Field(description="The master's URL; null: it does not answer.")
    workers: list[WorkerDescription]
    free_ids: list[int] = Field(description="Ids that a request for more would get.")
    used: int | None = Field(description="Workers that host an executor.")
    idle: int | None = Field(description="Workers that do not, and stay; those that start are among them.")
    may_go: bool | None = Field(description="Whether the node as a whole may go: it hosts no used Worker.")
    doing: list[str] = Field(description="What goes on, in words.")
    peers: list[PeerDescription] = Field(description="Round trips to other nodes, by name.")
    delays_ms: dict[str, float] = Field(
        description="Callers whose pings the server itself answers late, for trials: round trips to here are not real."
    )
    last_error: Trouble | None


class ProblemFault(BaseModel):
    """One thing that is wrong."""

    field: str
    given: str | None
    allowed: str | None
    message: str


class Problem(BaseModel):
    """Why a request was refused: everything at once."""

    schema_: Literal["rheostat.error/1"] = Field("rheostat.error/1", alias="schema", serialization_alias="schema")
    faults: list[ProblemFault]


def removed(removal: Removal) -> Removed:
    """What a removal answers."""
    return Removed(removing=list(removal.removing), used=list(removal.used), free=removal.free)


def describe(seen: Situation, ways: Ways, *, name: str, n_max: int, cores: int, memory_mb: int) -> NodeDescription:
    """The node as it is told to clients."""
    workers = [_worker(worker, seen) for worker in seen.workers]
    known = seen.view is not None
    staying = [one for one in workers if one.state in (State.QUEUED, State.STARTING, State.READY)]
    used = sum(bool(one.used) for one in workers)
    return NodeDescription(
        schema="rheostat.node/1",
        version=__version__,
        name=name,
        n_max=n_max,
        cores=cores,
        memory_mb=memory_mb,
        master=seen.view.url if seen.view else None,
        workers=workers,
        free_ids=list(seen.free_ids),
        used=used if known else None,
        idle=sum(not one.used for one in staying) if known else None,
        may_go=used == 0 if known else None,
        doing=[f"{one.name} is {one.state}" for one in workers if one.state is not State.READY],
        peers=_peers(ways),
        delays_ms=ways.delays_ms,
        last_error=None if seen.last_error is None else Trouble(at=seen.last_error[0], text=seen.last_error[1]),
    )


def _peers(ways: Ways) -> list[PeerDescription]:
    return [
        PeerDescription(name=one.peer, url=one.url, round_trip_ms=one.ms, age_s=ways.age_s(one), trouble=one.trouble)
        for one in ways.measured()
    ]


def _worker(worker: Worker, seen: Situation) -> WorkerDescription:
    standing: Standing | None = seen.standing(worker)
    unknown = seen.view is None
    return WorkerDescription(
        id=worker.record.id,
        name=worker.record.name,
        host=worker.record.host,
        web=standing.web if standing else None,
        state=worker.state,
        standing=standing.state if standing else None,
        used=None if unknown else standing is not None and standing.used,
        pid=worker.record.pid,
        in_state_s=max(0.0, round(time.time() - worker.since, 3)),
    )
