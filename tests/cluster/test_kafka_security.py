"""The source ``rheostat-kafka`` on a broker with logins and certificates, with the options of Spark's own source."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.cluster.kafka_support import FORMATS, Collector, kafka_session, make_topic, read, send
from tests.cluster.secured import (
    broker_options,
    login,
    make_certificates,
    own_key,
    own_key_inline,
    own_key_pkcs12,
    serve_tokens,
    set_scram_passwords,
    token,
    trust,
    trust_inline,
)
from tests.cluster.support import TIMEOUT_S

from rheostat.errors import InputError, RheostatError, UnavailableError
from rheostat.lab.lab import Lab, LabSpec
from rheostat.spark import kafka_reader
from rheostat.spark.kafka_admin import KafkaView
from rheostat.spark.kafka_client import client_settings
from rheostat.spark.kafka_offsets import Piece
from rheostat.spark.kafka_options import parse_kafka_options
from rheostat.spark.kafka_reader import ReadSettings, read_piece
from rheostat.spark.kafka_source import KafkaBatchReader, KafkaStreamReader
from rheostat.spark.kafka_topics import TopicsView

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl"),
]

TOPIC, RECORDS = "secured", 90


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    make_certificates(made)
    return made


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab(LabSpec(spark=False, broker_options=broker_options(folder))) as lab:
        set_scram_passwords(lab.broker.bootstrap)
        make_topic(lab, TOPIC, 3)
        send(lab, TOPIC, RECORDS)
        yield lab


@pytest.fixture(scope="module")
def tokens() -> Iterator[str]:
    with serve_tokens() as url:
        yield url


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with kafka_session("kafka-security") as session:
        yield session


@pytest.fixture(autouse=True)
def _consumers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Those of each test are closed, where a worker would keep them."""
    consumers: dict[tuple[Any, ...], Any] = {}
    monkeypatch.setattr(kafka_reader, "_CONSUMERS", consumers)
    yield
    for kept in consumers.values():
        kept.consumer.close()


Give = Callable[..., dict[str, str]]


@pytest.fixture
def give(lab: Lab) -> Give:
    """The options for a listener."""

    def at(listener: str, *more: dict[str, str]) -> dict[str, str]:
        given = {"kafka.bootstrap.servers": lab.broker.address(listener), "subscribe": TOPIC}
        for each in more:
            given |= each
        return given

    return at


def rows_of(options: dict[str, str]) -> list[dict[str, Any]]:
    """All records, read by the source's own classes in this process."""
    reader = KafkaBatchReader(parse_kafka_options(options, streaming=False))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [row for batch in batches for row in batch.to_pylist()]


def same_as_plain(give: Give, listener: str, *ways: dict[str, str]) -> None:
    """Our source reads the same rows as over plaintext, and Java's client takes the same options."""
    plain = rows_of(give("PLAINTEXT"))
    assert len(plain) == RECORDS
    for way in ways:
        assert rows_of(give(listener, way)) == plain, way
        view = KafkaView(SparkContext._jvm, give(listener, way), 10.0)
        assert sum(view.latest().values()) == RECORDS, way
        view.close()


def refused(options: dict[str, str], *words: str) -> None:
    """It is refused, with a word on what is wrong, rather than waited for as long as a broker that is away."""
    parsed = parse_kafka_options(options, streaming=True)
    piece, settings = Piece(TOPIC, 0, 0, 30), ReadSettings(client=tuple(parsed.client.items()), group="refused")
    for ask in (
        lambda: KafkaStreamReader(parsed).latestOffset({TOPIC: {"0": 0, "1": 0, "2": 0}}, None),  # type: ignore[arg-type]
        lambda: list(read_piece(piece, settings)),
    ):
        with pytest.raises(RheostatError) as caught:
            ask()
        assert not isinstance(caught.value, UnavailableError)
        for word in words:
            assert word in str(caught.value)


class TestReads:
    def test_with_a_password(self, give: Give) -> None:
        same_as_plain(give, "LOGIN", *(login(each) for each in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")))

    def test_with_a_token(self, give: Give, tokens: str) -> None:
        assert rows_of(give("LOGIN", token(tokens))) == rows_of(give("PLAINTEXT"))

    def test_over_tls(self, give: Give, folder: Path) -> None:
        same_as_plain(give, "TLS", trust(folder), trust_inline(folder))

    def test_with_a_certificate_of_its_own(self, give: Give, folder: Path) -> None:
        keys = (own_key(folder), own_key_inline(folder), own_key_pkcs12(folder))
        same_as_plain(give, "MUTUAL", *(trust(folder) | key for key in keys))

    def test_under_another_name_if_the_name_is_not_to_be_checked(self, give: Give, lab: Lab, folder: Path) -> None:
        port = lab.broker.address("TLS").rpartition(":")[2]
        given = give("TLS", trust(folder), {"kafka.bootstrap.servers": f"localhost:{port}"})
        refused(given, "certificate verify failed", "host name")
        unchecked = {**given, "kafka.ssl.endpoint.identification.algorithm": ""}
        assert rows_of(unchecked) == rows_of(give("PLAINTEXT"))

    def test_the_observer_logs_in_as_the_source_does(self, give: Give, folder: Path) -> None:
        view = TopicsView(give("BOTH", trust(folder), login("SCRAM-SHA-512", protocol="SASL_SSL")), TIMEOUT_S)
        assert sum(view.latest().values()) == RECORDS
        assert view.check() == (dict.fromkeys(view.latest(), 0), frozenset())


class TestRefusals:
    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
    def test_a_wrong_password(self, give: Give, mechanism: str) -> None:
        given = give("LOGIN", login(mechanism, password="wrong"))
        refused(given, "Authentication failed", "kafka.sasl.jaas.config")

    def test_a_secret_that_the_token_endpoint_does_not_know(self, give: Give, tokens: str) -> None:
        refused(give("LOGIN", token(tokens, secret="wrong")), "OAUTHBEARER token", "kafka.sasl.jaas.config")

    def test_a_broker_whose_authority_is_not_trusted(self, give: Give, folder: Path) -> None:
        for trusted in (trust(folder, "stranger"), {"kafka.security.protocol": "SSL"}):
            refused(give("TLS", trusted), "certificate verify failed", "kafka.ssl.truststore")

    def test_no_certificate_of_its_own(self, give: Give, folder: Path) -> None:
        refused(give("MUTUAL", trust(folder)), "alert", "kafka.ssl.keystore")

    def test_a_login_where_none_is_asked_for(self, give: Give) -> None:
        refused(give("PLAINTEXT", login("PLAIN")), "SASL", "kafka.sasl.mechanism")

    @pytest.mark.parametrize("listener", ["LOGIN", "TLS"])
    def test_no_word_on_security_where_it_is_asked_for(self, give: Give, listener: str) -> None:
        view = TopicsView(give(listener), 1.0)
        with pytest.raises(UnavailableError, match=r"security\.protocol"):
            view.latest()


class TestInSpark:
    def test_the_same_options_give_the_same_rows_as_sparks_own_source(
        self, spark: SparkSession, give: Give, folder: Path
    ) -> None:
        given = give("BOTH", trust(folder), login("SCRAM-SHA-512", protocol="SASL_SSL"))
        theirs, ours = (read(spark, name, given) for name in FORMATS)
        assert len(ours) == RECORDS
        assert ours == theirs

    def test_a_stream_reads_and_a_wrong_password_ends_it(
        self, spark: SparkSession, give: Give, folder: Path, tmp_path: Path
    ) -> None:
        sink = Collector()

        def run(options: dict[str, str], name: str) -> None:
            stream = spark.readStream.format("rheostat-kafka").options(**options).load().writeStream.foreachBatch(sink)
            query = stream.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start()
            assert query.awaitTermination(int(TIMEOUT_S))

        start = {"startingOffsets": "earliest"}
        run(give("BOTH", trust(folder), login("PLAIN", protocol="SASL_SSL"), start), "right")
        assert sink.numbers() == list(range(RECORDS))
        with pytest.raises(StreamingQueryException, match="Authentication failed: Invalid username or password"):
            run(give("LOGIN", login("PLAIN", password="wrong"), start), "wrong")


def test_every_setting_of_sparks_client_is_translated_left_out_or_refused_by_name() -> None:
    jvm = SparkContext._jvm
    assert jvm is not None
    names = list(jvm.org.apache.kafka.clients.consumer.ConsumerConfig.configNames())
    assert len(names) > 90
    with pytest.raises(InputError) as caught:
        client_settings({f"kafka.{name}": "x" for name in names})
    assert [fault.given for fault in caught.value.faults if fault.field == "kafka"] == []
