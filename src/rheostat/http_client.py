"""HTTP that ends: a request is answered within its time, or it is given up. To be imported when it is first needed.

The limits of the HTTP library count for each read, so that a server that sends a byte now and then never exceeds them.
Here every read and write gets what is left of the whole request's time.
"""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import httpcore
import httpx

from rheostat.errors import UnavailableError

_MOST_BYTES = 4_000_000
_KEEP_S = 4.0
"""How long an idle connection is kept, s: less than our servers keep one."""

_SLOW = "it answers too slowly"

_FAILURES = (
    *(httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError),
    *(httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol),
)


class Answer(NamedTuple):
    """What a server answered.

    Attributes:
        status: of HTTP.
        reason: what the status is called.
        body: all of it.
    """

    status: int
    reason: str
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether it is no refusal."""
        return 200 <= self.status < 300

    def accepted(self) -> Answer:
        """The answer itself.

        Raises:
            UnavailableError: it is a refusal, or says to ask elsewhere.
        """
        if not self.ok:
            message = f"{self.status} {self.reason}"
            raise UnavailableError(message)
        return self

    def json(self) -> Any:
        """The body, read as JSON.

        Raises:
            UnavailableError: it is none.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            message = f"it answers {self.status}, and no JSON"
            raise UnavailableError(message) from error


class Http:
    """Asks servers; the environment's proxies are not used.

    May be used by several threads, and from a ``with`` block.

    Args:
        timeout_s: for a whole request, from looking for a connection to the last byte of the answer, s; > 0.
        headers: sent with every request.
        redirects: whether an answer that says where to ask instead is followed, within the same time.
    """

    def __init__(self, timeout_s: float, headers: Mapping[str, str] | None = None, *, redirects: bool = False) -> None:
        self._timeout_s, self._limit = timeout_s, _Limit()
        pool = httpcore.ConnectionPool(
            max_keepalive_connections=1, keepalive_expiry=_KEEP_S, network_backend=_Network(self._limit)
        )
        self._client = httpx.Client(
            transport=_Transport(pool), headers=headers, timeout=timeout_s, follow_redirects=redirects, trust_env=False
        )

    def ask(self, method: str, url: str, order: Any = None) -> Answer:
        """Ask once; ``order`` is sent as JSON, unless it is None.

        Raises:
            UnavailableError: there is no whole answer of at most 4 MB within the time; its words say why.
        """
        self._limit.until = time.monotonic() + self._timeout_s
        try:
            with self._client.stream(method, url, json=order) as response:
                return Answer(response.status_code, response.reason_phrase, _whole(response))
        except _FAILURES as error:
            words = _SLOW if isinstance(error, httpcore.TimeoutException) else str(error)
            raise UnavailableError(": ".join(filter(None, (type(error).__name__, words)))) from error

    def close(self) -> None:
        """Close the connections. May be called more than once."""
        self._client.close()

    def __enter__(self) -> Http:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _whole(response: httpx.Response) -> bytes:
    chunks, size = [], 0
    for chunk in response.iter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > _MOST_BYTES:
            raise UnavailableError("it answers without an end")
    return b"".join(chunks)


class _Limit(threading.local):
    """When the request of this thread has to be answered, on the monotonic clock."""

    until = math.inf

    def left(self, error: type[Exception]) -> float:
        """Seconds that are left; the error where there are none."""
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            raise error(_SLOW)
        return seconds


class _Stream(httpcore.NetworkStream):
    """A connection each of whose steps gets what is left of the time."""

    def __init__(self, stream: httpcore.NetworkStream, limit: _Limit) -> None:
        self._stream, self._limit = stream, limit

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        return self._stream.read(max_bytes, self._limit.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._stream.write(buffer, self._limit.left(httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:  # noqa: ARG002
        left = self._limit.left(httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._limit)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Network(httpcore.NetworkBackend):
    """Makes such connections."""

    def __init__(self, limit: _Limit) -> None:
        self._limit, self._network = limit, httpcore.SyncBackend()

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, *more: Any, **named: Any) -> _Stream:  # noqa: ARG002
        places = _addresses(host, port)
        for place, address in enumerate(places, 1):
            left = self._limit.left(httpcore.ConnectTimeout) / (1 + len(places) - place)
            try:
                return _Stream(self._network.connect_tcp(address, port, left, *more, **named), self._limit)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if place == len(places):
                    raise
        message = f"no address of {host} is known"
        raise httpcore.ConnectError(message)


def _addresses(host: str, port: int) -> list[str]:
    """Those that a name stands for, each once."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


class _Body(httpx.SyncByteStream):
    def __init__(self, chunks: Any) -> None:
        self._chunks: Iterable[bytes] = chunks
        self._end = getattr(chunks, "close", None)

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks

    def close(self) -> None:
        if self._end is not None:
            self._end()


class _Transport(httpx.BaseTransport):
    """Between the client, which knows requests, and the pool, which knows connections."""

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._pool = pool

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        where = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        headers, body = request.headers.raw, request.read()
        answer = self._pool.handle_request(
            httpcore.Request(request.method, where, headers=headers, content=body, extensions=request.extensions)
        )
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    def close(self) -> None:
        self._pool.close()
