"""An order-free checksum of record ids: the load and the sink compute it apart, and compare.

For ids ``i``::

    count = number of ids
    total = sum of i
    mixed = sum of splitmix64(i), modulo 2**64

A loss and a duplicate cancel in the count, and two of each may cancel in the total; in the sum of mixed values they
cancel with probability 2**-64. The order of the ids, and how they were split into parts, does not matter.

Source of the mixing function: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from rheostat.errors import Fault, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_MASK = (1 << 64) - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_VECTOR_FROM = 64


def splitmix64(value: int) -> int:
    """Mix the low 64 bits of an integer; a one-to-one map onto 0 … 2**64 − 1.

    >>> hex(splitmix64(0))
    '0xe220a8397b1dcdaf'
    """
    mixed = (value + _STEP) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * _FIRST) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * _SECOND) & _MASK
    return mixed ^ (mixed >> 31)


def splitmix64_array(ids: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """:func:`splitmix64` of each element of an array of 64-bit integers. Needs numpy."""
    import numpy as np

    mixed = ids.astype(np.int64, copy=False).view(np.uint64) + np.uint64(_STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_FIRST)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SECOND)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class IdChecksum:
    """Checksum of a collection of ids (signed 64-bit integers). A value: each method gives a new one.

    >>> IdChecksum().add_many([3, 1, 2]) == IdChecksum().add(1).merge(IdChecksum().add_many([2, 3]))
    True

    Attributes:
        count: number of ids.
        total: their sum, exact.
        mixed: sum of their mixed values, modulo 2**64.
    """

    count: int = 0
    total: int = 0
    mixed: int = 0

    def add(self, record_id: int) -> IdChecksum:
        """With one id more."""
        return self.merge(IdChecksum(1, record_id, splitmix64(record_id)))

    def add_many(self, ids: Iterable[int] | NDArray[np.integer[Any]]) -> IdChecksum:
        """With more ids: an array of 64-bit integers, or any iterable; long ones are computed by numpy."""
        if hasattr(ids, "dtype"):
            return self.merge(_of_array(cast("NDArray[np.integer[Any]]", ids)))
        listed = list(ids)
        if len(listed) < _VECTOR_FROM:
            return self.merge(IdChecksum(len(listed), sum(listed), sum(map(splitmix64, listed)) & _MASK))
        import numpy as np

        return self.merge(_of_array(np.array(listed, dtype=np.int64)))

    def merge(self, other: IdChecksum) -> IdChecksum:
        """Of both collections together."""
        return IdChecksum(self.count + other.count, self.total + other.total, (self.mixed + other.mixed) & _MASK)

    def to_json(self) -> dict[str, Any]:
        """For JSON; ``mixed`` as 16 hexadecimal digits, since most readers lose bits of large numbers."""
        return {"count": self.count, "total": self.total, "mixed": f"{self.mixed:016x}"}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> IdChecksum:
        """Back from :meth:`to_json`.

        Raises:
            InputError: a part is missing or is not a number.
        """
        try:
            return cls(int(value["count"]), int(value["total"]), int(value["mixed"], 16))
        except (KeyError, TypeError, ValueError) as error:
            fault = Fault("checksum", repr(value), "count, total and mixed (16 hexadecimal digits)", str(error))
            raise InputError([fault]) from error


def _of_array(ids: NDArray[np.integer[Any]]) -> IdChecksum:
    import numpy as np

    wide = ids.astype(np.int64, copy=False)
    high, low = int((wide >> 32).sum()), int((wide & 0xFFFFFFFF).sum())
    return IdChecksum(int(wide.size), (high << 32) + low, int(splitmix64_array(wide).sum(dtype=np.uint64)))
