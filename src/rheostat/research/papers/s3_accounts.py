"""What became of every record of a run on a real cluster: worked on, dropped by the draws of its batch, or lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rheostat.config.shedding import WHOLE
from rheostat.load.payload import IdChecksum
from rheostat.observe.rest import list_batches, read_offsets
from rheostat.pipelines.sink import find_batches, verify, verify_records
from rheostat.spark.kafka_offsets import pieces_between, plan_of
from rheostat.spark.kafka_options import FORMAT
from rheostat.spark.keep import DRAW, IDENTITY, is_kept, seed_of, signed_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATHS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "knn": {"points": ("points>knn",)},
    **{
        sink: {f"drives-{n}": (f"drives-{n}>parse-{n}", f"parse-{n}>union", f"union>{sink}") for n in (1, 2)}
        for sink in ("sink-1", "sink-2")
    },
}
"""Sink → topic → the edges between them; the first one drops in the reader."""


LATER_EDGES = sorted({edge for paths in PATHS.values() for path in paths.values() for edge in path[1:]})
"""Those that drop after the reader, in the order of their names."""


class Draw(NamedTuple):
    """The id of a record, and the signed draws of the edges after the reader's, in the order of :data:`LATER_EDGES`."""

    id: int
    later: Sequence[int]


Draws = Mapping[tuple[str, int, int], Draw]
"""By topic, partition and offset."""


class Account(NamedTuple):
    """A sink.

    Attributes:
        read: records in its batches.
        kept: those of them that the draws keep.
        written: records in the sink.
        exact: whether the records that are kept are those that are written.
    """

    read: int
    kept: int
    written: int
    exact: bool


def write_draws(spark: SparkSession, bootstrap: str, topics: Sequence[str], orders: str, folder: Path) -> None:
    """Write id and draws of all records in topics, as Parquet."""
    from pyspark.sql import functions as F  # noqa: N812

    from rheostat.spark.kafka_source import register

    register(spark)
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": ",".join(topics)}
    rows = spark.read.format(FORMAT).options(**given, edges=",".join(LATER_EDGES), orders=orders).load()
    number = F.get_json_object(F.col("value").cast("string"), "$.id").cast("long").alias("id")
    drawn = F.array(*[F.xxhash64(F.col(f"{IDENTITY}.{DRAW}"), F.lit(edge)) for edge in LATER_EDGES]).alias("later")
    rows.select("topic", "partition", "offset", number, drawn).write.parquet(str(folder))


def read_draws(folder: Path) -> Draws:
    """What :func:`write_draws` wrote."""
    from pyarrow import parquet

    found = dict[tuple[str, int, int], Draw]()
    for file in folder.glob("*.parquet"):
        for row in parquet.ParquetFile(file).read().to_pylist():
            found[row["topic"], row["partition"], row["offset"]] = Draw(row["id"], row["later"])
    return found


def account_for(sink: str, checkpoint: Path, out: Path, draws: Draws) -> Account:
    """Compare what the draws of the batches keep with what is in the sink.

    Args:
        sink: one of :data:`PATHS`.
        checkpoint: of its query, with the offsets of all batches.
        out: its folder. A batch counts if it is committed, or complete there.
        draws: of all records.
    """
    records, kept = 0, list[int]()
    complete = {int(batch.name.removeprefix("batch=")) for batch in find_batches(out)[0]}
    for topic, partition, offset, keep in _records_read(checkpoint, complete):
        records += 1
        if _passes(PATHS[sink][topic], (topic, partition, offset), keep, draws):
            kept.append(draws[topic, partition, offset].id)
    written = verify_records(out).checksum if sink == "knn" else verify(out).by_kind[sink]
    return Account(records, len(kept), written.count, written == IdChecksum().add_many(kept))


def _records_read(checkpoint: Path, complete: set[int]) -> Iterator[tuple[str, int, int, Mapping[str, int]]]:
    """Topic, partition and offset of each record in the batches, with the non-drop probabilities of its batch."""
    ended = complete | set(list_batches(checkpoint / "commits"))
    starts: Sequence[Mapping[str, Any]] | None = None
    for batch in list_batches(checkpoint / "offsets"):
        if batch not in ended:
            continue
        ends = read_offsets(checkpoint / "offsets" / str(batch))
        for start, end in zip(starts or [{}] * len(ends), ends, strict=True):
            keep = plan_of(end).keep
            for piece in pieces_between(start, end):
                yield from ((piece.topic, piece.partition, offset, keep) for offset in range(piece.start, piece.end))
        starts = ends


def _passes(path: Sequence[str], place: tuple[str, int, int], keep: Mapping[str, int], draws: Draws) -> bool:
    topic, partition, offset = place
    reader, *others = path
    if not is_kept(seed_of(reader, topic, partition), offset, keep.get(reader, WHOLE)):
        return False
    drawn = dict(zip(LATER_EDGES, draws[place].later, strict=True))
    return all(keep.get(edge, WHOLE) >= WHOLE or drawn[edge] < signed_limit(keep.get(edge, WHOLE)) for edge in others)
