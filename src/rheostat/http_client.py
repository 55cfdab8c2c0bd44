"""An HTTP client with one deadline for the whole request. Import it when it is first needed: httpx is optional.

The timeouts of httpx count for each read, so a server that sends a byte now and then never exceeds them. Therefore
requests run on an event loop, in one thread for all clients, where a deadline cancels them wherever they are.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Coroutine, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import httpx

from rheostat.errors import UnavailableError

T = TypeVar("T")
_MAX_BYTES = 4_000_000
_LIMITS = httpx.Limits(max_keepalive_connections=1, keepalive_expiry=4.0)
"""Our servers keep an idle connection for longer than 4 s, so none is closed while it is being used again."""


class Answer(NamedTuple):
    """An HTTP response with its whole body. What is not as asked for is raised as UnavailableError."""

    status: int
    reason: str
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def accepted(self) -> Answer:
        """Return the response itself if its status is 2xx."""
        if not self.ok:
            message = f"{self.status} {self.reason}"
            raise UnavailableError(message)
        return self

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            message = f"it answers {self.status}, and no JSON"
            raise UnavailableError(message) from error


class Http:
    """Sends requests, also from several threads at once. The proxies of the environment are not used.

    Args:
        timeout_s: for a whole request, from opening a connection to the last byte of the answer, s; > 0.
        headers: sent with every request.
        redirects: whether redirects are followed, within the same time.
    """

    def __init__(self, timeout_s: float, headers: Mapping[str, str] | None = None, *, redirects: bool = False) -> None:
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None),
            follow_redirects=redirects,
            trust_env=False,
            limits=_LIMITS,
            verify=_certificates(),
        )

    def ask(self, method: str, url: str, order: Any = None) -> Answer:
        """Send one request; ``order`` is sent as JSON unless it is None.

        Raises:
            UnavailableError: no complete answer of at most 4 MB arrived in time; its message says why.
        """
        try:
            return _run(self._request(method, url, order))
        except TimeoutError as error:
            raise UnavailableError("it answers too slowly") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            raise UnavailableError(": ".join(filter(None, (type(error).__name__, str(error))))) from error

    def close(self) -> None:
        """Close the connections. May be called more than once."""
        _run(self._client.aclose())

    def __enter__(self) -> Http:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _request(self, method: str, url: str, order: Any) -> Answer:
        body = b""
        async with asyncio.timeout(self._timeout_s), self._client.stream(method, url, json=order) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise UnavailableError("it answers without an end")
            return Answer(response.status_code, response.reason_phrase, body)


_first = threading.Lock()


def _run(work: Coroutine[Any, Any, T]) -> T:
    with _first:  # of two threads that ask first, one makes the loop
        loop = _event_loop(os.getpid())
    return asyncio.run_coroutine_threadsafe(work, loop).result()


@cache
def _event_loop(_process: int) -> asyncio.AbstractEventLoop:
    """The loop of this process: the thread does not survive a fork."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rheostat-http", daemon=True).start()
    return loop


@cache
def _certificates() -> Any:
    return httpx.create_ssl_context(trust_env=False)
