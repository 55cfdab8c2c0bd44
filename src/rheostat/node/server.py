"""The HTTP interface of a node (S1, 4.3.3), and serving it."""

from __future__ import annotations

import asyncio
import hmac
import signal
import socket
import time
from collections.abc import Awaitable, Callable
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
from rheostat.node.peers import CALLER, PeerRoundTrips
from rheostat.node.workers import DisagreementError, Removal, Situation, Standing, State, Worker, Workers

# What goes over the wire: requests and answers, documented; the OpenAPI page is made from them.


Host = Annotated[str, Field(min_length=1, max_length=255)]


class CreateOrder(FrozenModel):
    """How many Workers more."""

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


def describe(
    seen: Situation, ways: PeerRoundTrips, *, name: str, n_max: int, cores: int, memory_mb: int
) -> NodeDescription:
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


def _peers(ways: PeerRoundTrips) -> list[PeerDescription]:
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


MOST_BYTES = 1_000_000
"""A request's body is no larger."""

OPEN_PATHS = ("/ping", "/health")
"""What is answered without a token; both tell nothing of the node."""

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
    workers: Workers, *, name: str, n_max: int, size: WorkerSize, token: str | None, ways: PeerRoundTrips | None = None
) -> FastAPI:
    """The interface of a node.

    Args:
        workers: what it stands before.
        name: of the node.
        n_max: Workers that there can be.
        size: of each.
        token: what clients must show (``Authorization: Bearer …``); None: nothing, for loopback only.
        ways: the round trips to its peers, and delays of pings; None: it has none.
    """
    ways = ways or PeerRoundTrips(name)
    app = FastAPI(
        title="Rheostat node",
        version=__version__,
        description="Starts and stops Spark Workers on one machine. Orders are answered on receipt and carried out "
        "later, in the order in which they came; `GET /taskmanager` tells how far they are.",
        docs_url=None,
        redoc_url=None,
    )
    door = asyncio.Lock()

    @app.post("/taskmanager", status_code=202, responses=_REFUSED, summary="Create Workers")
    async def create(order: CreateOrder) -> Created:
        async with door:
            ids = await run_in_threadpool(workers.create, order.target)
        return Created(target=order.target, creating=list(ids))

    @app.delete("/taskmanager", status_code=202, responses=_REFUSED | _UNSAFE, summary="Remove idle Workers")
    async def remove(order: RemoveOrder) -> Removed:
        async with door:
            return removed(await run_in_threadpool(workers.remove, order.used, order.free))

    @app.get("/taskmanager", responses={401: _REFUSED[401]}, summary="How the node and its Workers stand")
    async def state() -> NodeDescription:
        seen = await run_in_threadpool(workers.situation)
        return describe(seen, ways, name=name, n_max=n_max, cores=size.cores, memory_mb=size.memory_mb)

    @app.get("/ping", summary="Answers at once, or after the delay set for the caller; for measuring the way here")
    async def ping(caller: Annotated[str | None, Header(alias=CALLER)] = None) -> dict[str, bool]:
        await asyncio.sleep(ways.delay_s(caller))
        return {"pong": True}

    @app.get("/health", summary="Whether the server works")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    _tell_faults(app)
    _guard(app, token)
    return app


def serve(app: FastAPI, listener: socket.socket, signals: EndSignals) -> None:
    """Answer requests until a signal comes; requests that are being answered then are finished first."""
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
    """Lets in who shows the token, or where none is asked for, who calls this machine by a name of its own.

    The second keeps out pages in a browser here, which may call it by theirs. Only then a body is read: no more than
    ``MOST_BYTES``, and in ``_BODY_S`` seconds.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._wanted = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = None if scope["path"] in OPEN_PATHS else self._refusal(Headers(scope=scope))
        if answer is None:
            body = await _body(receive)
            answer = body if isinstance(body, JSONResponse) else None
            receive = receive if isinstance(body, JSONResponse) else _once(body, receive)
        await (answer or self._app)(scope, receive, send)

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


async def _body(receive: Receive) -> bytes | JSONResponse:
    """A request's body, or why it is not taken."""
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


def _once(body: bytes, receive: Receive) -> Receive:
    """What gives a body that was read already, and then what comes after it."""
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


def _guard(app: FastAPI, token: str | None) -> None:
    """Stand at the door; where a token is asked for, the OpenAPI page says so."""
    app.add_middleware(_Gate, token=token)
    plain = app.openapi

    def with_token() -> dict[str, Any]:
        page = plain()
        page.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, methods in page["paths"].items():
            for method in methods.values():
                method["security"] = [] if path in OPEN_PATHS else [{"token": []}]
        return page

    if token is not None:
        app.openapi = with_token  # type: ignore[method-assign]


def _tell_faults(app: FastAPI) -> None:
    """Every refusal in the shape of ``rheostat.error/1``."""
    handlers: dict[type[Exception], Callable[[Request, Any], Awaitable[JSONResponse]]] = {
        RequestValidationError: _invalid,
        DisagreementError: _disagreement,
        UnavailableError: _unavailable,
        HTTPException: _other,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    order, body = _ORDERS.get(request.method), error.body
    if order is None or not isinstance(body, dict):
        allowed = "a JSON object, with Content-Type: application/json"
        return _problem(422, [Fault("body", "something else", allowed, "this is no order")])
    try:
        order.model_validate(body)
    except ValidationError as found:
        return _problem(422, list(faults_of(found, order)))
    return _problem(422, [Fault("body", "something else", "one order", "this is no order")])


async def _disagreement(_request: Request, error: InputError) -> JSONResponse:
    return _problem(409, list(error.faults))


async def _unavailable(_request: Request, error: UnavailableError) -> JSONResponse:
    message = f"nothing was removed, as nobody knows which Workers are used: {error}"
    return _problem(503, [Fault("master", "no answer", "a master that answers", message)])


async def _other(request: Request, error: HTTPException) -> JSONResponse:
    fault = Fault("request", f"{request.method} {request.url.path}", "see /openapi.json", str(error.detail))
    answer = _problem(error.status_code, [fault])
    answer.headers.update(error.headers or {})
    return answer


def _problem(status: int, faults: list[Fault]) -> JSONResponse:
    told = [{"field": one.field, "given": one.given, "allowed": one.allowed, "message": one.message} for one in faults]
    return JSONResponse({"schema": "rheostat.error/1", "faults": told}, status_code=status)


# Being told to end, at any time from the beginning on.


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndSignals:
    """While it lasts SIGTERM, SIGINT and SIGHUP do not end the process: what stands in :meth:`on` is called.

    A context manager, for the main thread. A signal that comes too early is remembered; later ones change nothing.

    Attributes:
        asked: whether one has come.
    """

    def __init__(self) -> None:
        self.asked = False
        self._end: Callable[[], None] = lambda: None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._take) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on(self, end: Callable[[], None]) -> None:
        """Call this from now on; at once if a signal has come already."""
        self._end = end
        if self.asked:
            end()

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._end()
