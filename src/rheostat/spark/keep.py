"""Which records an edge keeps: those whose draw is below its non-drop probability d [ours; for d see S3, eq. 3.16].

A draw is a hash of topic, partition, offset and the name of the edge. So every task and every repetition of a batch
keeps the same records, edges draw independently of one another, and records of equal value are not dropped together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rheostat.config.shedding import WHOLE
from rheostat.model import EdgeCount, Threshold

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rheostat.spark.kafka_offsets import Piece

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Constants of SplitMix64 (Steele, Lea and Flood: Fast splittable pseudorandom number generators, 2014)."""
_MASK = (1 << 64) - 1
KEEP_ALL = (1 << 63) - 1
"""The limit of an edge that keeps everything."""
IDENTITY, DRAW = "rheostat", "draw"
"""The column of the source by which records are known, and its field beside the limits of the edges."""
ABOVE = ":above"
"""After the name of an edge: the field of that column with the value above which records are kept."""
COUNTED = "rheostat:"
"""Before the name of an edge: the observed metrics with its counts, ``offered``, ``kept`` and ``values``."""


def seed_of(edge: str, topic: str, partition: int) -> int:
    """Where the draws of an edge begin in a partition; 64 bits."""
    name = f"{topic}\0{partition}\0{edge}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")


def draw(seed: int, offset: int) -> int:
    """The draw of a record, uniform over 64 bits.

    >>> draw(seed_of("clicks", "events", 0), 17) == draw(seed_of("clicks", "events", 0), 17)
    True
    """
    x = (seed + offset * _STEP) & _MASK
    x = ((x ^ (x >> 30)) * _FIRST) & _MASK
    x = ((x ^ (x >> 27)) * _SECOND) & _MASK
    return x ^ (x >> 31)


def is_kept(seed: int, offset: int, keep: int) -> bool:
    """Whether an edge keeps a record; ``keep``: d × 10⁶."""
    return keep >= WHOLE or draw(seed, offset) < limit_of(keep)


def limit_of(keep: int) -> int:
    """The draw from which on records are dropped."""
    return (keep << 64) // WHOLE


def signed_limit(keep: int) -> int:
    """:func:`limit_of` for draws that are read as signed numbers, as Spark's are.

    >>> signed_limit(0) == -(2**63), signed_limit(500_000), signed_limit(WHOLE) == KEEP_ALL
    (True, 0, True)
    """
    return KEEP_ALL if keep >= WHOLE else limit_of(keep) - (1 << 63)


def limits_of(edges: Iterable[str], keep: Mapping[str, int], above: Mapping[str, Threshold]) -> dict[str, int]:
    """The limit of each edge; of one that drops by value, that of the records at its threshold."""
    limits = {}
    for edge in edges:
        share = keep.get(edge, WHOLE)
        drops_by_value = share < WHOLE and edge in above
        limits[edge] = signed_limit(min(above[edge].tied, WHOLE - 1) if drops_by_value else share)
    return limits


def draws(seed: int, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """:func:`draw` for many records."""
    import numpy as np

    x = offsets.astype(np.uint64) * np.uint64(_STEP) + np.uint64(seed)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    drawn: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return drawn


def keep_mask(seed: int, offsets: NDArray[np.int64], keep: int) -> NDArray[np.bool_]:
    """:func:`is_kept` for many records."""
    import numpy as np

    if keep >= WHOLE:
        return np.ones(len(offsets), dtype=np.bool_)
    kept: NDArray[np.bool_] = draws(seed, offsets) < np.uint64(limit_of(keep))
    return kept


_COUNTED_AT_ONCE = 1 << 20


def count_kept(edge: str, pieces: Iterable[Piece], keep: int) -> EdgeCount:
    """What an edge keeps of these records: exact also where tasks read them twice, as each draw is known."""
    offered = kept = 0
    for piece in pieces:
        offered += piece.records
        kept += piece.records if keep >= WHOLE else _count_drawn(edge, piece, keep)
    return EdgeCount(edge, keep, offered, kept)


def _count_drawn(edge: str, piece: Piece, keep: int) -> int:
    import numpy as np

    seed, starts = seed_of(edge, piece.topic, piece.partition), range(piece.start, piece.end, _COUNTED_AT_ONCE)
    spans = (np.arange(start, min(start + _COUNTED_AT_ONCE, piece.end), dtype=np.int64) for start in starts)
    return sum(int(keep_mask(seed, span, keep).sum()) for span in spans)
