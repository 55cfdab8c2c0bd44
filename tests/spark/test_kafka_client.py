"""Settings of Java's client as settings of librdkafka: translated, left out, or refused by name."""

from __future__ import annotations

import doctest

import pytest

from rheostat.errors import Fault, InputError
from rheostat.spark import kafka_client
from rheostat.spark.kafka_client import client_settings

BROKER = {"kafka.bootstrap.servers": "broker:9092"}
SECURITY = "org.apache.kafka.common.security"
BEARER = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required clientId=me clientSecret=x"
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": "https://id/token"}
PLAIN = f"{SECURITY}.plain.PlainLoginModule required username=ann password=x;"
SCRAM = f"{SECURITY}.scram.ScramLoginModule required username=ann password=x"
HANDLER = "sasl.login.callback.handler.class"


def login(mechanism: str, config: str, **more: str) -> dict[str, str]:
    return {
        **BROKER,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": config,
        **{f"kafka.{name}": value for name, value in more.items()},
    }


def faults_of(options: dict[str, str]) -> dict[str, Fault]:
    with pytest.raises(InputError) as caught:
        client_settings(options)
    return {fault.field: fault for fault in caught.value.faults}


def test_what_both_clients_know_is_taken_and_what_tunes_java_is_left_out():
    given = {
        **BROKER,
        "kafka.fetch.max.wait.ms": "50",
        "kafka.Request.Timeout.Ms": "9000",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "500",
        "subscribe": "clicks",
    }
    assert client_settings(given) == {
        "bootstrap.servers": "broker:9092",
        "fetch.wait.max.ms": "50",
        "isolation.level": "read_committed",
        "socket.timeout.ms": "9000",
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-256", "scram.ScramLoginModule")],
)
def test_a_password_is_read_from_the_jaas_entry(mechanism, module):
    config = f'{SECURITY}.{module} required username="ann" password="a b;c=\'";'
    found = client_settings(login(mechanism, config))
    assert (found["sasl.username"], found["sasl.password"]) == ("ann", "a b;c='")
    assert (found["security.protocol"], found["sasl.mechanism"]) == ("sasl_ssl", mechanism)


def test_a_token_comes_from_the_endpoint_of_a_provider():
    config = f'{SECURITY}.oauthbearer.OAuthBearerLoginModule required clientId="me" clientSecret="x" scope="kafka";'
    found = client_settings(login("OAUTHBEARER", config, **{"sasl.oauthbearer.token.endpoint.url": "https://id/token"}))
    assert found["sasl.oauthbearer.method"] == "oidc"
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://id/token"
    assert found["sasl.oauthbearer.client.id"] == "me"
    assert found["sasl.oauthbearer.scope"] == "kafka"


@pytest.mark.parametrize("package", ["oauthbearer", "oauthbearer.secured"])
def test_the_class_that_asks_a_token_endpoint_is_known(package):
    handler = f"{SECURITY}.{package}.OAuthBearerLoginCallbackHandler"
    config = f'{BEARER} extension_logicalCluster="lkc-1" extension_pool=p;'
    found = client_settings(login("OAUTHBEARER", config, **ENDPOINT, **{HANDLER: handler}))
    assert HANDLER not in found
    assert found["sasl.oauthbearer.extensions"] == "logicalCluster=lkc-1,pool=p"
    assert list(faults_of(login("PLAIN", PLAIN, **{HANDLER: handler}))) == [f"kafka.{HANDLER}"]


def certificates_of(given: dict[str, str]) -> dict[str, str]:
    found = client_settings({**BROKER, **{f"kafka.{name}": value for name, value in given.items()}})
    return {key: value for key, value in found.items() if key.startswith("ssl")}


def test_certificates_are_taken_as_pem():
    inline = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "CA", "ssl.keystore.type": "PEM"}
    inline |= {"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN", "ssl.key.password": "pw"}
    assert certificates_of(inline) == {
        "ssl.ca.pem": "CA",
        "ssl.key.pem": "KEY",
        "ssl.certificate.pem": "CHAIN",
        "ssl.key.password": "pw",
    }
    files = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem", "ssl.keystore.type": "PEM"}
    files |= {"ssl.keystore.location": "/me.pem", "ssl.endpoint.identification.algorithm": ""}
    assert certificates_of(files) == {
        "ssl.ca.location": "/ca.pem",
        "ssl.key.location": "/me.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize("gap", [" ", "", "  "])
def test_certificates_on_one_line_get_their_line_breaks(gap):
    body = "A" * 64 + gap + "B" * 10
    line = f"-----BEGIN CERTIFICATE-----{gap}{body}{gap}-----END CERTIFICATE-----{gap}"
    wrapped = f"-----BEGIN CERTIFICATE-----\n{'A' * 64}\n{'B' * 10}\n-----END CERTIFICATE-----\n"
    found = certificates_of({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": line * 2})
    assert found == {"ssl.ca.pem": wrapped * 2}


def test_examples_in_docstrings():
    assert doctest.testmod(kafka_client).failed == 0


def test_everything_that_cannot_be_done_is_refused_at_once_with_what_to_use_instead():
    found = faults_of(
        {
            "kafka.auto.offset.reset": "latest",
            "kafka.fetch.mim.bytes": "1",
            "kafka.security.protocol": "TLS",
            "kafka.ssl.truststore.location": "/store.jks",
            "kafka.ssl.keystore.location": "/key.jks",
            "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        }
    )
    assert set(found) == {
        "kafka.auto.offset.reset",
        "kafka.bootstrap.servers",
        "kafka",
        "kafka.sasl.client.callback.handler.class",
        "kafka.security.protocol",
        "kafka.ssl.keystore.type",
        "kafka.ssl.truststore.type",
    }
    assert "startingOffsets" in found["kafka.auto.offset.reset"].allowed
    assert found["kafka"].given == "kafka.fetch.mim.bytes"
    assert "fetch.min.bytes" in found["kafka"].message
    assert "SCRAM" in found["kafka.sasl.client.callback.handler.class"].allowed
    assert "PEM" in found["kafka.ssl.truststore.type"].allowed


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (login("AWS_MSK_IAM", "x"), "kafka.sasl.mechanism"),
        (login("GSSAPI", "x"), "kafka.sasl.mechanism"),
        ({**BROKER, "kafka.sasl.kerberos.kinit.cmd": "kinit"}, "kafka.sasl.kerberos.kinit.cmd"),
        (login("OAUTHBEARER", f"{BEARER};", **ENDPOINT, **{HANDLER: "com.example.Handler"}), f"kafka.{HANDLER}"),
        (login("OAUTHBEARER", f"{BEARER} tokenFile=x;", **ENDPOINT), "kafka.sasl.jaas.config"),
        (login("SCRAM-SHA-256", f"{SCRAM} tokenauth=true;"), "kafka.sasl.jaas.config"),
        ({**BROKER, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.jaas.config"),
        (login("PLAIN", "PlainLoginModule username=x"), "kafka.sasl.jaas.config"),
        (
            login("PLAIN", f"{SECURITY}.scram.ScramLoginModule required username=a password=b;"),
            "kafka.sasl.jaas.config",
        ),
        (login("PLAIN", f"{SECURITY}.plain.PlainLoginModule required username=a;"), "kafka.sasl.jaas.config"),
        (
            login("OAUTHBEARER", "a.OAuthBearerLoginModule required clientId=a clientSecret=b;"),
            "kafka.sasl.oauthbearer.token.endpoint.url",
        ),
        (
            {**BROKER, "kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.key": "K"},
            "kafka.ssl.keystore.certificate.chain",
        ),
        ({**BROKER, "kafka.isolation.level": "committed"}, "kafka.isolation.level"),
    ],
)
def test_a_way_to_log_in_or_to_encrypt_that_is_not_understood_is_a_fault(options, field):
    assert list(faults_of(options)) == [field]


def test_what_java_leaves_to_the_system_librdkafka_does_too():
    found = client_settings({**BROKER, "kafka.receive.buffer.bytes": "-1", "kafka.connections.max.idle.ms": "-1"})
    assert (found["socket.receive.buffer.bytes"], found["connections.max.idle.ms"]) == ("0", "0")


def test_faults_do_not_repeat_secrets():
    (fault,) = faults_of({**BROKER, "kafka.sasl.password": "hunter2"}).values()
    assert "hunter2" not in str(fault)
    for fault in faults_of(login("PLAIN", "PlainLoginModule required password='hunter2' oops")).values():
        assert "hunter2" not in str(fault)
