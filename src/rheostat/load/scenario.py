"""Scenarios: applications that start and stop, each with its topics and their rates, in one file (S3's injector).

::

    {"applications": [{"name": "taxi", "start_s": 0, "stop_s": 300, "topics": {
        "drives-1": {"partitions": 2, "records": "drives.txt", "rates": [{"at_s": 0, "rate": 100}]},
        "drives-2": {"partitions": 2, "payload": "trips", "rates": [{"at_s": 0, "rate": 50}, {"at_s": 60, "rate": 400}]}
    }}]}

The records of a topic are lines of a file, or generated; both are drawn at random from a seed and the topic's name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from rheostat.config.faults import validate
from rheostat.config.loading import read_document
from rheostat.config.models import FrozenModel, quantity, raise_faults, tuples_of_lists
from rheostat.errors import Fault
from rheostat.files import read_text, reason_of
from rheostat.load.curves import Pieces, levels
from rheostat.load.payload import Payloads, PayloadSpec, RecordMaker, Records
from rheostat.load.trips import DAYS_S, TripPlan, synthetic_trips

if TYPE_CHECKING:
    from numpy.random import Generator

TOPIC_RULE = "1 to 249 letters, digits, dots, underscores and hyphens"

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TIME = quantity("s", ge=0, le=31_536_000)
_MAX_BYTES = 64 * 2**20
_BLOCK = 4096
_TRIPS = 10_000


def is_topic(name: str) -> bool:
    """Whether Kafka takes it as the name of a topic."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def _read_lines(given: Any, info: ValidationInfo) -> Any:
    """The lines of a record file that are not blank; its name is relative to the folder of the scenario."""
    if given is None:
        return None
    try:
        text = read_text((info.context or Path()) / str(given), _MAX_BYTES, "utf-8-sig")
        lines = tuple(line for line in text.split("\n") if line.strip())
        message = "" if lines else "there is no record in it"
    except (OSError, ValueError) as error:
        lines, message = (), f"the file cannot be read: {reason_of(error)}"
    if message:
        raise_faults(Fault("", repr(given), "a text file with a record on each line", message))
    return lines


def _check_not_empty(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Unlike a least length, it does not count what is there and wrong as missing."""
    if not given:
        raise_faults(Fault("", "[]", "at least one", "the list is empty"))
    return given


class RateStep(FrozenModel):
    """A rate, from a time on until the next step or the stop of the application."""

    at_s: Annotated[float, _TIME]
    """Since the start of the application."""
    rate: Annotated[float, quantity("records/s", ge=0, le=1e9)]
    """0: a pause."""


class TopicLoad(FrozenModel):
    """What is produced into a topic."""

    partitions: Annotated[int | None, quantity("partitions", ge=1, le=10_000)] = None
    """The number that the topic must have or is created with; null: any number, 8 for a new topic."""
    payload: Literal["clicks", "trips", "points"] | None = None
    """Generated records: clicks of :mod:`~rheostat.load.payload`, taxi trips, or points ``{"id", "x", "y", "z",
    "timestamp"}`` in the unit cube. null, without ``records``: clicks."""
    records: Annotated[tuple[str, ...] | None, BeforeValidator(_read_lines)] = None
    """In the file its name; here its lines that are not blank. Each record is one of them, as it is."""
    rates: Annotated[tuple[RateStep, ...], AfterValidator(_check_not_empty)]
    """In the order of their times. Before the first one nothing is produced."""

    _lists = field_validator("rates", mode="before")(tuples_of_lists)

    @field_validator("rates")
    @classmethod
    def _ascending(cls, given: tuple[RateStep, ...]) -> tuple[RateStep, ...]:
        raise_faults(
            *(
                Fault(f"{index}.at_s", f"{step.at_s:g}", f"> {before.at_s:g}", "it does not come after the step before")
                for index, (before, step) in enumerate(pairwise(given), 1)
                if step.at_s <= before.at_s
            )
        )
        return given

    def make_records(self, topic: str, seed: int, first_id: int = 0) -> RecordMaker:
        """What makes the records. Each but a line of a file has its ``id`` and when it was produced, ``timestamp``."""
        own = zlib.crc32(f"{seed} {topic}".encode())
        if self.records is not None:
            return DrawnRecords(partial(_draw_lines, self.records), own, first_id, whole=True)
        if self.payload == "points":
            return DrawnRecords(_draw_points, own, first_id)
        if self.payload == "trips":
            trips = synthetic_trips(TripPlan(rate=_TRIPS / DAYS_S, seed=own))
            return DrawnRecords(partial(_draw_lines, tuple(trips.bodies())), own, first_id)
        return Payloads(PayloadSpec(seed=own), first_id)


class Application(FrozenModel):
    """Topics that are produced from the same time to the same time."""

    name: Annotated[str, Field(min_length=1)]
    start_s: Annotated[float, _TIME] = 0.0
    """Since the start of the scenario."""
    stop_s: Annotated[float, _TIME]
    """Likewise; steps of the rates after it are not reached."""
    topics: Annotated[dict[str, TopicLoad], Field(min_length=1)]

    @field_validator("stop_s")
    @classmethod
    def _after_start(cls, given: float, info: ValidationInfo) -> float:
        start_s = info.data.get("start_s", 0.0)
        if given <= start_s:
            raise_faults(Fault("", f"{given:g}", f"> start_s ({start_s:g})", "the application stops before it starts"))
        return given

    @field_validator("topics")
    @classmethod
    def _begin_in_time(cls, given: dict[str, TopicLoad], info: ValidationInfo) -> dict[str, TopicLoad]:
        lasts_s = info.data["stop_s"] - info.data["start_s"] if info.data.keys() >= {"start_s", "stop_s"} else inf
        late = {topic: load.rates[0].at_s for topic, load in given.items() if load.rates[0].at_s >= lasts_s}
        text = "the application stops before the first record"
        raise_faults(
            *(Fault(f"{name}.rates.0.at_s", f"{at_s:g}", f"< {lasts_s:g}", text) for name, at_s in late.items())
        )
        return given

    def curve(self, topic: str) -> Pieces:
        """Records/s of a topic, from the start of the scenario to the stop of the application."""
        steps = {self.start_s + step.at_s: step.rate for step in self.topics[topic].rates}
        rates = {at: rate for at, rate in ({0.0: 0.0} | steps).items() if at < self.stop_s}
        return levels([*rates, self.stop_s], list(rates.values()))


class Scenario(FrozenModel):
    """A scenario, checked."""

    applications: Annotated[tuple[Application, ...], AfterValidator(_check_not_empty)]

    _lists = field_validator("applications", mode="before")(tuples_of_lists)

    def curves(self) -> dict[str, Pieces]:
        """Records/s of each topic, for a producer or a simulation; 0 before the start of its application."""
        return {topic: each.curve(topic) for each in self.applications for topic in each.topics}


def read_scenario(path: str | Path) -> Scenario:
    """Read a scenario from a JSON or YAML file, with the files that it names.

    Raises:
        InputError: every fault, fields as dotted keys (``applications.0.topics.drives-1.rates.1.at_s``): unknown keys,
            values out of range, times out of order, a record file without records, a topic that is there twice.
    """
    document, faults = read_document(path)
    return validate(Scenario, document, [*faults, *_check_topics(document)], Path(path).parent)


def _check_topics(document: Mapping[str, Any]) -> Iterator[Fault]:
    """What a single topic does not show; of a document of any form."""
    used = dict[str, str]()
    applications = document.get("applications")
    for index, application in enumerate(applications if isinstance(applications, list) else ()):
        topics = application.get("topics") if isinstance(application, dict) else None
        for topic, load in topics.items() if isinstance(topics, dict) else ():
            field = f"applications.{index}.topics.{topic}"
            if not is_topic(topic):
                yield Fault(field, repr(topic), TOPIC_RULE, "it is no name of a topic")
            elif topic in used:
                yield Fault(field, topic, "each topic once", f"{used[topic]} is the same topic")
            used.setdefault(topic, field)
            if isinstance(load, dict) and load.get("records") is not None and load.get("payload") is not None:
                message = "the records of a topic are lines of a file or generated, not both"
                yield Fault(f"{field}.payload", repr(load["payload"]), "one of records, payload", message)


# Records


class DrawnRecords:
    """Records whose content is drawn in blocks of 4096: that of record k depends on the seed and on k alone.

    Args:
        draw: the content of so many records.
        seed: ≥ 0.
        first_id: of the first record.
        whole: whether the content is the record; else it is fields of JSON, put between ``id`` and ``timestamp``.
    """

    def __init__(
        self, draw: Callable[[Generator, int], list[str]], seed: int, first_id: int = 0, *, whole: bool = False
    ) -> None:
        self.first_id = first_id
        self._draw, self._seed, self._whole = draw, seed, whole
        self._block = lru_cache(maxsize=2)(self._draw_block)
        self._block(0)

    def make(self, begin: int, count: int, timestamp: float) -> Records:
        """See :class:`~rheostat.load.payload.RecordMaker`. Without keys."""
        drawn = [self._block(number // _BLOCK)[number % _BLOCK] for number in range(begin, begin + count)]
        first = self.first_id + begin
        if not self._whole:
            tail = f',"timestamp":{timestamp:.3f}}}'
            drawn = [f'{{"id":{number},{fields}{tail}' for number, fields in enumerate(drawn, first)]
        return Records(first, drawn, None)

    def _draw_block(self, number: int) -> list[str]:
        import numpy as np

        return self._draw(np.random.default_rng([self._seed, number]), _BLOCK)


def _draw_lines(lines: tuple[str, ...], random: Generator, count: int) -> list[str]:
    return [lines[index] for index in random.integers(len(lines), size=count).tolist()]


def _draw_points(random: Generator, count: int) -> list[str]:
    return [f'"x":{x!r},"y":{y!r},"z":{z!r}' for x, y, z in random.random((count, 3)).tolist()]
