"""Histories of small jobs, sound and broken ones, for the training in process and on Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rheostat.fleet.history import Row, job_folder, write_rows
from rheostat.research.bench.training import synthetic_rows

__all__ = [
    "BROKEN",
    "SOUND",
    "write_broken",
    "write_history",
]


SOUND = ("clicks", "ads/eu: 50 %", "007", "Zürich")
BROKEN = ("damaged", "nan", "no slow", "few", "text", "nothing")


def write_history(history: Path) -> None:
    """Four sound jobs of 60 to 90 samples, and six that are broken, each in its own way."""
    for number, job in enumerate(SOUND):
        write_rows(history, job, "a", synthetic_rows(number, 60 + 10 * number))
    write_broken(history)


def write_broken(history: Path) -> None:
    """Jobs that cannot be trained."""
    rows = synthetic_rows(9, 60)
    write_rows(history, "few", "a", rows[:7])
    spoilt = rows[3].sample._replace(slow=float("nan"))
    write_rows(history, "nan", "a", [*rows[:3], Row(spoilt, None), *rows[4:]])
    for job in ("damaged", "no slow", "text", "nothing"):
        write_rows(history, job, "a", rows)
    damaged = job_folder(history, "damaged") / "a.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    (job_folder(history, "nothing") / "a.parquet").unlink()
    table = pq.read_table(job_folder(history, "no slow") / "a.parquet", partitioning=None)
    pq.write_table(table.drop_columns(["slow"]), job_folder(history, "no slow") / "a.parquet")
    words = pa.array(["two"] * len(rows))
    pq.write_table(
        table.set_column(table.schema.get_field_index("executors"), "executors", words),
        job_folder(history, "text") / "a.parquet",
    )
