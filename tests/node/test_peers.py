"""Round trips to peers: what is counted, what is kept when a peer fails, how it ends."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rheostat.node.peers import CALLER, Measurement, PeerRoundTrips, round_trip_ms


@contextmanager
def peer(status=200):
    """A server that notes who pinged it over which connection."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append((self.path, self.headers[CALLER], self.client_address[1]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join(10)


def test_pings_go_over_one_connection_that_is_open_before_the_first_that_counts():
    with peer() as (url, seen):
        ms = round_trip_ms(url, "near", pings=3)

    assert ms > 0.0
    assert [entry[:2] for entry in seen] == [("/ping", "near")] * 4
    assert len({port for _, _, port in seen}) == 1


def test_a_refusal_is_no_round_trip():
    with peer(status=500) as (url, _), pytest.raises(Exception, match="500 Internal Server Error"):
        round_trip_ms(url, "near")


def test_a_peer_that_fails_keeps_its_last_measurement_and_the_others_are_measured():
    at, answers = [100.0], {"http://a": [1.0004], "http://b": [2.0, 4.0]}
    peers = PeerRoundTrips(
        "n", {"a": "http://a", "b": "http://b"}, measure=lambda url, _: answers[url].pop(0), clock=lambda: at[0]
    )
    assert peers.measurements == (Measurement("a", "http://a"), Measurement("b", "http://b"))
    peers.measure_all()
    at[0] = 110.0

    peers.measure_all()

    a, b = peers.measurements
    assert a == Measurement("a", "http://a", 1.0, 100.0, "IndexError: pop from empty list")
    assert b == Measurement("b", "http://b", 3.0, 110.0)
    assert (peers.age_s(a), peers.age_s(b), peers.age_s(Measurement("c", "http://c"))) == (10.0, 0.0, None)


def test_a_round_in_which_a_machine_was_busy_does_not_count():
    answers = [20.0, 95.0, 21.0, 22.0, 300.0, 310.0]
    peers = PeerRoundTrips("n", {"a": "http://a"}, measure=lambda *_: answers.pop(0))
    seen = []
    while answers:
        peers.measure_all()
        seen.append(peers.measurements[0].ms)

    assert seen == [20.0, 57.5, 21.0, 22.0, 22.0, 300.0]


def test_it_measures_in_the_background_until_it_is_closed():
    asked = threading.Semaphore(0)

    def measure(_url, _caller):
        asked.release()
        return 5.0

    peers = PeerRoundTrips("n", {"a": "http://a"}, every_s=0.001, measure=measure)
    peers.start()
    assert asked.acquire(timeout=10)
    assert asked.acquire(timeout=10)

    peers.close()

    peers._thread.join(10)
    assert not peers._thread.is_alive()
    assert peers.measurements[0].ms == 5.0


def test_without_peers_no_thread_is_started():
    peers = PeerRoundTrips("n", {"n": "http://n"})
    peers.start()
    assert (peers.measurements, peers._thread.is_alive()) == ((), False)
