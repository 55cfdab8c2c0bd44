"""An order-free checksum of record ids: computed by the load and by the sink, and compared.

For ids ``i``::

    count = number of ids
    total = sum of i
    mixed = sum of splitmix64(i), modulo 2**64

A loss and a duplicate cancel in the count, and two of each may cancel in the total; in the sum of mixed values they
cancel with probability 2**-64. Neither the order of the ids matters nor how they were split into parts.

Source of the mixing function: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rheostat.errors import Fault, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
    """Checksum of a collection of ids (signed 64-bit integers). Immutable: each method returns a new one.

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
