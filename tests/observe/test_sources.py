"""Options of sources."""

from dataclasses import replace

import pytest

from rheostat.model import Offsets, PartitionOffsets, SourceInfo
from rheostat.observe.parse import source_info, without_secrets
from rheostat.spark.kafka_admin import Subscription, TopicPartition, admin_properties, subscription
from rheostat.spark.kafka_options import spark_seconds

READ = Offsets.of(0.0, [PartitionOffsets("orders", number, 0, 0, 0) for number in range(16)])
KAFKA = {
    "kafka.bootstrap.servers": "b:9092",
    "subscribe": "orders",
    "maxoffsetspertrigger": "4000",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.jaas.config": "Login required password='hush';",
    "kafka.ssl.truststore.password": "hush",
    "kafka.isolation.level": "read_committed",
}


@pytest.mark.parametrize(
    ("provider", "options", "expected"),
    [
        (
            "kafka",
            KAFKA,
            SourceInfo(
                "kafka",
                "orders",
                16,
                4000,
                {
                    "kafka.bootstrap.servers": "b:9092",
                    "kafka.isolation.level": "read_committed",
                    "kafka.security.protocol": "SASL_SSL",
                    "maxoffsetspertrigger": "4000",
                    "subscribe": "orders",
                },
            ),
        ),
        ("rheostat_log", {"path": "/data/log"}, SourceInfo("log", "/data/log", 16, None, {"path": "/data/log"})),
        ("rate", {}, SourceInfo("rate", "rate", 16, None, {})),
        ("text", {"path": "s3a://me:pw@bucket/x"}, SourceInfo("text", "text", 16, None, {})),
        (
            "kafka",
            {"maxOffsetsPerTrigger": "many"},
            SourceInfo("kafka", "kafka", 16, None, {"maxOffsetsPerTrigger": "many"}),
        ),
    ],
    ids=["kafka", "the embedded log", "no options", "a path with a password", "a cap that is no number"],
)
def test_source_info(provider, options, expected):
    assert source_info(provider, options, READ) == replace(expected, topics=("orders",))


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({"minOffsetsPerTrigger": "100000", "maxTriggerDelay": "30m"}, (100_000, 1800.0)),
        ({"minoffsetspertrigger": "100000"}, (100_000, 900.0)),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "1500"}, (5, 1.5)),
        ({"maxTriggerDelay": "30m"}, (None, None)),
        ({"minOffsetsPerTrigger": "0"}, (None, None)),
    ],
    ids=["both", "Spark's delay", "milliseconds", "a delay without a minimum", "no minimum"],
)
def test_what_a_source_waits_for(options, waits):
    info = source_info("kafka", options)
    assert (info.min_offsets, info.max_delay_s) == waits


def test_a_delay_that_is_not_understood_is_unknown():
    assert (spark_seconds("-5m"), spark_seconds("soon")) == (None, None)


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "kafka.sasl.jaas.config",
        "fs.s3a.secret.key",
        "accessKey",
        "sas_token",
        "credentialsFile",
        "authHeader",
    ],
)
def test_options_with_the_name_of_a_secret_are_dropped(name):
    assert without_secrets({name: "x", "path": "/p"}) == {"path": "/p"}


@pytest.mark.parametrize("value", ["jdbc:x;password=p", "https://me:pw@host/", "TOKEN = abc"])
def test_options_with_the_look_of_a_secret_are_dropped(value):
    assert without_secrets({"url": value}) == {}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribe": "b, a,b"}, Subscription(topics=("a", "b"))),
        ({"SUBSCRIBEPATTERN": "or.*"}, Subscription(pattern="or.*")),
        ({"assign": '{"a":[1,0]}'}, Subscription(assigned=(TopicPartition("a", 0), TopicPartition("a", 1)))),
        (KAFKA, Subscription(topics=("orders",), read_committed=True)),
    ],
    ids=["topics", "pattern", "partitions", "committed records only"],
)
def test_subscription(options, expected):
    assert subscription(options) == expected


def test_a_kafka_source_that_subscribes_to_nothing_is_an_error_of_value():
    with pytest.raises(ValueError, match="without subscribe"):
        subscription({"kafka.bootstrap.servers": "b:9092"})


def test_the_admin_client_gets_the_security_of_the_query_and_gives_up_soon():
    assert admin_properties(KAFKA, 2.0) == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": "Login required password='hush';",
        "ssl.truststore.password": "hush",
        "client.id": "rheostat",
        "request.timeout.ms": "2000",
        "default.api.timeout.ms": "2000",
        "reconnect.backoff.ms": "200",
        "reconnect.backoff.max.ms": "5000",
        "retries": "2",
    }
