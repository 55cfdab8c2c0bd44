"""The HTTP interface of a node (S1, 4.3.3), and serving it."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rheostat import __version__
from rheostat.config.faults import faults_of
from rheostat.errors import Fault, InputError, UnavailableError
from rheostat.lab.daemons import WorkerSize
from rheostat.node.ending import EndSignals
from rheostat.node.values import DisagreementError
from rheostat.node.ways import CALLER, Ways
from rheostat.node.wire import Created, CreateOrder, NodeDescription, Problem, Removed, RemoveOrder, describe, removed
from rheostat.node.workers import Workers

__all__ = ["MOST_BYTES", "OPEN_PATHS", "make_app", "serve"]

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
    workers: Workers, *, name: str, n_max: int, size: WorkerSize, token: str | None, ways: Ways | None = None
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
    ways = ways or Ways(name)
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
