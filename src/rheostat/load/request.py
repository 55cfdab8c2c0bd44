"""The options of ``rheostat load`` -> a load, with every fault at once."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from rheostat.errors import Fault, InputError, attempt, did_you_mean
from rheostat.load.curves import MOST_RECORDS, Cut, RateCurve, Scaled
from rheostat.load.files import read_traces, read_variation
from rheostat.load.payload import Payloads, PayloadSpec, RecordMaker
from rheostat.load.producer import Schedule
from rheostat.load.scenario import TOPIC_RULE, Scenario, is_topic, read_scenario
from rheostat.load.shapes import asks_apart, parse_shape
from rheostat.load.trips import DAYS_S, MILLION_RATE, TripLoad, TripPlan, file_trips, synthetic_trips

DEFAULT_SECONDS = 60.0
"""Duration of a shape without its own."""

_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_KEYS = ("user", "ip", "none")
_SINGLE = ("shape", "trace", "variation", "trips")
_KINDS = (*_SINGLE, "scenario")
_SCALES = ("time_scale", "rate_scale")
_SYNTHETIC = "synthetic"

_OWNERS: Mapping[str, tuple[str, ...]] = {
    "rate": ("shape", "trips"),
    "rate_per_level": ("variation",),
    **dict.fromkeys(_SCALES, ("trace", "variation")),
    **dict.fromkeys(("speed", "copies"), ("trips",)),
    **dict.fromkeys(("users", "ips", "skew", "click_share", "key"), _SINGLE[:3]),
    **dict.fromkeys(("topic", "partitions", "seconds"), _SINGLE),
}
"""The kinds of load for which an option has a meaning."""


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """A topic. ``partitions``: the number that it must have or is created with; None: any number."""

    bootstrap: str
    topic: str
    partitions: int | None
    create: bool


@dataclass(frozen=True, slots=True)
class LogTarget:
    """A log on disk. ``partitions`` as in :class:`KafkaTarget`."""

    folder: Path
    partitions: int | None


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A valid load. Its records are trips, click-fraud records made from ``payload``, or those of ``maker``.

    Attributes:
        application, field: of a scenario, where in its file the load stands.
    """

    curve: RateCurve
    target: KafkaTarget | LogTarget
    payload: PayloadSpec
    first_id: int
    trips: TripLoad | None = None
    maker: RecordMaker | None = None
    application: str = ""
    field: str = ""

    def records(self) -> RecordMaker:
        if self.maker is not None:
            return self.maker
        return Payloads(self.payload, self.first_id) if self.trips is None else self.trips.payloads(self.first_id)


def read_requests(**given: Any) -> list[LoadRequest]:
    """The load of each topic of a scenario; of other kinds of load the only one. See :func:`read_request`."""
    if given.get("scenario") is None:
        return [read_request(**given)]
    reader = _Reader(given)
    target, scenario, first_id = reader.read_target(), reader.read_scenario(), reader.read_whole("first_id", 0)
    if reader.faults or scenario is None:
        raise InputError(reader.faults)
    return _requests_of(scenario, target, PayloadSpec(reader.seed), first_id)


def _requests_of(
    scenario: Scenario, target: KafkaTarget | LogTarget, payload: PayloadSpec, first_id: int
) -> list[LoadRequest]:
    """Ids go on from topic to topic, so that each is there once in the scenario."""
    requests = list[LoadRequest]()
    for index, application in enumerate(scenario.applications):
        for topic, load in application.topics.items():
            own: dict[str, Any] = (
                {"topic": topic} if isinstance(target, KafkaTarget) else {"folder": target.folder / topic}
            )
            request = LoadRequest(
                curve=application.curve(topic),
                target=replace(target, partitions=load.partitions, **own),
                payload=payload,
                first_id=first_id,
                maker=load.make_records(topic, payload.seed, first_id),
                application=application.name,
                field=f"applications.{index}.topics.{topic}",
            )
            first_id += Schedule(request.curve).total
            requests.append(request)
    return requests


def read_request(**given: Any) -> LoadRequest:
    """Check everything that can be checked without a broker.

    ``given``: the options of ``rheostat load`` by name (``rate_scale``), as texts; ``create`` is a bool.

    Raises:
        InputError: with every fault; fields are the options as typed on the command line.
    """
    reader = _Reader(given)
    target, curve = reader.read_target(), reader.read_curve()
    payload, first_id = reader.read_payload(), reader.read_whole("first_id", 0)
    if reader.faults or curve is None:
        raise InputError(reader.faults)
    return LoadRequest(curve, target, payload, first_id, reader.trips)


@dataclass(frozen=True, slots=True)
class _Range:
    """Allowed values of a number; ``above``: ``low`` itself is not allowed."""

    low: float = 0.0
    high: float = math.inf
    above: bool = False
    whole: bool = False

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        low = f"{'>' if self.above else '≥'} {self.low:g}"
        return f"{kind} {low}" + (f" and ≤ {self.high:.0f}" if math.isfinite(self.high) else "")

    def read(self, text: str) -> float | None:
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            return None
        fits = math.isfinite(value) and (value > self.low if self.above else value >= self.low) and value <= self.high
        return value if fits else None


_POSITIVE = _Range(above=True)


class _Reader:
    """Reads the options one by one and collects all faults; a faulty number reads as its default."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.faults: list[Fault] = []
        self.trips: TripLoad | None = None
        self._given = defaultdict(lambda: None, given)
        self.seed = self.read_whole("seed", PayloadSpec().seed)

    def read_target(self) -> KafkaTarget | LogTarget:
        partitions = self._read_number("partitions", None, _Range(1, 10_000, whole=True))
        number = None if partitions is None else int(partitions)
        topic, bootstrap, log = (self._given[name] for name in ("topic", "bootstrap", "log"))
        if log is not None:
            for name in ("topic", "bootstrap", "create"):
                if self._given[name]:
                    message = "a load goes into Kafka or into a log, not into both"
                    self._add_fault(name, "not together with --log", message)
            if not log.strip():
                self._add_fault("log", "a folder", "name the folder of the log")
            return LogTarget(Path(log), number)
        if self._given["scenario"] is None and not is_topic(topic or ""):
            self._add_fault("topic", TOPIC_RULE, "name the topic that the load goes to (or --log FOLDER)")
        servers = "localhost:9092" if bootstrap is None else bootstrap
        ports = [_SERVER.fullmatch(server.strip()) for server in servers.split(",")]
        if not all(port is not None and 0 < int(port[1]) < 65_536 for port in ports):
            self._add_fault("bootstrap", "HOST:PORT, comma separated", "give the address of the broker")
        return KafkaTarget(servers, topic or "", number, bool(self._given["create"]))

    def read_scenario(self) -> Scenario | None:
        self._read_kind()
        return attempt(read_scenario, None, self.faults, self._given["scenario"])

    def _read_kind(self) -> str | None:
        """The kind of load; None, and a fault, if it is not one. Options without a meaning for it are faults too."""
        kinds = [name for name in _KINDS if self._given[name] is not None]
        self._check_misplaced(kinds)
        if len(kinds) == 1:
            return kinds[0]
        given = ", ".join(_option(kind) for kind in kinds) or "none of them"
        allowed = f"one of {', '.join(map(_option, _KINDS))}"
        self.faults.append(Fault("--shape", given, allowed, "give the load in exactly one way"))
        return None

    def read_curve(self) -> RateCurve | None:
        rate = self._read_number("rate", None, _Range())
        seconds = self._read_number("seconds", None, _POSITIVE)
        per_level = self._read_number("rate_per_level", None, _POSITIVE)
        kind = self._read_kind()
        if kind is None:
            return None
        try:
            if kind == "shape":
                curve = self._read_shape(rate, seconds)
            elif kind == "trips":
                curve = self._read_trips(rate, seconds)
            else:
                curve = self._read_files(kind, per_level or 1.0)
        except InputError as error:
            self.faults += [replace(fault, field=_option(fault.field)) for fault in error.faults]
            return None
        if seconds is not None and seconds != curve.duration:
            if seconds > curve.duration:
                self._add_fault("seconds", f"> 0 and ≤ {curve.duration:g}", "the load is shorter than that")
            curve = Cut(curve, seconds)
        if not curve.cumulative(curve.duration) <= MOST_RECORDS:
            self._add_fault(kind, f"at most {MOST_RECORDS:.1e} records", "the load has more records than ids exist")
        return curve

    def _check_misplaced(self, kinds: list[str]) -> None:
        for name, owners in _OWNERS.items():
            if self._given[name] is not None and kinds and not set(owners) & set(kinds):
                allowed = "with " + " or ".join(map(_option, owners))
                self._add_fault(name, allowed, f"has no meaning together with {_option(kinds[0])}")
        if kinds == ["variation"] and self._given["rate_per_level"] is None:
            message = "a level is a number of threads: give the records/s of one thread"
            self._add_fault("rate_per_level", "a number > 0", message)

    def _read_shape(self, rate: float | None, seconds: float | None) -> RateCurve:
        text, rate_given = self._given["shape"], self._given["rate"] is not None
        stand_in = 1.0 if rate_given and rate is None else rate
        curve = parse_shape(text, rate=stand_in, seconds=seconds or DEFAULT_SECONDS, seed=self.seed)
        if rate_given and not asks_apart(text)[0]:
            self._add_fault("rate", "not with a shape that has rates of its own", "the shape has its own rates")
        return curve

    def _read_files(self, kind: str, rate_per_level: float) -> RateCurve:
        """The scales are read first, so that their faults are not lost when the files have faults too."""
        time_scale, rate_scale = (self._read_number(name, 1.0, _POSITIVE) or 1.0 for name in _SCALES)
        paths = self._paths(kind)
        curve = read_traces(paths) if kind == "trace" else read_variation(paths, rate_per_level)
        return Scaled(curve, time_scale=time_scale, rate_scale=rate_scale)

    def _read_trips(self, rate: float | None, seconds: float | None) -> RateCurve:
        speed = self._read_number("speed", 1.0, _POSITIVE) or 1.0
        copies = self.read_whole("copies", 1, 1, 1_000)
        if self._given["trips"].strip() == _SYNTHETIC:
            city_rate = MILLION_RATE if rate is None else rate / speed / copies
            self.trips = synthetic_trips(TripPlan(city_rate, seconds or DAYS_S / speed, speed, copies, self.seed))
        else:
            if rate is not None:
                self._add_fault("rate", f"with --trips {_SYNTHETIC}", "a file has its own times; use --speed instead")
            if self._given["seed"] is not None:
                self._add_fault("seed", f"with --trips {_SYNTHETIC}", "trips from a file are not random")
            self.trips = file_trips(self._paths("trips"), speed, copies)
        return self.trips.arrivals

    def read_payload(self) -> PayloadSpec:
        default, key = PayloadSpec(), self._given["key"] or "user"
        if key not in _KEYS:
            message = "records are keyed by user, by ip, or not at all" + did_you_mean(key, _KEYS)
            self._add_fault("key", ", ".join(_KEYS), message)
        return PayloadSpec(
            seed=self.seed,
            users=self.read_whole("users", default.users, 1, 10_000_000),
            ips=self.read_whole("ips", default.ips, 1, 2**24),
            skew=self._read_number("skew", default.skew, _Range(0, 10)) or 0.0,
            click_share=self._read_number("click_share", default.click_share, _Range(0, 1)) or 0.0,
            key=cast('Literal["user", "ip", "none"]', key),
        )

    def read_whole(self, name: str, default: int, low: int = 0, high: float = 2**62) -> int:
        return int(self._read_number(name, default, _Range(low, high, whole=True)) or default)

    def _read_number(self, name: str, default: float | None, allowed: _Range) -> float | None:
        text = self._given[name]
        value = default if text is None else allowed.read(text.strip())
        if value is None and text is not None:
            self._add_fault(name, str(allowed), f"{text!r} is not allowed")
            return default
        return value

    def _paths(self, name: str) -> list[Path]:
        return [Path(piece.strip()) for piece in self._given[name].split(",") if piece.strip()]

    def _add_fault(self, name: str, allowed: str, message: str) -> None:
        given = self._given[name]
        self.faults.append(Fault(_option(name), "nothing" if given is None else repr(given), allowed, message))


def _option(name: str) -> str:
    return name if name.startswith("--") else "--" + name.replace("_", "-")
