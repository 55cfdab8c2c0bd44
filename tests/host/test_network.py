"""Ports: chosen, asked for, taken."""

import socket

import pytest

from rheostat.errors import InputError
from rheostat.host.spark_daemons import HOST, answers, free_ports, is_free, port_was_taken, require_free


@pytest.fixture
def listener():
    with socket.socket() as one:
        one.bind((HOST, 0))
        one.listen()
        yield one.getsockname()[1]


def test_ports_that_are_chosen_differ_and_are_free():
    ports = free_ports(20)

    assert len(set(ports)) == 20
    assert all(is_free(port) for port in ports)


def test_a_port_that_somebody_listens_on_is_not_free_and_answers(listener):
    assert not is_free(listener)
    assert answers(listener)


def test_a_port_that_nobody_listens_on_does_not_answer():
    assert not answers(free_ports(1)[0])


def test_a_port_in_use_that_was_asked_for_is_an_input_error(listener):
    with pytest.raises(InputError) as caught:
        require_free(listener, "kafka_port")

    (fault,) = caught.value.faults
    assert (fault.field, fault.given) == ("kafka_port", str(listener))
    assert "in use" in fault.message


@pytest.mark.parametrize("port", [0, 80, 70000, -1])
def test_what_is_no_port_is_an_input_error(port):
    with pytest.raises(InputError, match="1024 to 65535"):
        require_free(port, "kafka_port")


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        pytest.param("java.net.BindException: Address already in use: bind", True, id="Spark"),
        pytest.param("Socket server failed to bind to 127.0.0.1:9092: Address already in use.", True, id="Kafka"),
        pytest.param("java.lang.OutOfMemoryError: Java heap space", False, id="another failure"),
    ],
)
def test_a_taken_port_is_told_from_other_failures(tail, expected):
    assert port_was_taken(tail) is expected
