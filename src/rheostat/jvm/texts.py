"""What the driver's JVM says as text, read into values. Pure; the formats are those of Spark 4.0 to 4.2.

One text in one round trip is cheaper than many objects, each with calls of its own. Every function raises ValueError
for a text that it does not understand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "Run",
    "TopicPartition",
    "Trigger",
    "cleanup_policies",
    "failure_text",
    "listed_offsets",
    "offset_seq",
    "runs",
    "topic_partitions",
    "topics_listed",
    "trigger",
]


class Run(NamedTuple):
    """One run of a streaming query."""

    query_id: str
    run_id: str


class TopicPartition(NamedTuple):
    """One partition of a Kafka topic."""

    topic: str
    partition: int


class Trigger(NamedTuple):
    """When batches start.

    Attributes:
        kind: ``"processing"``, ``"once"``, ``"available-now"``, ``"continuous"``, ``"real-time"`` or ``"unknown"``.
        interval_s: for a processing-time trigger; 0: as soon as possible. None for the others.
    """

    kind: str
    interval_s: float | None


_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_RUN = re.compile(rf"\[id = (?P<id>{_UUID}), runId = (?P<run>{_UUID})\] \[state = (?P<state>\w+)\]")
_TRIGGER = re.compile(r"(?P<name>\w+?)Trigger\$?(?:\((?P<ms>\d+).*\))?")
_KINDS = {
    "ProcessingTime": "processing",
    "OneTime": "once",
    "AvailableNow": "available-now",
    "Continuous": "continuous",
    "RealTime": "real-time",
}
_LISTED = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+), ")
_DESCRIBED = re.compile(r"\(name=(?P<topic>[\w.-]+), internal=|\(partition=(?P<partition>\d+), ")
_CLEANUP = re.compile(r"type=TOPIC, name='(?P<topic>[\w.-]+)'|name=cleanup\.policy, value=(?P<policy>[\w,]*), ")
_ENDED = re.compile(r"^\s*\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
_LONGEST_FAILURE = 300


def runs(text: str) -> tuple[Run, ...]:
    """The runs in the text of Spark's map of active queries, without those that have terminated.

    >>> runs("{}")
    ()
    """
    found = list(_RUN.finditer(text))
    if len(found) < text.count("[state = ") or not text.startswith("{"):
        message = f"not understood as a map of queries: {text[:200]}"
        raise ValueError(message)
    return tuple(Run(match["id"], match["run"]) for match in found if match["state"] != "TERMINATED")


def trigger(text: str) -> Trigger:
    """Spark's text of a trigger.

    >>> trigger("ProcessingTimeTrigger(2000)")
    Trigger(kind='processing', interval_s=2.0)
    """
    match = _TRIGGER.fullmatch(text)
    kind = _KINDS.get(match["name"], "unknown") if match else "unknown"
    if match is None or kind != "processing" or match["ms"] is None:
        return Trigger(kind, None)
    return Trigger(kind, int(match["ms"]) / 1000)


def offset_seq(text: str) -> tuple[object, ...]:
    """The offsets of a query, one for each source in the order of the sources; None where there is none yet.

    >>> offset_seq('[{"orders": {"0": 15}}, -]')
    ({'orders': {'0': 15}}, None)
    """
    decoder = json.JSONDecoder()
    offsets: list[object] = []
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] == "-" and text[at + 1] in ",]":
            offset, at = None, at + 1
        else:
            offset, at = decoder.raw_decode(text, at)
        offsets.append(offset)
        at += len(", ")
    if not (text.startswith("[") and text.endswith("]")):
        message = f"not understood as the offsets of a query: {text[:200]}"
        raise ValueError(message)
    return tuple(offsets)


def listed_offsets(text: str, expected: int) -> Mapping[tuple[str, int], int]:
    """The answer of Kafka's admin client to ``listOffsets``, which must speak of ``expected`` partitions.

    >>> listed_offsets("{a-b-0=ListOffsetsResultInfo(offset=7, timestamp=-1, leaderEpoch=Optional[0])}", 1)
    {('a-b', 0): 7}
    """
    offsets = {(topic, int(number)): int(offset) for topic, number, offset in _LISTED.findall(text)}
    if len(offsets) != expected:
        message = f"offsets of {expected} partitions were asked for, {len(offsets)} were understood: {text[:200]}"
        raise ValueError(message)
    return offsets


def topic_partitions(text: str) -> tuple[TopicPartition, ...]:
    """The partitions in the answer to ``describeTopics``, sorted."""
    found: list[TopicPartition] = []
    topic: str | None = None
    for match in _DESCRIBED.finditer(text):
        if match["topic"] is not None:
            topic = match["topic"]
        elif topic is not None:
            found.append(TopicPartition(topic, int(match["partition"])))
    return tuple(sorted(found))


def topics_listed(text: str) -> tuple[str, ...]:
    """The names in the text of a set of topics, sorted.

    >>> topics_listed("[payments, orders]")
    ('orders', 'payments')
    """
    return tuple(sorted(name for name in text.strip("[]").split(", ") if name))


def cleanup_policies(text: str) -> Mapping[str, str]:
    """``cleanup.policy`` of each topic in the answer to ``describeConfigs``."""
    found: dict[str, str] = {}
    topic: str | None = None
    for match in _CLEANUP.finditer(text):
        if match["topic"] is not None:
            topic = match["topic"]
        elif topic is not None:
            found[topic] = match["policy"]
    return found


def failure_text(message: str) -> str:
    """What ended a query, in one line: Spark's message without the plan, of a Python traceback its last line alone.

    >>> failure_text("[STREAM_FAILED] Query [id = …] terminated with exception: No room === Streaming Query === …")
    'No room'
    """
    head = message.split("=== Streaming Query ===", maxsplit=1)[0]
    told, found, traceback = _ENDED.sub("", head).partition("An exception was raised by the Python Proxy")
    if found:
        lines = [line.strip() for line in traceback.splitlines() if line.strip()]
        said = [line for line in lines if not line.startswith(("SQLSTATE", "at ", "File ", "^"))]
        told += said[-1] if said else ""
    line = " ".join(told.split())
    return line if len(line) <= _LONGEST_FAILURE else f"{line[: _LONGEST_FAILURE - 1]}…"
