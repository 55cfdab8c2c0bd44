"""Redirects, addresses and bad URLs: a request with all of its redirects ends within its time."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rheostat import http_client
from rheostat.errors import UnavailableError
from rheostat.http_client import Http


@contextmanager
def server(answer):
    """A server whose answers are (status, headers, body) by path."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            status, headers, body = answer(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}"
        finally:
            served.shutdown()
            thread.join(10)


def elsewhere(path):
    return (200, {}, b"[7]") if path == "/there" else (302, {"Location": "/there"}, b"")


def test_an_answer_elsewhere_is_found_where_that_is_wanted():
    with server(elsewhere) as url, Http(10.0, redirects=True) as http:
        assert http.ask("GET", url).accepted().json() == [7]


def test_it_is_a_refusal_where_it_is_not():
    with server(elsewhere) as url, Http(10.0) as http, pytest.raises(UnavailableError, match="302 Found"):
        http.ask("GET", url).accepted()


def test_a_circle_ends():
    with (
        server(lambda _: (302, {"Location": "/"}, b"")) as url,
        Http(10.0, redirects=True) as http,
        pytest.raises(UnavailableError, match="TooManyRedirects"),
    ):
        http.ask("GET", url)


@pytest.mark.parametrize(
    "url",
    ["http://", "ftp://127.0.0.1/", "http://127.0.0.1:0/", "nothing at all", "http://a..b/", f"http://{'a' * 64}.b/"],
)
def test_what_is_no_address_is_no_answer(url):
    with Http(1.0) as http, pytest.raises(UnavailableError):
        http.ask("GET", url)


def test_of_several_addresses_the_next_is_tried_where_the_first_does_not_answer(monkeypatch):
    """The queue of the first address is full: it neither accepts nor refuses a connection."""
    resolve = socket.getaddrinfo

    def two_addresses(host, port, *more, **named):
        hosts = ["127.0.0.9", "127.0.0.1"] if host in ("two.test", b"two.test") else [host]
        return [found for each in hosts for found in resolve(each, port, *more, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    with server(lambda _: (200, {}, b"[7]")) as url, socket.socket() as silent, ExitStack() as waiting:
        port = int(url.rpartition(":")[2])
        silent.bind(("127.0.0.9", port))
        silent.listen(0)
        for _ in range(3):
            filler = waiting.enter_context(socket.socket())
            filler.settimeout(0.0)
            filler.connect_ex(("127.0.0.9", port))
        with Http(60.0) as http:
            assert http.ask("GET", f"http://two.test:{port}").accepted().json() == [7]


def test_clients_that_begin_at_the_same_time_share_one_loop(monkeypatch):
    made, second = [], threading.Event()

    def make_loop():
        made.append(make())
        if len(made) > 1:
            second.set()
        second.wait(0.2)  # long enough for another thread to make one, too
        return made[-1]

    make = asyncio.new_event_loop
    monkeypatch.setattr(asyncio, "new_event_loop", make_loop)
    http_client._event_loop.cache_clear()
    with server(lambda _: (200, {}, b"here")) as url, Http(5.0) as client:
        threads = [threading.Thread(target=client.ask, args=("GET", url)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(made) == 1
