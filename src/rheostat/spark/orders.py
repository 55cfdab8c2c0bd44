"""Orders of the controller to the source ``rheostat-kafka``: a file that is replaced as a whole.

``{"schema": "rheostat.orders/1", "number": 7, "until_ms": 1790000000000, "read_tasks": 4, "records": 20000,
"paused": false, "keep": {"clicks": 500000}}``: only integers, because the orders that hold for a batch are part of the
offset at which it ends. So a batch that runs again, on whatever machine, obeys the same ones.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rheostat.config.shedding import WHOLE
from rheostat.errors import Fault, InputError, did_you_mean
from rheostat.files import replace_text
from rheostat.model import Threshold

ORDERS_SCHEMA = "rheostat.orders/1"

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the controller asks of the source until it asks for something else.

    Attributes:
        number: orders with a smaller number than those that were seen before are stale.
        until_ms: when they end, in milliseconds of the epoch, unless they are renewed: a controller that died must not
            pause a query for ever.
        read_tasks: in how many tasks a batch is read; None: as the options say.
        records: the most records of a batch; None: as the options say.
        paused: no batch begins.
        keep: the non-drop probability of each edge × 10⁶; an edge that is not named keeps everything.
        above: where edges drop by value; one that is not named drops at random.
    """

    number: int
    until_ms: int
    read_tasks: int | None = None
    records: int | None = None
    paused: bool = False
    keep: Mapping[str, int] = field(default_factory=dict)
    above: Mapping[str, Threshold] = field(default_factory=dict)


_NAMES = ("schema", "number", "until_ms", "read_tasks", "records", "paused", "keep", "above")


def parse_orders(text: str) -> Orders:
    """Read orders.

    Raises:
        InputError: every fault.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InputError([Fault("orders", text[:80], "a JSON object", f"the orders cannot be read: {error}")]) from None
    if not isinstance(given, dict):
        raise InputError([Fault("orders", text[:80], "a JSON object", "the orders are not understood")])
    faults = [
        Fault(f"orders.{name}", repr(value), ", ".join(_NAMES), f"there is no such order{did_you_mean(name, _NAMES)}")
        for name, value in given.items()
        if name not in _NAMES
    ]
    if given.get("schema") != ORDERS_SCHEMA:
        message = "the orders are of another version"
        faults.append(Fault("orders.schema", repr(given.get("schema")), ORDERS_SCHEMA, message))
    for name, least, is_needed in (
        ("number", 0, True),
        ("until_ms", 0, True),
        ("read_tasks", 1, False),
        ("records", 1, False),
    ):
        value = given.get(name)
        if not (is_count(value, least) or (value is None and not is_needed)):
            faults.append(Fault(f"orders.{name}", repr(value), f"an integer ≥ {least}", "the order is not understood"))
    if not isinstance(given.get("paused", False), bool):
        faults.append(Fault("orders.paused", repr(given["paused"]), "true, false", "the order is not understood"))
    keep = given.get("keep", {})
    if not isinstance(keep, dict):
        faults.append(Fault("orders.keep", repr(keep), '{"edge": 0 to 1000000, …}', "the order is not understood"))
    else:
        faults += share_faults("orders.keep", keep)
    above = given.get("above", {})
    if not (isinstance(above, dict) and all(_is_threshold(each) for each in above.values())):
        allowed = '{"edge": [value, 0 to 1000000], …}'
        faults.append(Fault("orders.above", repr(above), allowed, "the order is not understood"))
    if faults:
        raise InputError(faults)
    known = {name: value for name, value in given.items() if name != "schema" and value is not None}
    return Orders(**{**known, "above": {edge: Threshold(*each) for edge, each in above.items()}})


def _is_threshold(given: object) -> bool:
    if not isinstance(given, list) or len(given) != 2:
        return False
    value, tied = given
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_number and is_count(tied, 0) and tied <= WHOLE


def share_faults(field_name: str, keep: Mapping[str, Any]) -> list[Fault]:
    """A fault for each share that is no integer from 0 to 10⁶."""
    return [
        Fault(f"{field_name}.{edge}", repr(value), f"an integer from 0 to {WHOLE}", "the share is out of range")
        for edge, value in keep.items()
        if not (is_count(value, 0) and value <= WHOLE)
    ]


def is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def now_ms() -> int:
    """The time that orders end by: milliseconds of the epoch."""
    return time.time_ns() // 1_000_000


def write_orders(path: Path | str, orders: Orders) -> None:
    """Replace the orders in a file at once.

    Raises:
        InputError: every fault of the orders: the source would ignore them.
        OSError: the file cannot be written.
    """
    text = json.dumps({"schema": ORDERS_SCHEMA, **asdict(orders)})
    parse_orders(text)
    replace_text(Path(path), text)


class Pause:
    """Pauses the sources that obey these files, whatever their orders are. It ends by itself after ``longest_s``.

    It is a file of its own beside each, so that it changes no orders and their numbers.
    """

    def __init__(self, paths: Iterable[Path], longest_s: float) -> None:
        self._paths = [_pause_beside(path) for path in paths]
        self._longest_ms = round(longest_s * 1000)

    def begin(self, now_ms: int) -> None:
        """Raises OSError: one of the files cannot be written; then none is paused."""
        try:
            for path in self._paths:
                replace_text(path, str(now_ms + self._longest_ms))
        except OSError:
            self.end()
            raise

    def end(self) -> None:
        for path in self._paths:
            path.unlink(missing_ok=True)


def _pause_beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.pause")


class OrdersFile:
    """The orders in a file, as the source reads them before each batch.

    Orders that are malformed or stale are ignored: those before them hold on, until they end. Each is named once in
    the log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._orders: Orders | None = None
        self._named: str | None = None

    def read(self, now_ms: int) -> Orders | None:
        """The orders that hold now; None: there are none, or they have ended."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            text = None
        except (OSError, UnicodeDecodeError) as error:
            self._name_once(f"the orders cannot be read: {error}")
            text = None
        if text is not None:
            self._take(text)
        orders = self._orders
        return None if orders is None or orders.until_ms <= now_ms else orders

    def is_paused(self, now_ms: int) -> bool:
        """Whether a :class:`Pause` is on, or the orders say so."""
        orders = self.read(now_ms)
        try:
            until_ms = int(_pause_beside(self._path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            until_ms = 0
        return until_ms > now_ms or (orders is not None and orders.paused)

    def _take(self, text: str) -> None:
        try:
            new = parse_orders(text)
        except InputError as error:
            self._name_once(f"the orders are ignored: {error}")
            return
        if self._orders is not None and new.number < self._orders.number:
            self._name_once(f"orders {new.number} are ignored: {self._orders.number} were seen before")
            return
        self._orders, self._named = new, None

    def _name_once(self, message: str) -> None:
        if message != self._named:
            _LOG.warning("%s: %s", self._path, message)
            self._named = message
