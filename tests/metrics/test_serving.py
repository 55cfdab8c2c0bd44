"""The port: served, refused, given free."""

import importlib.util
import socket
import sys
import urllib.request

import pytest
from tests.metrics.cycles import cycle

from rheostat.config.loading import load_settings
from rheostat.config.models import MetricsSettings
from rheostat.errors import InputError
from rheostat.host.spark_daemons import free_ports
from rheostat.metrics import JobMetrics, serve


def read(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode().splitlines()


def test_a_scrape_tells_what_was_heard_last():
    metrics, port = JobMetrics(), free_ports(1)[0]
    served = serve(MetricsSettings(port=port), metrics)
    assert served is not None
    try:
        assert "rheostat_backlog_records 12000.0" not in read(port)[1]
        metrics.count(cycle(), written=True)
        kind, lines = read(port)
    finally:
        served.close()
    assert kind.startswith("text/plain")
    assert "rheostat_backlog_records 12000.0" in lines
    assert 'rheostat_decisions_total{action="up",code="UNDERSIZED"} 1.0' in lines
    assert not [line for line in lines if line.startswith(("python_", "process_"))]


def test_somebody_who_connects_and_says_nothing_holds_up_neither_the_others_nor_the_end():
    port = free_ports(1)[0]
    served = serve(MetricsSettings(port=port), JobMetrics())
    assert served is not None
    with socket.create_connection(("127.0.0.1", port)):
        assert "rheostat_failed_cycles_total 0.0" in read(port)[1]
        served.close()


def test_the_port_is_free_again_afterwards_and_closing_twice_does_no_harm():
    settings = MetricsSettings(port=free_ports(1)[0])
    for _ in range(2):
        served = serve(settings, JobMetrics())
        assert served is not None
        served.close()
        served.close()


def test_without_a_port_nothing_is_served():
    assert serve(MetricsSettings(), JobMetrics()) is None


def test_a_port_in_use_is_a_fault():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError) as caught:
            serve(MetricsSettings(port=port), JobMetrics())
    assert [(fault.field, fault.given) for fault in caught.value.faults] == [("metrics.port", str(port))]
    assert "something else listens on 127.0.0.1" in str(caught.value)


@pytest.mark.parametrize(
    "host",
    [pytest.param("192.0.2.1", id="another machine's"), pytest.param("no-such-host.invalid", id="no address at all")],
)
def test_an_address_that_is_not_ours_is_a_fault(host):
    with pytest.raises(InputError) as caught:
        serve(MetricsSettings(port=free_ports(1)[0], host=host), JobMetrics())
    assert [(fault.field, fault.given) for fault in caught.value.faults] == [("metrics.host", host)]


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert importlib.util.find_spec("prometheus_client") is None
    with pytest.raises(InputError, match=r"in a clone of Rheostat: pip install '\.\[metrics\]'"):
        serve(MetricsSettings(port=free_ports(1)[0]), JobMetrics())


@pytest.mark.parametrize("port", [0, -1, 65_536, "9090"])
def test_what_is_no_port_is_refused_together_with_the_rest(port):
    with pytest.raises(InputError) as caught:
        load_settings({"objective": "lag < 30s", "metrics": {"port": port, "host": "", "path": "/"}})
    assert {fault.field for fault in caught.value.faults} == {"metrics.port", "metrics.host", "metrics.path"}


def test_it_is_off_and_on_loopback_unless_said_otherwise():
    assert load_settings({"objective": "lag < 30s"}).metrics == MetricsSettings(port=None, host="127.0.0.1")
