"""What a load is asked to be, read from texts, with every fault at once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, cast

from rheostat.errors import Fault, InputError, did_you_mean
from rheostat.load.curves import MOST_RECORDS, Cut, RateCurve, Scaled
from rheostat.load.files import read_traces, read_variation
from rheostat.load.payload import PayloadSpec
from rheostat.load.shapes import asks_apart, read_shape
from rheostat.load.trip_files import file_trips
from rheostat.load.trips import DAYS_S, MILLION_RATE, TripLoad, TripPlan, synthetic_trips

DEFAULT_SECONDS = 60.0
"""How long a shape lasts that does not say so."""

_BOOTSTRAP = "localhost:9092"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_KEYS = ("user", "ip", "none")
_KINDS = ("shape", "trace", "variation", "trips")
_SYNTHETIC = "synthetic"
_MOST_PARTITIONS = 10_000
_MOST_COPIES = 1_000


@dataclass(frozen=True, slots=True)
class LoadTexts:
    """The options of ``rheostat load`` as they were typed; None where nothing was."""

    topic: str | None = None
    bootstrap: str | None = None
    log: str | None = None
    partitions: str | None = None
    create: bool = False
    shape: str | None = None
    rate: str | None = None
    seconds: str | None = None
    trace: str | None = None
    variation: str | None = None
    rate_per_level: str | None = None
    trips: str | None = None
    speed: str | None = None
    copies: str | None = None
    time_scale: str | None = None
    rate_scale: str | None = None
    seed: str | None = None
    first_id: str | None = None
    users: str | None = None
    ips: str | None = None
    skew: str | None = None
    click_share: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """A topic. ``partitions``: how many it has or is to have; None: any number."""

    bootstrap: str
    topic: str
    partitions: int | None
    create: bool


@dataclass(frozen=True, slots=True)
class LogTarget:
    """A log on disk. ``partitions``: how many it has or is to have; None: any number."""

    folder: Path
    partitions: int | None


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A load that can be run. Its records are trips, or click-fraud records as ``payload`` says."""

    curve: RateCurve
    target: KafkaTarget | LogTarget
    payload: PayloadSpec
    first_id: int
    trips: TripLoad | None = None


def read_request(texts: LoadTexts) -> LoadRequest:
    """Check everything that can be checked without a broker.

    Raises:
        InputError: with every fault; fields are the options as typed on the command line.
    """
    reader = _Reader(texts)
    target, curve = reader.target(), reader.curve()
    payload, first_id = reader.payload(), reader.whole("first_id", 0)
    reader.countable(curve)
    if reader.faults or curve is None or target is None:
        raise InputError(reader.faults)
    return LoadRequest(curve, target, payload, first_id, reader.trips)


@dataclass(frozen=True, slots=True)
class _Range:
    """What a number may be."""

    low: float = 0.0
    high: float = math.inf
    above: bool = False
    whole: bool = False

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        low = f"{'>' if self.above else '≥'} {self.low:g}"
        return f"{kind} {low}" + (f" and ≤ {self.high:.0f}" if math.isfinite(self.high) else "")

    def read(self, text: str) -> float | None:
        """The number, or None if it is none, or out of range."""
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            return None
        fits = math.isfinite(value) and (value > self.low if self.above else value >= self.low) and value <= self.high
        return value if fits else None


class _Reader:
    """Reads the options one by one and goes on after a fault; a faulty number reads as its default."""

    def __init__(self, texts: LoadTexts) -> None:
        self.faults: list[Fault] = []
        self.trips: TripLoad | None = None
        self._given = {item.name: getattr(texts, item.name) for item in fields(texts)}
        self._seed = self.whole("seed", PayloadSpec().seed)

    def whole(self, name: str, default: int, low: int = 0, high: float = 2**62) -> int:
        """A whole number within limits."""
        return int(self._number(name, default, _Range(low, high, whole=True)) or default)

    def target(self) -> KafkaTarget | LogTarget | None:
        """Where the load goes."""
        partitions = self._number("partitions", None, _Range(1, _MOST_PARTITIONS, whole=True))
        number = None if partitions is None else int(partitions)
        if self._given["log"] is None:
            return self._kafka(number)
        for name in ("topic", "bootstrap", "create"):
            if self._given[name]:
                self._fault(name, "not together with --log", "a load goes into Kafka or into a log, not into both")
        if not self._given["log"].strip():
            self._fault("log", "a folder", "say where the log is to be")
        return LogTarget(Path(self._given["log"]), number)

    def curve(self) -> RateCurve | None:
        """The load itself."""
        kinds = [name for name in _KINDS if self._given[name] is not None]
        rate = self._number("rate", None, _Range())
        seconds = self._number("seconds", None, _Range(above=True))
        per_level = self._number("rate_per_level", None, _Range(above=True))
        self._misplaced(kinds)
        if len(kinds) != 1:
            given = ", ".join(_option(kind) for kind in kinds) or "none of them"
            message = "say what the load is, in one way"
            self.faults.append(Fault("--shape", given, f"one of {', '.join(map(_option, _KINDS))}", message))
            return None
        sources: Mapping[str, Callable[[], RateCurve | None]] = {
            "shape": lambda: self._shape(rate, seconds),
            "trace": lambda: self._files(lambda: read_traces(self._paths("trace"))),
            "variation": lambda: self._files(lambda: read_variation(self._paths("variation"), per_level or 1.0)),
            "trips": lambda: self._trips(rate, seconds),
        }
        try:
            curve = sources[kinds[0]]()
        except InputError as error:
            self.faults += [Fault(_option(f.field), f.given, f.allowed, f.message) for f in error.faults]
            curve = None
        return self._played(curve, seconds)

    def countable(self, curve: RateCurve | None) -> None:
        """A load whose records cannot be numbered is a fault."""
        if curve is not None and not curve.cumulative(curve.duration) <= MOST_RECORDS:
            kind = next(name for name in _KINDS if self._given[name] is not None)
            self._fault(kind, f"at most {MOST_RECORDS:.1e} records", "these are more records than there are numbers")

    def payload(self) -> PayloadSpec:
        """What the records say."""
        plain, key = PayloadSpec(), self._given["key"] or "user"
        if key not in _KEYS:
            message = f"records are keyed by user, by ip, or not at all{did_you_mean(key, _KEYS)}"
            self._fault("key", ", ".join(_KEYS), message)
        return PayloadSpec(
            seed=self._seed,
            users=self.whole("users", plain.users, 1, 10_000_000),
            ips=self.whole("ips", plain.ips, 1, 2**24),
            skew=self._number("skew", plain.skew, _Range(0, 10)) or 0.0,
            click_share=self._number("click_share", plain.click_share, _Range(0, 1)) or 0.0,
            key=cast('Literal["user", "ip", "none"]', key),
        )

    def _kafka(self, partitions: int | None) -> KafkaTarget:
        topic, bootstrap = self._given["topic"], self._given["bootstrap"]
        servers = _BOOTSTRAP if bootstrap is None else bootstrap
        if not topic or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            allowed = "1 to 249 letters, digits, dots, underscores and hyphens"
            self._fault("topic", allowed, "say which topic the load goes to (or --log FOLDER)")
        ports = [_SERVER.fullmatch(server.strip()) for server in servers.split(",")]
        if not all(port is not None and 0 < int(port[1]) < 65_536 for port in ports):
            self._fault("bootstrap", "HOST:PORT, comma separated", "say where the broker answers")
        return KafkaTarget(servers, topic or "", partitions, bool(self._given["create"]))

    def _shape(self, rate: float | None, seconds: float | None) -> RateCurve | None:
        text = self._given["shape"]
        stand_in = 1.0 if self._given["rate"] is not None else None
        curve, faults = read_shape(text, rate if rate is not None else stand_in, seconds or DEFAULT_SECONDS, self._seed)
        self.faults += [Fault(_option(fault.field), fault.given, fault.allowed, fault.message) for fault in faults]
        if curve is not None and self._given["rate"] is not None and not asks_apart(text)[0]:
            self._fault("rate", "not with a shape that says its rates", "the shape says its own rates already")
        return curve

    def _files(self, read: Callable[[], RateCurve]) -> RateCurve:
        """A load from files, with its scales; they are read first, so that their faults are not lost."""
        time_scale = self._number("time_scale", 1.0, _Range(above=True))
        rate_scale = self._number("rate_scale", 1.0, _Range(above=True))
        return Scaled(read(), time_scale=time_scale or 1.0, rate_scale=rate_scale or 1.0)

    def _trips(self, rate: float | None, seconds: float | None) -> RateCurve:
        """Trips, made or read; they are kept for their records."""
        speed = self._number("speed", 1.0, _Range(above=True)) or 1.0
        copies = self.whole("copies", 1, 1, _MOST_COPIES)
        if self._given["trips"].strip() == _SYNTHETIC:
            city_rate = MILLION_RATE if rate is None else rate / speed / copies
            self.trips = synthetic_trips(TripPlan(city_rate, seconds or DAYS_S / speed, speed, copies, self._seed))
        else:
            if rate is not None:
                self._fault("rate", f"with --trips {_SYNTHETIC}", "a file says its own times; --speed plays it faster")
            if self._given["seed"] is not None:
                self._fault("seed", f"with --trips {_SYNTHETIC}", "in trips from a file nothing is left to chance")
            self.trips = file_trips(self._paths("trips"), speed, copies)
        return self.trips.arrivals

    def _played(self, curve: RateCurve | None, seconds: float | None) -> RateCurve | None:
        if curve is None or seconds is None or seconds == curve.duration:
            return curve
        if seconds > curve.duration:
            self._fault("seconds", f"> 0 and ≤ {curve.duration:g}", "the load lasts no longer than that")
        return Cut(curve, seconds)

    def _misplaced(self, kinds: list[str]) -> None:
        """Options that mean nothing for this kind of load."""
        belongs = {
            "rate": ("shape", "trips"),
            "rate_per_level": ("variation",),
            "time_scale": ("trace", "variation"),
            "rate_scale": ("trace", "variation"),
            "speed": ("trips",),
            "copies": ("trips",),
            **dict.fromkeys(("users", "ips", "skew", "click_share", "key"), _KINDS[:3]),
        }
        for name, owners in belongs.items():
            if self._given[name] is not None and kinds and not set(owners) & set(kinds):
                allowed = "with " + " or ".join(map(_option, owners))
                self._fault(name, allowed, f"means nothing together with {_option(kinds[0])}")
        if kinds == ["variation"] and self._given["rate_per_level"] is None:
            self._fault("rate_per_level", "a number > 0", "a level is a number of threads: say the records/s of one")

    def _paths(self, name: str) -> list[Path]:
        return [Path(piece.strip()) for piece in self._given[name].split(",") if piece.strip()]

    def _number(self, name: str, default: float | None, allowed: _Range) -> float | None:
        text = self._given[name]
        if text is None:
            return default
        value = allowed.read(text.strip())
        if value is None:
            self._fault(name, str(allowed), f"{text!r} will not do")
            return default
        return value

    def _fault(self, name: str, allowed: str, message: str) -> None:
        given = self._given[name]
        self.faults.append(Fault(_option(name), "nothing" if given is None else repr(given), allowed, message))


def _option(name: str) -> str:
    return name if name.startswith("--") else "--" + name.replace("_", "-")
