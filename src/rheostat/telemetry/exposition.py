"""The only file that knows prometheus_client: our series as its metric families, and its HTTP server."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rheostat.telemetry.figures import series
from rheostat.telemetry.hearing import Hearing

__all__ = ["HttpServer", "KnownFigures"]

_FAMILIES = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


class KnownFigures(Collector):
    """What is known at the time of a scrape."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing

    def collect(self) -> Iterator[Metric]:
        """A family for each metric that has a sample."""
        for each in series(self._hearing.heard):
            family = _FAMILIES[each.kind](each.name, each.meaning, labels=each.labels)
            for labels, value in each.samples.items():
                family.add_metric(labels, value)
            yield family


class HttpServer:
    """Serves what is heard, each scrape in a daemon thread of its own.

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(self, host: str, port: int, hearing: Hearing) -> None:
        registry = CollectorRegistry()
        registry.register(KnownFigures(hearing))
        self._server, self._thread = start_http_server(port, host, registry)

    def close(self) -> None:
        """End it and give the port free. May be called more than once."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
