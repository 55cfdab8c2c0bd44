"""The history of many jobs: a Parquet data set of samples, partitioned by job.

A folder ``job=NAME`` for each job has one file for each collected source (a journal or a sample store); collecting a
source again replaces its file. Spark, pyarrow and others read the data set as one table with the columns
``job``, ``at``, ``workload`` (records/s of each topic that the job reads, sorted by topic, or one rate for all),
``executors`` (running), ``slow`` (share of slow records) and ``processed`` (records/s committed; missing if unknown).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rheostat.decide.policy import current_target
from rheostat.errors import Fault, InputError, attempt
from rheostat.journal.records import DecisionRecord, Record, SessionRecord
from rheostat.journal.store import journal_files, read_journal
from rheostat.model import Assessment
from rheostat.policies.capacity import Recovery, follow_recovery, ready, slow_records
from rheostat.sample_store import ParquetSampleStore, processed_in, read_table, samples_of, table_of, write_table

if TYPE_CHECKING:
    from rheostat.learn.slow_records import Sample


_SLOW_INTERVAL_S, _HOLD_S, _MOST_SLOW = 15.0, 240.0, 1.0


class Collected(NamedTuple):
    """Result for one source.

    ``fault``: damage, if any. A damaged file of a sample store loses its own rows, a damaged line of a journal the rest
    of its file.
    """

    source: Path
    job: str
    rows: int
    fault: str | None


def collect(
    sources: Sequence[Path],
    history: Path,
    job: str | None = None,
    watch: Callable[[int, int, str], None] = lambda _done, _total, _words: None,
) -> list[Collected]:
    """Collect the samples of journals and sample stores (``JOURNAL/samples``) into a history.

    A damaged source does not stop the others. ``job`` None: the name in the journal, else that of the journal's folder.

    Raises:
        InputError: a source is neither journal nor sample store; nothing is written then.
        OSError: the history cannot be written.
    """
    if faults := source_faults(sources):
        raise InputError(faults)
    results = []
    for number, source in enumerate(sources):
        watch(number, len(sources), "sources")
        results.append(_collect_source(source, history, job))
    return results


def source_faults(sources: Sequence[Path]) -> list[Fault]:
    """A fault for each source that is neither a journal nor a sample store."""
    allowed = "the folder of a journal (journal-*.jsonl) or of a sample store (rows-*.parquet)"
    message = "there is neither a journal nor a sample store here"
    return [Fault("sources", str(source), allowed, message) for source in sources if not _is_source(source)]


def journal_rows(records: Iterable[Record]) -> list[Row]:
    """The usable samples of a journal, oldest first."""
    rows: list[Row] = []
    recovery, interval_s = Recovery(), _SLOW_INTERVAL_S
    topics: tuple[str, ...] = ()
    for record in records:
        if isinstance(record, SessionRecord):
            interval_s = _interval_s(record)
        assessment = record.assessment if isinstance(record, DecisionRecord) else None
        n = current_target(assessment) if assessment is not None else None
        if assessment is None or not n or not _is_complete(assessment):
            continue
        recovery = follow_recovery(assessment, n, recovery, _HOLD_S)
        names = tuple(topic for topic, _ in assessment.arrival_rates)
        if names != topics:
            rows, topics = [], names
        if recovery.recovered and ready(assessment, n):
            rows.append(_row(assessment, n, interval_s))
    return rows


def _collect_source(source: Path, history: Path, job: str | None) -> Collected:
    damage: list[str] = []
    if _is_sample_store(source):
        store = ParquetSampleStore(source, damage.append)
        name, rows = job or source.resolve().parent.name, [Row(each, None) for each in store.read(store.end())]
    else:
        name, rows = job or _job_of(source), journal_rows(_records(source, damage))
    key = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:16]
    try:
        if rows:
            write_rows(history, name, key, rows)
    except InputError as error:
        return Collected(source, name, 0, str(error))
    return Collected(source, name, len(rows), "; ".join(damage) or None)


def _records(source: Path, damage: list[str]) -> Iterator[Record]:
    """The records of a journal. A damaged line ends the reading of its file, not of the others."""
    for file in journal_files(source):
        try:
            yield from read_journal(file, damage.append)
        except InputError as error:
            damage.append(str(error))


def _job_of(source: Path) -> str:
    first = next(_records(source, []), None)
    folder = source.resolve() if source.is_dir() else source.resolve().parent
    return first.header.job or folder.name if isinstance(first, SessionRecord) else folder.name


def _is_source(source: Path) -> bool:
    try:
        return _is_sample_store(source) or bool(journal_files(source))
    except InputError:
        return False


def _is_sample_store(source: Path) -> bool:
    return source.is_dir() and any(source.glob("rows-*.parquet"))


def _interval_s(session: SessionRecord) -> float:
    """Interval of the slow records of a run, s. Default: that of S1."""
    options = session.header.settings.get("policy_options")
    given = options.get("slow_interval_s") if isinstance(options, Mapping) else None
    return float(given) if isinstance(given, int | float) and given > 0 else _SLOW_INTERVAL_S


def _is_complete(assessment: Assessment) -> bool:
    known = assessment.arrival_rate is not None and assessment.backlog_excess is not None
    return known and not assessment.missing and not assessment.invalid


def _row(assessment: Assessment, n: int, interval_s: float) -> Row:
    from rheostat.learn.slow_records import Sample

    rates = tuple(rate for _, rate in assessment.arrival_rates) or (assessment.arrival_rate or 0.0,)
    slow = slow_records(assessment.backlog_excess or 0.0, sum(rates), interval_s)
    return Row(Sample(assessment.at, rates, n, min(slow, _MOST_SLOW)), assessment.processed_rate)


_JOB = "job="
_SPECIAL = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""Characters that Spark escapes in the name of a partition's folder."""

_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_LONGEST = 255


class Row(NamedTuple):
    """A sample, and the processed rate in records/s, None if unknown."""

    sample: Sample
    processed: float | None


def job_folder(history: Path, job: str) -> Path:
    """The folder of a job.

    >>> str(job_folder(Path("history"), "ads/eu: 50 %"))
    'history/job=ads%2Feu%3A 50 %25'
    """
    return history / (_JOB + _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", job))


def jobs_in(history: Path) -> dict[str, list[Path]]:
    """The jobs of a history by name, each with its files. Raises InputError if there is no history."""
    allowed = f"a folder of folders {_JOB}NAME with Parquet files, as 'rheostat fleet collect' writes it"
    if not history.is_dir():
        raise InputError([Fault("history", str(history), allowed, "there is no such folder")])
    jobs = {
        _ESCAPED.sub(lambda match: chr(int(match[1], 16)), folder.name.removeprefix(_JOB)): _files(folder)
        for folder in sorted(history.iterdir())
        if folder.is_dir() and folder.name.startswith(_JOB)
    }
    if not jobs:
        raise InputError([Fault("history", str(history), allowed, "there are no jobs in it")])
    return jobs


def write_rows(history: Path, job: str, source: str, rows: Sequence[Row]) -> None:
    """Write the rows of a source, oldest first, in place of its earlier ones.

    ``source``: its key within the job, letters and digits.

    Raises:
        InputError: the job's name cannot be the name of a folder.
    """
    folder = job_folder(history, job)
    if not job or len(folder.name.encode()) > _LONGEST:
        raise InputError([Fault("job", repr(job), "1 to about 250 characters", "it cannot be a folder's name")])
    table = table_of([row.sample for row in rows], [row.processed for row in rows])
    write_table(folder / f"{source}.parquet", table)


def read_rows(files: Sequence[Path]) -> list[Row]:
    """The rows in the files of a job. Raises InputError with all faults of all files."""
    faults: list[Fault] = []
    rows = [row for path in files for row in attempt(_read_file, [], faults, path)]
    if faults:
        raise InputError(faults)
    return rows


def _read_file(path: Path) -> list[Row]:
    table = read_table(path)
    return [*map(Row, samples_of(table, str(path)), processed_in(table))]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix == ".parquet" and path.name[0] not in "._")
