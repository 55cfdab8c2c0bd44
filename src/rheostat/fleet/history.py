"""What many jobs were seen to do: a Parquet data set, partitioned by job.

A folder ``job=NAME`` for each job, with one file for each source that was collected (a journal or an archive); to
collect a source again replaces its file. Spark, pyarrow and others read such a folder as one table with the columns
``job, at, workload, executors, slow, processed``:

* ``workload``: records/s of each topic that the job reads, sorted by topic; a list of one: of all topics together;
* ``executors``: the number in force;
* ``slow``: share of slow records;
* ``processed``: records/s committed; missing where it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rheostat.archive.table import processed_in, read_table, samples_of, table_of, write_table
from rheostat.errors import Fault, InputError

if TYPE_CHECKING:
    from rheostat.learn import Sample

__all__ = ["Row", "job_folder", "jobs_in", "read_rows", "write_rows"]

_JOB = "job="
_SPECIAL = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""What Spark escapes in the name of a partition's folder."""

_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_LONGEST = 255


class Row(NamedTuple):
    """A sample, and what was committed then.

    Attributes:
        processed: records/s; None: not known.
    """

    sample: Sample
    processed: float | None


def job_folder(history: Path, job: str) -> Path:
    """Where a job's rows are.

    >>> str(job_folder(Path("history"), "ads/eu: 50 %"))
    'history/job=ads%2Feu%3A 50 %25'
    """
    return history / (_JOB + _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", job))


def jobs_in(history: Path) -> dict[str, list[Path]]:
    """The jobs of a history by name, each with its files.

    Raises:
        InputError: there is no history.
    """
    allowed = f"a folder of folders {_JOB}NAME with Parquet files, as 'rheostat fleet collect' writes it"
    if not history.is_dir():
        raise InputError([Fault("history", str(history), allowed, "there is no such folder")])
    jobs = {
        _ESCAPED.sub(lambda found: chr(int(found[1], 16)), folder.name.removeprefix(_JOB)): _files(folder)
        for folder in sorted(history.iterdir())
        if folder.is_dir() and folder.name.startswith(_JOB)
    }
    if not jobs:
        raise InputError([Fault("history", str(history), allowed, "there are no jobs in it")])
    return jobs


def write_rows(history: Path, job: str, source: str, rows: Sequence[Row]) -> None:
    """Put what was collected of a source into the history, in place of what was collected of it before.

    Args:
        history: made if it is not there.
        job: its name.
        source: tells the sources of a job apart; letters and digits.
        rows: oldest first.

    Raises:
        InputError: the job's name does not do for a folder.
        OSError: it cannot be written.
    """
    folder = job_folder(history, job)
    if not job or len(folder.name.encode()) > _LONGEST:
        raise InputError([Fault("job", repr(job), "1 to about 250 characters", "it cannot be a folder's name")])
    table = table_of([row.sample for row in rows], [row.processed for row in rows])
    write_table(folder / f"{source}.parquet", table)


def read_rows(files: Sequence[Path]) -> list[Row]:
    """The rows in the files of a job.

    Raises:
        InputError: everything that is wrong with them.
    """
    rows: list[Row] = []
    faults: list[Fault] = []
    for path in files:
        try:
            rows += _rows(path)
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    return rows


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix == ".parquet" and path.name[0] not in "._")


def _rows(path: Path) -> list[Row]:
    table = read_table(path)
    return list(map(Row, samples_of(table, str(path)), processed_in(table)))
