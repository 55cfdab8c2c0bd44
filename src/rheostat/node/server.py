"""The HTTP interface of a node (S1, 4.3.3), and serving it."""

from __future__ import annotations

import asyncio
import hmac
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from ipaddress import ip_address
from types import FrameType, TracebackType
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rheostat import __version__
from rheostat.config.faults import faults_of
from rheostat.config.models import FrozenModel
from rheostat.errors import Fault, InputError, UnavailableError
from rheostat.host.spark_daemons import WorkerSize
from rheostat.node.cpu import CpuReading
from rheostat.node.peers import CALLER, PeerRoundTrips
from rheostat.node.workers import STAYING, DisagreementError, MasterView, Situation, State, Worker, Workers

# Requests and answers; the OpenAPI page is made from them.


Host = Annotated[str, Field(min_length=1, max_length=255)]


class CreateOrder(FrozenModel):
    """How many more Workers to create."""

    target: int = Field(
        description="Workers to create; beyond the free ids it is clipped, with none free it is ignored.",
        ge=0,
        le=100_000,
    )


class RemoveOrder(FrozenModel):
    """Which Workers host executors, and how many idle ones to keep."""

    used: list[Host] = Field(
        description="Hosts of the job's executors, also those on other nodes. Where Workers share an address: "
        "`host:port` of the Worker's web page, or its name.",
        max_length=10_000,
    )
    free: int = Field(description="Idle Workers to keep; clipped to the idle ones.", ge=0, le=100_000)


class Created(BaseModel):
    """Workers that are being created."""

    target: int = Field(description="The request.")
    creating: list[int] = Field(description="Ids of the Workers that start now.")


class Removed(BaseModel):
    """Workers that are being removed."""

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
        description="What the master says of it: `ALIVE`, `DECOMMISSIONED`, …; null: not registered, or no answer."
    )
    used: bool | None = Field(description="Whether it hosts an executor; null: the master does not answer.")
    pid: int | None
    in_state_s: float = Field(description="Seconds since it came into this state.")


class Trouble(BaseModel):
    """The last problem."""

    at: float = Field(description="Seconds of the epoch.")
    text: str


class PeerDescription(BaseModel):
    """Round trips to one peer."""

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
    doing: list[str] = Field(description="Workers that change their state, in words.")
    peers: list[PeerDescription] = Field(description="Round trips to other nodes, by name.")
    delays_ms: dict[str, float] = Field(
        description="Callers whose pings the server itself answers late, for trials: round trips to here are not real."
    )
    last_error: Trouble | None
    cpu: CpuReading


class ProblemFault(BaseModel):
    """One invalid value."""

    field: str
    given: str | None
    allowed: str | None
    message: str


class Problem(BaseModel):
    """Why a request was refused, all reasons at once."""

    schema_: Literal["rheostat.error/1"] = Field("rheostat.error/1", alias="schema", serialization_alias="schema")
    faults: list[ProblemFault]


def describe(
    situation: Situation, peers: PeerRoundTrips, *, name: str, n_max: int, size: WorkerSize
) -> NodeDescription:
    """What clients read about the node."""
    view = situation.view
    workers = [_describe_worker(worker, view, situation.at) for worker in situation.workers]
    staying = [one for one in workers if one.state in STAYING]
    used = sum(bool(one.used) for one in workers)
    return NodeDescription(
        schema="rheostat.node/1",
        version=__version__,
        name=name,
        n_max=n_max,
        cores=size.cores,
        memory_mb=size.memory_mb,
        master=view.url if view else None,
        workers=workers,
        free_ids=list(situation.free_ids),
        used=used if view else None,
        idle=sum(not one.used for one in staying) if view else None,
        may_go=used == 0 if view else None,
        doing=[f"{one.name} is {one.state}" for one in workers if one.state is not State.READY],
        peers=[
            PeerDescription(
                name=one.peer, url=one.url, round_trip_ms=one.ms, age_s=peers.age_s(one), trouble=one.trouble
            )
            for one in peers.measurements
        ],
        delays_ms=peers.delays_ms,
        last_error=Trouble(at=situation.last_error[0], text=situation.last_error[1]) if situation.last_error else None,
        cpu=situation.cpu,
    )


def _describe_worker(worker: Worker, view: MasterView | None, at: float) -> WorkerDescription:
    record = worker.record
    standing = view.workers.get(record.name) if view else None
    return WorkerDescription(
        id=record.id,
        name=record.name,
        host=record.host,
        web=standing.web if standing else None,
        state=worker.state,
        standing=standing.state if standing else None,
        used=None if view is None else standing is not None and standing.used,
        pid=record.pid,
        in_state_s=round(at - worker.since, 3),
    )


MOST_BYTES = 1_000_000
"""Largest body of a request."""

OPEN_PATHS = ("/ping", "/health")
"""Answered without a token; they reveal nothing about the node."""

_BODY_S = 10.0
_CONNECTIONS = 64
_ORDERS: dict[str, type[BaseModel]] = {"POST": CreateOrder, "DELETE": RemoveOrder}
_REFUSED: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "The token is missing or wrong."},
    408: {"model": Problem, "description": f"The body did not come within {_BODY_S:g} s."},
    413: {"model": Problem, "description": f"The body is larger than {MOST_BYTES} bytes."},
    422: {"model": Problem, "description": "Everything that is wrong with the request."},
}
_UNSAFE: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "The master says that a Worker is used which the request does not name."},
    503: {"model": Problem, "description": "The master does not answer: nobody knows which Workers are used."},
}


def make_app(
    workers: Workers, *, name: str, n_max: int, size: WorkerSize, token: str | None, peers: PeerRoundTrips | None = None
) -> FastAPI:
    """The interface of a node. Clients send ``token`` (``Authorization: Bearer …``); None: for loopback only."""
    trips = peers or PeerRoundTrips(name)
    app = FastAPI(
        title="Rheostat node",
        version=__version__,
        description="Starts and stops Spark Workers on one machine. Orders are answered on receipt and carried out "
        "later, in the order of their arrival; `GET /taskmanager` shows the progress.",
        docs_url=None,
        redoc_url=None,
    )
    one_at_a_time = asyncio.Lock()

    @app.post("/taskmanager", status_code=202, responses=_REFUSED, summary="Create Workers")
    async def create(order: CreateOrder) -> Created:
        async with one_at_a_time:
            ids = await run_in_threadpool(workers.create, order.target)
        return Created(target=order.target, creating=list(ids))

    @app.delete("/taskmanager", status_code=202, responses=_REFUSED | _UNSAFE, summary="Remove idle Workers")
    async def remove(order: RemoveOrder) -> Removed:
        async with one_at_a_time:
            removal = await run_in_threadpool(workers.remove, order.used, order.free)
        return Removed(removing=list(removal.removing), used=list(removal.used), free=removal.free)

    @app.get("/taskmanager", responses={401: _REFUSED[401]}, summary="State of the node and its Workers")
    async def state() -> NodeDescription:
        situation = await run_in_threadpool(workers.situation)
        return describe(situation, trips, name=name, n_max=n_max, size=size)

    @app.get("/ping", summary="Answers at once, or after the delay set for the caller; for measuring round trips")
    async def ping(caller: Annotated[str | None, Header(alias=CALLER)] = None) -> dict[str, bool]:
        await asyncio.sleep(trips.delay_s(caller))
        return {"pong": True}

    @app.get("/health", summary="Whether the server works")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    handlers: dict[type[Exception], Callable[[Request, Any], Awaitable[JSONResponse]]] = {
        RequestValidationError: _refuse_invalid,
        DisagreementError: _refuse_disagreement,
        UnavailableError: _refuse_unavailable,
        HTTPException: _refuse_other,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    app.add_middleware(_Gate, token=token)
    if token is not None:
        plain = app.openapi
        app.openapi = lambda: _document_token(plain())  # type: ignore[method-assign]
    return app


def _document_token(page: dict[str, Any]) -> dict[str, Any]:
    page.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in page["paths"].items():
        for method in methods.values():
            method["security"] = [] if path in OPEN_PATHS else [{"token": []}]
    return page


def serve(app: FastAPI, listener: socket.socket, signals: EndSignals) -> None:
    """Answer requests until a signal comes; requests in progress are finished first."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=16_384,
    )
    server = uvicorn.Server(config)

    def end() -> None:
        server.should_exit = True

    signals.on(end)
    server.run(sockets=[listener])


class _Gate:
    """Lets in clients with the token; without a token, those that call this machine by a name of its own.

    The latter keeps out web pages in a local browser, which may call it by theirs. Only then the body is read: at most
    ``MOST_BYTES``, within ``_BODY_S`` seconds.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._wanted = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = None if scope["path"] in OPEN_PATHS else self._refusal(Headers(scope=scope))
        if refusal is None:
            body = await _read_body(receive)
            refusal = body if isinstance(body, JSONResponse) else None
            receive = receive if isinstance(body, JSONResponse) else _replay(body, receive)
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        if self._wanted is None:
            given = headers.get("host", "")
            message = "without a token only this machine is answered to"
            fault = Fault("Host", given, "localhost, or a loopback address", message)
            return None if _is_this_machine(given) else _problem(400, [fault])
        if hmac.compare_digest(headers.get("authorization", "").encode(), self._wanted):
            return None
        message = "this node asks for its token: Authorization: Bearer …"
        answer = _problem(401, [Fault("token", "none, or another", "the node's token", message)])
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer


async def _read_body(receive: Receive) -> bytes | JSONResponse:
    chunks, size = [], 0
    try:
        async with asyncio.timeout(_BODY_S):
            while size <= MOST_BYTES:
                message = await receive()
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        return _problem(408, [Fault("body", "half a body", f"a whole one in {_BODY_S:g} s", "it did not come in time")])
    if size > MOST_BYTES:
        return _problem(413, [Fault("body", "more bytes", f"at most {MOST_BYTES} bytes", "no order is so large")])
    return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Receive a body that was read already, then what follows it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return waiting.pop() if waiting else await receive()

    return give


def _is_this_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


async def _refuse_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    order, body = _ORDERS.get(request.method), error.body
    if order is None or not isinstance(body, dict):
        allowed = "a JSON object, with Content-Type: application/json"
        return _problem(422, [Fault("body", "something else", allowed, "this is no order")])
    try:
        order.model_validate(body)
    except ValidationError as found:
        return _problem(422, list(faults_of(found, order)))
    return _problem(422, [Fault("body", "something else", "one order", "this is no order")])


async def _refuse_disagreement(_request: Request, error: InputError) -> JSONResponse:
    return _problem(409, list(error.faults))


async def _refuse_unavailable(_request: Request, error: UnavailableError) -> JSONResponse:
    message = f"nothing was removed, as nobody knows which Workers are used: {error}"
    return _problem(503, [Fault("master", "no answer", "a master that answers", message)])


async def _refuse_other(request: Request, error: HTTPException) -> JSONResponse:
    fault = Fault("request", f"{request.method} {request.url.path}", "see /openapi.json", str(error.detail))
    answer = _problem(error.status_code, [fault])
    answer.headers.update(error.headers or {})
    return answer


def _problem(status: int, faults: list[Fault]) -> JSONResponse:
    fields = [asdict(one) for one in faults]
    return JSONResponse({"schema": "rheostat.error/1", "faults": fields}, status_code=status)


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndSignals:
    """SIGTERM, SIGINT and SIGHUP handling, including during start-up. A context manager for the main thread.

    Inside it these signals call what :meth:`on` has set instead of ending the process. A signal before that is
    remembered; later ones change nothing.

    Attributes:
        asked: whether a signal has come.
    """

    def __init__(self) -> None:
        self.asked = False
        self._end: Callable[[], None] = lambda: None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on(self, end: Callable[[], None]) -> None:
        """Call ``end`` when a signal comes; at once if one has come already."""
        self._end = end
        if self.asked:
            end()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._end()
