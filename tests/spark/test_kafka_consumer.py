"""What librdkafka says of settings, without a broker, and of connections."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError

from rheostat.errors import Fault, InputError, RheostatError
from rheostat.spark.kafka_consumer import Connections, check_client, make_consumer
from rheostat.spark.kafka_options import parse_kafka_options

CLICKS = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "clicks"}
TLS = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "PEM", "kafka.ssl.keystore.type": "PEM"}


def faults_of(**options: str) -> dict[str, Fault]:
    given = {**CLICKS, **{f"kafka.{name}": value for name, value in options.items()}}
    with pytest.raises(InputError) as caught:
        parse_kafka_options(given, streaming=True)
    return {fault.field: fault for fault in caught.value.faults}


def test_every_value_that_librdkafka_does_not_take_is_named_at_once_by_its_option():
    found = faults_of(
        **{
            "fetch.max.wait.ms": "soon",
            "fetch.min.bytes": "1",
            "max.partition.fetch.bytes": "2000000000",
            "metadata.max.age.ms": "-1",
            "request.timeout.ms": "5",
        }
    )
    allowed = {
        "kafka.max.partition.fetch.bytes": "1..1000000000",
        "kafka.metadata.max.age.ms": "1..86400000",
        "kafka.request.timeout.ms": "10..300000",
    }
    assert {name: fault.allowed for name, fault in found.items() if ".." in fault.allowed} == allowed
    assert found["kafka.fetch.max.wait.ms"].given == "soon"
    assert "kafka.fetch.min.bytes" not in found


def test_values_that_do_not_go_together_are_a_fault():
    (fault,) = faults_of(**{"reconnect.backoff.ms": "200", "reconnect.backoff.max.ms": "100"}).values()
    assert fault.field in {"kafka.reconnect.backoff.ms", "kafka.reconnect.backoff.max.ms"}


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"kafka.ssl.truststore.location": "/none.pem"}, "kafka.ssl.truststore.location"),
        ({"kafka.ssl.truststore.certificates": "no PEM"}, "kafka.ssl.truststore.certificates"),
        ({"kafka.ssl.keystore.location": "/none.pem"}, "kafka.ssl.keystore.location"),
        (
            {"kafka.ssl.keystore.certificate.chain": "C", "kafka.ssl.keystore.key": "secret"},
            "kafka.ssl.keystore.certificate.chain",
        ),
        (
            {"kafka.ssl.keystore.type": "PKCS12", "kafka.ssl.keystore.location": "/none.p12"},
            "kafka.ssl.keystore.password",
        ),
    ],
)
def test_certificates_that_cannot_be_read_are_found_without_a_connection(options, option):
    with pytest.raises(InputError) as caught:
        parse_kafka_options({**CLICKS, **TLS, **options}, streaming=True)
    assert [fault.field for fault in caught.value.faults] == [option]
    assert "secret" not in str(caught.value)


def test_a_long_value_is_cut_and_a_secret_hidden():
    long = "x" * 1000
    with pytest.raises(InputError) as caught:
        check_client({"security.protocol": "ssl", "ssl.ca.pem": long})
    assert len(caught.value.faults[0].given) < 110
    with pytest.raises(InputError) as caught:
        check_client({"security.protocol": "ssl", "ssl.key.pem": "hunter2"})
    assert (caught.value.faults[0].field, caught.value.faults[0].given) == ("kafka.ssl.keystore.key", "(hidden)")


def test_what_librdkafka_does_not_have_is_a_fault_too():
    with pytest.raises(InputError, match="nonsense"):
        check_client({"nonsense": "1"})


def test_a_task_that_lacks_a_file_says_which():
    client = {"bootstrap.servers": "broker:9092", "security.protocol": "ssl", "ssl.ca.location": "/only/on/the/driver"}
    with pytest.raises(InputError, match=r"kafka\.ssl\.truststore\.location"):
        make_consumer(client, "group", Connections())


def error(code: int, text: str = "it says") -> KafkaError:
    return KafkaError(code, text)


ALL_DOWN = error(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


@pytest.mark.parametrize(
    ("told", "named"),
    [
        (error(KafkaError._AUTHENTICATION), "kafka.sasl.jaas.config"),
        (error(KafkaError._SSL), "kafka.ssl.truststore"),
        (error(KafkaError._TRANSPORT, "Receive failed: SSL alert number 42"), "kafka.ssl.keystore"),
    ],
)
def test_a_refused_login_or_certificate_is_final_until_a_broker_has_answered(told, named):
    connections = Connections()
    connections.note(told)
    connections.require_accepted("another broker may accept it")
    connections.note(ALL_DOWN)
    with pytest.raises(RheostatError, match=named) as caught:
        connections.require_accepted("connecting to Kafka")
    assert not caught.value.retryable
    assert str(caught.value).startswith(f"connecting to Kafka: {told.str()}")
    connections.has_answer = True
    connections.require_accepted("connecting to Kafka")


def test_a_token_that_is_not_given_is_final_before_any_broker_is_tried():
    connections = Connections()
    connections.note(error(KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: 401"))
    with pytest.raises(RheostatError, match="token: 401"):
        connections.require_accepted("connecting to Kafka")


def test_a_broker_that_is_away_may_come_back():
    connections = Connections()
    connections.note(error(KafkaError._TRANSPORT, "Connection refused"))
    connections.note(ALL_DOWN)
    connections.require_accepted("connecting to Kafka")
    assert connections.trouble == "Connection refused"


def test_connections_that_only_end_may_be_of_another_protocol():
    connections = Connections()
    connections.note(ALL_DOWN)
    assert "kafka.security.protocol" in connections.trouble
