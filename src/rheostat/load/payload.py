"""Click-fraud records: seeded keys and values (S1, section 5.1); and a checksum of their ids.

One record is a line of JSON::

    {"id":17,"ip":"10.3.129.7","userID":"6d1a…","timestamp":1700000000.123,"eventType":"display"}

``id`` ascends from the first one and is unique within a producer. Users follow a power law: the user of rank r appears
in proportion to ``r ** -skew``; addresses likewise, independently. The content of record k depends on the seed and on k
alone, not on how the records were cut into batches; its timestamp is that of its production.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rheostat.errors import Fault, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 4096
_ADDRESSES = 1 << 24
_ODD_STEP = 0x9E3779B1


@dataclass(frozen=True, slots=True)
class PayloadSpec:
    """The content of the records.

    Attributes:
        seed: ≥ 0.
        users, ips: number of different user ids, ≥ 1, and addresses, 1 … 2**24.
        skew: exponent of the power law; 0: all equally frequent. 0.8 gives the first of 10 000 users about 3 % of the
            records, so that no partition is overwhelmed by one key.
        click_share: share of clicks among the events, 0 … 1; the others are displays.
        key: of the records, which decides their partition.
    """

    seed: int = 0
    users: int = 10_000
    ips: int = 2_000
    skew: float = 0.8
    click_share: float = 0.2
    key: Literal["user", "ip", "none"] = "user"


@dataclass(frozen=True, slots=True)
class Records:
    """Records with consecutive ids from ``first_id``; ``keys`` is None without keys."""

    first_id: int
    values: Sequence[str]
    keys: Sequence[str] | None

    def __len__(self) -> int:
        return len(self.values)


class RecordMaker(Protocol):
    """Makes the records of a load, the first with id ``first_id``. Used by one thread."""

    @property
    def first_id(self) -> int: ...

    def make(self, begin: int, count: int, timestamp: float) -> Records:
        """Records ``begin`` … ``begin + count − 1``, counted from 0, produced at ``timestamp`` (epoch seconds).

        ``begin`` never goes back.
        """
        ...


class Payloads:
    """Makes click-fraud records. Needs numpy.

    The first block is drawn at once: a slow first call must not make the first records late.
    """

    def __init__(self, spec: PayloadSpec | None = None, first_id: int = 0) -> None:
        import numpy as np

        self.spec = spec or PayloadSpec()
        self.first_id = first_id
        random = np.random.default_rng([self.spec.seed, 0])
        self._users = _draw_user_ids(self.spec.users, random)
        self._ips = _draw_addresses(self.spec.ips, random)
        self._user_shares = _cumulate_shares(self.spec.users, self.spec.skew)
        self._ip_shares = _cumulate_shares(self.spec.ips, self.spec.skew)
        self._block = lru_cache(maxsize=2)(self._draw_block)
        self._block(0)

    def make(self, begin: int, count: int, timestamp: float) -> Records:
        values: list[str] = []
        keys: list[str] = []
        at = f"{timestamp:.3f}"
        position, end = begin, begin + count
        while position < end:
            number, inside = divmod(position, _BLOCK)
            until = min(_BLOCK, inside + end - position)
            heads, tails, block_keys = (column[inside:until] for column in self._block(number))
            ids = range(self.first_id + position, self.first_id + end)
            values += [f'{{"id":{i}{head}{at}{tail}' for i, head, tail in zip(ids, heads, tails, strict=False)]
            keys += block_keys
            position += until - inside
        return Records(self.first_id + begin, values, keys if self.spec.key != "none" else None)

    def _draw_block(self, number: int) -> tuple[list[str], list[str], list[str]]:
        """The text before and after the timestamp of 4096 records, and their keys."""
        import numpy as np

        chances = np.random.default_rng([self.spec.seed, 1, number]).random((3, _BLOCK))
        users = [self._users[rank] for rank in np.searchsorted(self._user_shares, chances[0], side="right").tolist()]
        ips = [self._ips[rank] for rank in np.searchsorted(self._ip_shares, chances[1], side="right").tolist()]
        heads = [f',"ip":"{ip}","userID":"{user}","timestamp":' for ip, user in zip(ips, users, strict=True)]
        clicked = (chances[2] < self.spec.click_share).tolist()
        tails = [',"eventType":"click"}' if click else ',"eventType":"display"}' for click in clicked]
        return heads, tails, {"user": users, "ip": ips, "none": []}[self.spec.key]


def _cumulate_shares(count: int, skew: float) -> NDArray[np.float64]:
    """Cumulative probabilities of the ranks; the last is 1."""
    import numpy as np

    sums = np.cumsum(np.arange(1, count + 1, dtype=np.float64) ** -skew)
    shares: NDArray[np.float64] = sums / sums[-1]
    return shares


def _draw_user_ids(count: int, random: np.random.Generator) -> list[str]:
    drawn: Any = random.bytes(16 * count)
    return [str(uuid.UUID(bytes=drawn[16 * index : 16 * index + 16], version=4)) for index in range(count)]


def _draw_addresses(count: int, random: np.random.Generator) -> list[str]:
    """Different addresses of 10.0.0.0/8: an odd step modulo 2**24 meets each number once."""
    offset = int(random.integers(_ADDRESSES))
    numbers = ((offset + index * _ODD_STEP) % _ADDRESSES for index in range(count))
    return [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" for number in numbers]


# Checksum


_MASK = (1 << 64) - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def splitmix64_array(ids: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """Mix each 64-bit integer: a one-to-one map onto 0 … 2**64 − 1. Needs numpy.

    >>> import numpy as np
    >>> [hex(value) for value in splitmix64_array(np.array([0]))]
    ['0xe220a8397b1dcdaf']
    """
    import numpy as np

    mixed = ids.astype(np.int64, copy=False).view(np.uint64) + np.uint64(_STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_FIRST)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SECOND)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class IdChecksum:
    """Order-free checksum of ids (signed 64-bit integers), computed by the load and by the sink, and compared.

    ``count`` is their number, ``total`` their sum, ``mixed`` the sum of splitmix64(id) modulo 2**64. A loss and a
    duplicate cancel in the count, and two of each may cancel in the total; in the sum of mixed values they cancel with
    probability 2**-64. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).

    Immutable: each method returns a new one.

    >>> IdChecksum().add_many([3, 1, 2]) == IdChecksum().add_many([1]).merge(IdChecksum().add_many([2, 3]))
    True
    """

    count: int = 0
    total: int = 0
    mixed: int = 0

    def add_many(self, ids: Iterable[int] | NDArray[np.integer[Any]]) -> IdChecksum:
        """Add an array of integers, or any iterable. Needs numpy."""
        import numpy as np

        array = ids if isinstance(ids, np.ndarray) else np.fromiter(ids, dtype=np.int64)
        wide = array.astype(np.int64, copy=False)
        high, low = int((wide >> 32).sum()), int((wide & 0xFFFFFFFF).sum())
        mixed = int(splitmix64_array(wide).sum(dtype=np.uint64))
        return self.merge(IdChecksum(int(wide.size), (high << 32) + low, mixed))

    def merge(self, other: IdChecksum) -> IdChecksum:
        return IdChecksum(self.count + other.count, self.total + other.total, (self.mixed + other.mixed) & _MASK)

    def to_json(self) -> dict[str, Any]:
        """``mixed`` becomes 16 hexadecimal digits, since many JSON readers lose bits of large numbers."""
        return {"count": self.count, "total": self.total, "mixed": f"{self.mixed:016x}"}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> IdChecksum:
        """Raises InputError if a part is missing or is not a number."""
        try:
            return cls(int(value["count"]), int(value["total"]), int(value["mixed"], 16))
        except (KeyError, TypeError, ValueError) as error:
            fault = Fault("checksum", repr(value), "count, total and mixed (16 hexadecimal digits)", str(error))
            raise InputError([fault]) from error
