"""How a task reads when a partition seems to be gone, on a consumer that a test tells what to give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("pyarrow")

from confluent_kafka import KafkaError

from rheostat.errors import RheostatError
from rheostat.spark import kafka_reader
from rheostat.spark.kafka_consumer import Connections
from rheostat.spark.kafka_offsets import Piece
from rheostat.spark.kafka_reader import ReadSettings, read_piece

PIECE = Piece("a", 3, 10, 14)
STRICT, LENIENT = (
    ReadSettings(client=(), group="g", timeout_s=5.0, fails_on_loss=is_strict) for is_strict in (True, False)
)


class Message:
    def __init__(self, offset: int = 0, code: int | None = None) -> None:
        self._offset, self._code = offset, code

    def error(self) -> Any:
        return None if self._code is None else KafkaError(self._code)

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes:
        return b"v"

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def __len__(self) -> int:
        return 1


class Consumer:
    """Tells first that the partition is unknown; then gives records from where it was assigned.

    ``known``: what each question for partitions is answered with; the last answer holds.
    """

    def __init__(self, code: int, *known: set[int]) -> None:
        self._first: list[Message] = [Message(code=code)]
        self._known = list(known)
        self.starts: list[int] = []
        self.is_closed = False

    def assign(self, partitions: list[Any]) -> None:
        self.starts.append(partitions[0].offset)

    def unassign(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    def consume(self, many: int, timeout_s: float) -> list[Message]:
        assert timeout_s > 0
        if self._first:
            return [self._first.pop()]
        return [Message(self.starts[-1] + number) for number in range(many)]

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout > 0
        numbers = self._known.pop(0) if len(self._known) > 1 else self._known[0]
        error = None if numbers else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions=dict.fromkeys(numbers))})


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_reader, "_ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(kafka_reader, "_CONSUMERS", {})


def offsets(consumer: Consumer, settings: ReadSettings) -> list[int]:
    kafka_reader._CONSUMERS[settings.client, settings.group] = kafka_reader._Kept(consumer, Connections())  # type: ignore[arg-type]
    batches = list(read_piece(PIECE, settings))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


UNKNOWN = [KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART]


@pytest.mark.parametrize("settings", [STRICT, LENIENT], ids=["strict", "lenient"])
@pytest.mark.parametrize("code", UNKNOWN)
@pytest.mark.parametrize("known", [[{0, 1, 2, 3}], [{0, 1, 2}, set(), {0, 1, 2, 3}]], ids=["at once", "after a while"])
def test_a_partition_that_came_into_being_just_now_is_read(code: int, known: list[set[int]], settings: ReadSettings):
    consumer = Consumer(code, *known)
    assert offsets(consumer, settings) == [10, 11, 12, 13]
    assert consumer.starts == [10, 10]


@pytest.mark.parametrize("code", UNKNOWN)
@pytest.mark.parametrize("known", [{0, 1, 2}, set()], ids=["partition", "topic"])
def test_a_partition_that_the_broker_does_not_know_either_is_gone(code: int, known: set[int]):
    assert offsets(Consumer(code, known), LENIENT) == []
    consumer = Consumer(code, known)
    with pytest.raises(RheostatError, match="a-3 are lost: the partition is gone"):
        offsets(consumer, STRICT)
    assert consumer.is_closed
