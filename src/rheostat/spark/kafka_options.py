"""Options of the source ``rheostat-kafka``: names and meanings of Spark's own Kafka source, checked all at once.

No Spark here, and no connection to Kafka. The reference is
https://spark.apache.org/docs/latest/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from rheostat.errors import Fault, InputError, attempt, did_you_mean
from rheostat.spark.kafka_admin import Place, Subscription, subscription
from rheostat.spark.kafka_client import client_settings
from rheostat.spark.kafka_consumer import check_client

FORMAT = "rheostat-kafka"

EARLIEST, LATEST = -2, -1
"""Offsets that stand for the first record and for the one to come, as Spark writes them."""

_NAMES = (
    "assign",
    "edge",
    "edges",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "orders",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "valued",
)
_BY_LOWER = {name.lower(): name for name in _NAMES}
_ENDING = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
_DELAY_S = 15 * 60.0
_POLL_TIMEOUT_S = 120.0
_GROUP = "rheostat-kafka-source"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends.

    Attributes:
        kind: ``earliest`` or ``latest`` of every partition; the ``offsets`` or ``timestamps`` of those named in
            ``values``; one ``timestamp`` for all.
        values: offsets (also :data:`EARLIEST`, :data:`LATEST`) or timestamps, ms.
        timestamp: ms.
        else_latest: a partition without a record as late begins at its end; otherwise this is an error.
    """

    kind: Literal["earliest", "latest", "offsets", "timestamps", "timestamp"]
    values: Mapping[Place, int] = field(default_factory=dict)
    timestamp: int | None = None
    else_latest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """Options of the source, checked.

    Attributes:
        client: settings of librdkafka.
        starting: where a query without a checkpoint begins.
        ending: where a batch query ends.
        cap: the most records of a batch; ``least``: the fewest, unless ``longest_wait_s`` have passed since the last.
        least_tasks, most_task_records: in how many tasks a batch is read at least, and the most records of one.
        fails_on_loss: whether records that are gone fail the query; otherwise they are skipped.
        has_headers: whether there is a column of headers.
        poll_timeout_s: how long a task waits for a record.
        group_prefix: of the consumers' group, which commits nothing.
        orders: file with the orders of the controller; None: there are none.
        edge: at which the reader drops records; None: at none.
        edges: later ones.
        valued: those of them that drop by value.
    """

    subscription: Subscription
    client: Mapping[str, str]
    starting: Bound
    ending: Bound
    cap: int | None = None
    least: int | None = None
    longest_wait_s: float = _DELAY_S
    least_tasks: int | None = None
    most_task_records: int | None = None
    fails_on_loss: bool = True
    has_headers: bool = False
    poll_timeout_s: float = _POLL_TIMEOUT_S
    group_prefix: str = _GROUP
    orders: str | None = None
    edge: str | None = None
    edges: tuple[str, ...] = ()
    valued: tuple[str, ...] = ()

    @property
    def limited_edges(self) -> tuple[str, ...]:
        """Those whose limits stand in the column ``rheostat``; without any there is no such column."""
        return self.edges if self.edge is None else (self.edge, *self.edges)


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_kafka_options(options: Mapping[str, str], *, streaming: bool) -> KafkaOptions:
    """Check the options of the source; their names are not case-sensitive.

    Raises:
        InputError: every fault: an option that is unknown or faulty, one that is refused, none that says what is read.
    """
    given = _Given(options, streaming=streaming)
    faults = given.faults
    client: Mapping[str, str] = attempt(client_settings, {}, faults, options)
    attempt(check_client, None, faults, client)
    parsed = KafkaOptions(
        subscription=_read_subscription(given, options),
        client=client,
        starting=_read_starting(given),
        ending=_read_ending(given),
        cap=given.read("maxOffsetsPerTrigger", _count, "an integer ≥ 1"),
        least=given.read("minOffsetsPerTrigger", _count, "an integer ≥ 1"),
        longest_wait_s=given.read("maxTriggerDelay", _delay, "a time such as 90s, 15m or 1h") or _DELAY_S,
        least_tasks=given.read("minPartitions", _count, "an integer ≥ 1"),
        most_task_records=given.read("maxRecordsPerPartition", _count, "an integer ≥ 1"),
        fails_on_loss=given.read("failOnDataLoss", _truth, "true, false") is not False,
        has_headers=given.read("includeHeaders", _truth, "true, false") is True,
        poll_timeout_s=given.read("kafkaConsumer.pollTimeoutMs", _milliseconds, "milliseconds ≥ 1") or _POLL_TIMEOUT_S,
        group_prefix=given.values.get("groupIdPrefix", _GROUP),
        orders=given.values.get("orders"),
        edge=given.values.get("edge") or None,
        edges=_names_in(given.values.get("edges", "")),
        valued=_names_in(given.values.get("valued", "")),
    )
    if parsed.cap is not None and parsed.least is not None and parsed.least > parsed.cap:
        allowed = f"at most maxOffsetsPerTrigger, {parsed.cap}"
        faults.append(Fault("minOffsetsPerTrigger", str(parsed.least), allowed, "no batch could be large enough"))
    if faults:
        raise InputError(faults)
    return parsed


class _Given:
    """The options that are not of Kafka's client, by their names, and the faults found so far."""

    def __init__(self, options: Mapping[str, str], *, streaming: bool) -> None:
        self.streaming = streaming
        self.values: dict[str, str] = {}
        self.faults: list[Fault] = []
        for key, value in options.items():
            name = _BY_LOWER.get(key.lower())
            if name is not None:
                self.values[name] = str(value).strip()
            elif not key.lower().startswith("kafka."):
                message = f"the source has no such option{did_you_mean(key, _NAMES)}"
                self.faults.append(Fault("options", key, ", ".join(_NAMES), message))  # the value may be a secret

    def read(self, name: str, parse: Callable[[str], T], allowed: str) -> T | None:
        """A value that is given and right."""
        text = self.values.get(name)
        if text is None:
            return None
        try:
            return parse(text)
        except (ValueError, TypeError, AttributeError, re.error):
            self.faults.append(Fault(name, text, allowed, "the value is not understood"))
            return None


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(text)
    return int(text)


def _milliseconds(text: str) -> float:
    return _count(text) / 1000


def _truth(text: str) -> bool:
    return text.lower() == "true" if text.lower() in ("true", "false") else _refuse(text)


def _refuse(text: str) -> Any:
    raise ValueError(text)


_TIME_UNITS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(rf"(?P<number>\d+)(?P<unit>{'|'.join(_TIME_UNITS)})?")


def spark_seconds(text: str) -> float | None:
    """A time as Spark writes it, ms without a unit; None: not understood.

    >>> [spark_seconds(each) for each in ("15m", "90 s", "250", "1.5m")]
    [900.0, None, 0.25, None]
    """
    match = _TIME.fullmatch(text.strip().lower())
    return int(match["number"]) * _TIME_UNITS[match["unit"] or "ms"] if match else None


def _delay(text: str) -> float:
    seconds = spark_seconds(text)
    return _refuse(text) if seconds is None else seconds


def _read_subscription(given: _Given, options: Mapping[str, str]) -> Subscription:
    found = [name for name in _SUBSCRIPTIONS if name in given.values]
    if len(found) != 1:
        message = "say what is read, in one way"
        given.faults.append(Fault("subscribe", ", ".join(found) or "nothing", " or ".join(_SUBSCRIPTIONS), message))
        return Subscription()
    (name,) = found
    allowed = {
        "subscribe": "topics, comma separated",
        "subscribePattern": "a regular expression",
        "assign": '{"topic": [0, 1], …}',
    }[name]

    def parse(_: str) -> Subscription:
        read = subscription(options)
        if not (read.topics or read.pattern or read.assigned):
            raise ValueError(name)
        if read.pattern is not None:
            re.compile(read.pattern)
        return read

    return given.read(name, parse, allowed) or Subscription()


def _read_starting(given: _Given) -> Bound:
    """Of three ways to say it the first that is given counts, as with Spark."""
    strategy = given.values.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        message = "what to do with a partition that has no record as late"
        given.faults.append(Fault("startingOffsetsByTimestampStrategy", strategy, "error, latest", message))
    return _read_bound(given, "starting", "latest" if given.streaming else "earliest", else_latest=strategy == "latest")


def _read_ending(given: _Given) -> Bound:
    if given.streaming:
        message = "a stream has no end; it is for batch queries"
        given.faults += [
            Fault(name, given.values[name], "nothing", message) for name in _ENDING if name in given.values
        ]
        return Bound("latest")
    return _read_bound(given, "ending", "latest", else_latest=True)


def _read_bound(given: _Given, side: str, default: Literal["earliest", "latest"], *, else_latest: bool) -> Bound:
    everywhere = given.read(f"{side}Timestamp", _timestamp, "milliseconds ≥ 0")
    by_partition = given.read(f"{side}OffsetsByTimestamp", _timestamps, '{"topic": {"0": milliseconds, …}, …}')
    named = given.read(f"{side}Offsets", lambda text: _offsets(given, side, text), _allowed_offsets(given, side))
    if everywhere is not None:
        return Bound("timestamp", timestamp=everywhere, else_latest=else_latest)
    if by_partition is not None:
        return Bound("timestamps", by_partition, else_latest=else_latest)
    return named or Bound(default)


def _timestamp(text: str) -> int:
    return int(text) if text.isdecimal() else _refuse(text)


def _timestamps(text: str) -> dict[Place, int]:
    values = _by_partition(text)
    return values if all(value >= 0 for value in values.values()) else _refuse(text)


def _allowed_offsets(given: _Given, side: str) -> str:
    whole = "earliest, latest" if given.streaming else ("earliest" if side == "starting" else "latest")
    return f'{whole}, or {{"topic": {{"0": offset, …}}, …}}'


def _offsets(given: _Given, side: str, text: str) -> Bound:
    word = text.lower()
    if word == "earliest" and side == "starting":
        return Bound("earliest")
    if word == "latest" and (given.streaming or side == "ending"):
        return Bound("latest")
    values = _by_partition(text)
    least = EARLIEST if side == "starting" else LATEST
    has_latest = LATEST in values.values() and side == "starting" and not given.streaming
    return Bound("offsets", values) if min(values.values()) >= least and not has_latest else _refuse(text)


def _by_partition(text: str) -> dict[Place, int]:
    """``{"topic": {"0": 23, "1": -1}}``; Raises ValueError for anything else, also for nothing."""
    topics = json.loads(text)
    found = {(topic, int(number)): value for topic, numbers in topics.items() for number, value in numbers.items()}
    valid = found and all(isinstance(value, int) and not isinstance(value, bool) for value in found.values())
    return found if valid else _refuse(text)
