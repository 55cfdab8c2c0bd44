"""Spark's own streaming examples, unmodified, under ``rheostat run``: scaled or left alone, and their results right."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer
from tests.cluster.support import EXECUTOR_MB, Journal, changes, lives, worker
from tests.cluster.test_scripts import QUIET, pairs, script

from rheostat.host.java import kafka_connector_jars
from rheostat.host.processes import module_command
from rheostat.lab.lab import Lab
from rheostat.model import Action, ReasonCode

pytestmark = pytest.mark.cluster

EXAMPLES = Path(pyspark.__file__).parent / "examples/src/main/python/sql/streaming"
LINES = ("red green blue", "green blue", "blue")
"""Six words a round: one red, two green, three blue."""


class Lines:
    """Sends rounds of lines, ten a second, until it is stopped."""

    def __init__(self) -> None:
        self.rounds = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def send(self, lines: tuple[str, ...]) -> None:
        raise NotImplementedError

    def _work(self) -> None:
        while not self._stop.wait(0.1):
            self.send(LINES)
            self.rounds += 1

    @contextmanager
    def flowing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(30.0)
            assert not self._thread.is_alive()

    def words(self) -> Counter[str]:
        return Counter({"red": self.rounds, "green": 2 * self.rounds, "blue": 3 * self.rounds})


class KafkaLines(Lines):
    def __init__(self, lab: Lab, topic: str) -> None:
        super().__init__()
        self._producer, self._topic = Producer({"bootstrap.servers": lab.broker.bootstrap}), topic

    def send(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            self._producer.produce(self._topic, line)
        assert self._producer.flush(30.0) == 0


class SocketLines(Lines):
    """A server for Spark's socket source: the lines go to whoever connected last."""

    def __init__(self) -> None:
        super().__init__()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._client: socket.socket | None = None

    def accept(self) -> bool:
        """Whether the query has connected."""
        self._server.settimeout(0.1)
        with suppress(TimeoutError):
            self._client, _ = self._server.accept()
        return self._client is not None

    def send(self, lines: tuple[str, ...]) -> None:
        assert self._client is not None
        self._client.sendall("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        for each in (self._client, self._server):
            if each is not None:
                each.close()


def under_control(
    field: Lab, folder: Path, journal: Journal, state_partitions: int, example: str, *arguments: str
) -> list[str]:
    """The command that runs an example with one or two executors."""
    conf = field.cluster.driver_conf(executor_memory_mb=EXECUTOR_MB, jars=kafka_connector_jars())
    conf |= QUIET | {"spark.sql.shuffle.partitions": str(state_partitions)}
    settings = folder / "rheostat.yaml"
    settings.write_text("profile: demo\nsample_s: 1.0\n")
    command = module_command("rheostat", "run", "--objective", "lag < 6s", "--executors", "1,2")
    command += ["--config", str(settings), "--journal", str(journal.folder), *pairs(conf)]
    return [*command, str(EXAMPLES / f"{example}.py"), *arguments]


def tables(log: Path) -> list[list[list[str]]]:
    """The tables that the console sink printed, each as rows of cells without the header."""
    found: list[list[list[str]]] = []
    for part in re.split(r"^Batch: \d+$", log.read_text(errors="replace"), flags=re.MULTILINE)[1:]:
        rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
        found.append([[cell.strip() for cell in row] for row in rows[1:]])
    return found


def word_counts(log: Path) -> Counter[str]:
    """The words of the last complete table, whose last two columns are word and count."""
    counts: Counter[str] = Counter()
    for row in (tables(log) or [[]])[-1]:
        counts[row[-2]] += int(row[-1])
    return counts


def session_counts(log: Path) -> Counter[str]:
    """The events of the sessions that have ended, by session id: each is printed once, with its count."""
    counts: Counter[str] = Counter()
    for row in (row for table in tables(log) for row in table):
        counts[row[0]] += int(row[1])
    return counts


@pytest.mark.parametrize("source", ["kafka", "rheostat-kafka"])
def test_the_kafka_word_count_is_scaled_and_counts_right(field: Lab, tmp_path: Path, source: str) -> None:
    """The tasks of a hundred state partitions keep one executor busy, so another one is asked for.

    On our source it is the same script but for one word.
    """
    topic = f"counted-by-{source}"
    field.broker.create_topic(topic, 3)
    journal, lines = Journal(tmp_path / "journal"), KafkaLines(field, topic)
    text = (EXAMPLES / "structured_kafka_wordcount.py").read_text(encoding="utf-8")
    assert text.count('.format("kafka")') == 1
    (tmp_path / "wordcount.py").write_text(text.replace('.format("kafka")', f'.format("{source}")'), encoding="utf-8")
    *command, _ = under_control(field, tmp_path, journal, 100, "structured_kafka_wordcount")
    command += [str(tmp_path / "wordcount.py"), field.broker.bootstrap, "subscribe", topic]
    with script(field, tmp_path, topic, command, {}) as part:
        lives(field, journal.decisions, f"the autoscaler to attach: {part.log}")
        with worker(field, cores=2):
            lives(field, lambda: tables(part.log), f"a first batch, empty: {part.log}")
            with lines.flowing():
                lives(field, lambda: journal.executors() == 2, f"two executors: {part.log}")
            lives(field, lambda: word_counts(part.log) == lines.words(), f"{lines.rounds} rounds of words: {part.log}")
    acted = changes(journal.decisions())
    assert (acted[0].reason.code, acted[0].target) == (ReasonCode.START, 1)
    assert (acted[1].action, acted[1].target) == (Action.UP, 2)


@pytest.mark.parametrize(
    ("example", "arguments", "count"),
    [
        ("structured_network_wordcount_windowed", ("600",), word_counts),
        ("structured_network_wordcount_session_window", (), session_counts),
    ],
)
def test_an_example_that_reads_a_socket_is_left_alone_and_counts_right(
    field: Lab, tmp_path: Path, example: str, arguments: tuple[str, ...], count: Callable[[Path], Counter[str]]
) -> None:
    """A socket cannot say what is waiting: no number of executors can be derived from it, and the reason says so."""
    journal, lines = Journal(tmp_path / "journal"), SocketLines()
    command = under_control(field, tmp_path, journal, 3, example, "127.0.0.1", str(lines.port), *arguments)
    try:
        with script(field, tmp_path, example, command, {}) as part:
            lives(field, journal.decisions, f"the autoscaler to attach: {part.log}")
            with worker(field, cores=2):
                lives(field, lines.accept, f"the query to connect: {part.log}")
                with lines.flowing():
                    lives(field, lambda: lines.rounds >= 30, f"three seconds of lines: {part.log}")
                lives(field, lambda: count(part.log) == lines.words(), f"every word once: {part.log}")
                lives(field, lambda: "socket" in journal.decisions()[-1].reason.text.lower(), "the source to be named")
    finally:
        lines.close()
    assert [decision.reason.code for decision in changes(journal.decisions())] == [ReasonCode.START]
