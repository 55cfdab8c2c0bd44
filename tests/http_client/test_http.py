"""Whoever sends elsewhere, again and again, has no more time for all of it than for one answer."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
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


def test_of_several_addresses_each_is_tried_within_its_share_of_the_time(monkeypatch):
    """Nothing listens on the first; it gets half of what is left."""
    tried, connect = [], socket.create_connection

    def noted(address, timeout, **more):
        tried.append((address[0], timeout))
        return connect(address, timeout, **more)

    monkeypatch.setattr(http_client, "_addresses", lambda _host, _port: ["127.0.0.9", "127.0.0.1"])
    monkeypatch.setattr(socket, "create_connection", noted)
    with server(lambda _: (200, {}, b"[7]")) as url, Http(60.0) as http:
        assert http.ask("GET", url).accepted().json() == [7]
    (first, half), (second, rest) = tried
    assert (first, second) == ("127.0.0.9", "127.0.0.1")
    assert 0 < half <= 30.0 < rest <= 60.0
