from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal import synthetic
from tests.journal.synthetic import START, Shape

from rheostat.errors import InputError, JournalError
from rheostat.journal.codec import Decoder, Encoder, session_line
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord, SessionRecord
from rheostat.journal.store import JournalWriter, read_journal
from rheostat.model import (
    Assessment,
    Batch,
    Cluster,
    Executor,
    Gap,
    Observation,
    Offsets,
    Outcome,
    OutcomeStatus,
    PartitionOffsets,
    QueryReading,
    Reason,
    ReasonCode,
    RunningBatch,
    SourceInfo,
)

HEADER = Header("0.1.0", {"policy": "reactive"}, job="demo")
SESSION = session_line(SessionRecord(START, HEADER, {"plan": {"n": 3}}))


def cycles(count, **shape) -> list[synthetic.Cycle]:
    return list(synthetic.cycles(count, Shape(**shape)))


def sessions(path) -> list[SessionRecord]:
    return [record for record in read_journal(path, lambda _: None) if isinstance(record, SessionRecord)]


def decisions(path) -> list[DecisionRecord]:
    return [record for record in read_journal(path, lambda _: None) if isinstance(record, DecisionRecord)]


def meaning(record: DecisionRecord) -> Assessment:
    assert record.assessment is not None
    return record.assessment


def states():
    return {"plan": {"n": 3}}


def write(folder, some, header=HEADER):
    writer = JournalWriter(folder)
    writer.start(header)
    for seen, meant, decided in some:
        writer.record(DecisionRecord.of(seen, meant, decided), states)
    writer.close()


def outcome(at=START + 1.5, decision_id=1):
    reason = Reason(ReasonCode.APPLIED, "5 executors after 3.1 s", {"took_s": 3.1})
    return Outcome(at, decision_id, OutcomeStatus.APPLIED, reason, 5, 4, 5, "request", 0, 0.0, 3.1)


def test_everything_comes_back(tmp_path):
    some = cycles(5, partitions=3)
    writer = JournalWriter(tmp_path)
    writer.start(HEADER, note="started fresh")
    for seen, meant, decided in some:
        writer.record(DecisionRecord.of(seen, meant, decided), states)
    writer.record(OutcomeRecord(outcome().at, outcome()), states)
    writer.close()
    *_, ended = read_journal(tmp_path)
    records = decisions(tmp_path)
    assert sessions(tmp_path)[0] == SessionRecord(some[0][2].at, HEADER, {"plan": {"n": 3}}, "started fresh")
    assert [record.observation for record in records] == [seen for seen, _, _ in some]
    assert [record.decision.target for record in records] == [5] * 5
    assert [record.decision.notes[0].reason.code for record in records] == [ReasonCode.LARGEST_STEP] * 5
    assert [record.decision.reason.code for record in records] == [ReasonCode.LARGEST_STEP] * 5
    assert [meaning(record).backlog for record in records] == [meant.backlog for _, meant, _ in some]
    assert ended == OutcomeRecord(outcome().at, outcome())


def test_figures_keep_six_digits(tmp_path):
    [(seen, meant, decided)] = cycles(1)
    meant = dataclasses.replace(meant, lag_s=12.3456789, arrival_rate=2417.123456, missing=("batch",))
    write(tmp_path, [(seen, meant, decided)])
    back = meaning(decisions(tmp_path)[0])
    assert (back.lag_s, back.arrival_rate, back.missing) == (12.3457, 2417.123, ("batch",))
    assert dataclasses.replace(
        back, lag_s=0, arrival_rate=0, backlog_excess=0, drain_s=0, occupancy=0, busy_ratio=0, processed_rate=0
    ) == dataclasses.replace(
        meant, lag_s=0, arrival_rate=0, backlog_excess=0, drain_s=0, occupancy=0, busy_ratio=0, processed_rate=0
    )


def test_each_day_has_a_file_that_stands_alone(tmp_path):
    some = cycles(3, partitions=40, every_s=86_400)
    write(tmp_path, some)
    files = sorted(tmp_path.glob("*.jsonl"))
    assert [file.name for file in files] == [
        "journal-2025-11-27.jsonl",
        "journal-2025-11-28.jsonl",
        "journal-2025-11-29.jsonl",
    ]
    for file, (seen, _, _) in zip(files, some, strict=True):
        assert [session.states for session in sessions(file)] == [{"plan": {"n": 3}}]
        assert [record.observation for record in decisions(file)] == [seen]


def test_a_clock_set_back_does_not_reopen_an_old_file(tmp_path):
    some = cycles(2, every_s=86_400)
    write(tmp_path, [some[1], some[0]])
    assert [record.decision_id for record in decisions(tmp_path)] == [2, 1]
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


@pytest.mark.parametrize(
    "rate", [0, 150, 4000], ids=["idle", "150 records/s a partition", "4000 records/s a partition"]
)
@pytest.mark.parametrize("executors", [1, 20])
def test_a_record_of_97_partitions_stays_under_2_kib(tmp_path, rate, executors):
    write(tmp_path, cycles(20, partitions=97, executors=executors, rate=rate))
    lines = next(tmp_path.glob("*.jsonl")).read_bytes().splitlines()
    sizes = [len(line) for line in lines if line.startswith(b'{"type":"decision"')]
    assert len(sizes) == 20
    assert max(sizes) <= 2048


def test_the_last_line_cut_short_is_left_out_and_told(tmp_path, caplog):
    write(tmp_path, cycles(3))
    file = next(tmp_path.glob("*.jsonl"))
    file.write_bytes(file.read_bytes()[:-40])
    with caplog.at_level(logging.WARNING, "rheostat.journal"):
        records = list(read_journal(tmp_path))
    assert len(records) == 3
    assert [record.decision_id for record in decisions(tmp_path)] == [1, 2]
    assert "cut short" in caplog.text


def test_a_new_writer_repairs_the_end_and_says_so(tmp_path):
    some = cycles(4)
    write(tmp_path, some[:3])
    file = next(tmp_path.glob("*.jsonl"))
    file.write_bytes(file.read_bytes()[:-40])
    write(tmp_path, some[3:])
    assert sessions(tmp_path)[0].note is None
    assert "repaired" in (sessions(tmp_path)[1].note or "")
    assert [record.decision_id for record in decisions(tmp_path)] == [1, 2, 4]
    assert decisions(tmp_path)[-1].observation == some[3][0]


def test_no_journal_is_an_input_fault(tmp_path):
    with pytest.raises(InputError) as error:
        list(read_journal(tmp_path / "nowhere"))
    assert [fault.field for fault in error.value.faults] == ["journal"]


def test_a_folder_that_cannot_be_made_is_an_input_fault(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as error:
        JournalWriter(tmp_path / "file" / "journal")
    assert error.value.faults[0].field == "journal"


def test_a_full_disk_at_the_start_is_an_input_fault(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        JournalWriter(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_second_writer_is_refused_while_the_first_lives(tmp_path):
    first = JournalWriter(tmp_path)
    with pytest.raises(InputError, match=f"process {os.getpid()}"):
        JournalWriter(tmp_path)
    first.close()
    JournalWriter(tmp_path).close()


def test_a_write_that_fails_leaves_no_trace_and_the_next_one_is_whole(tmp_path, monkeypatch):
    some = cycles(4, partitions=40)
    writer = JournalWriter(tmp_path)
    writer.start(HEADER)
    writer.record(DecisionRecord.of(*some[0]), states)
    with monkeypatch.context() as patch:
        real = os.write
        patch.setattr(os, "write", lambda handle, data: real(handle, data[:100]))
        for _ in range(2):
            with pytest.raises(JournalError, match="disk full"):
                writer.record(DecisionRecord.of(*some[1]), states)
    writer.record(DecisionRecord.of(*some[2]), states)
    writer.record(DecisionRecord.of(*some[3]), states)
    writer.close()
    records = decisions(tmp_path)
    assert [record.observation for record in records] == [some[0][0], some[2][0], some[3][0]]


def test_a_folder_that_was_removed_is_made_again(tmp_path):
    folder = tmp_path / "journal"
    some = cycles(2)
    writer = JournalWriter(folder)
    writer.start(HEADER)
    writer.record(DecisionRecord.of(*some[0]), states)
    next(folder.glob("*.jsonl")).unlink()
    writer.record(DecisionRecord.of(*some[1]), states)
    writer.close()
    assert len(sessions(folder)) == 1
    assert [record.observation for record in decisions(folder)] == [some[1][0]]


def test_nan_and_infinity_are_null_and_come_back(tmp_path):
    [(seen, meant, decided)] = cycles(1, partitions=2)
    query = seen.queries[0]
    assert query.batch is not None
    seen = dataclasses.replace(
        seen, queries=(dataclasses.replace(query, batch=dataclasses.replace(query.batch, duration_s=float("inf"))),)
    )
    meant = dataclasses.replace(meant, lag_s=float("nan"))
    write(tmp_path, [(seen, meant, decided)])
    text = next(tmp_path.glob("*.jsonl")).read_text()
    for line in text.splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} stands in the journal"))
    record = decisions(tmp_path)[0]
    assert record.observation == seen
    assert meaning(record).lag_s is None


def test_other_settings_begin_a_session(tmp_path):
    some = cycles(2)
    writer = JournalWriter(tmp_path)
    writer.start(HEADER)
    writer.record(DecisionRecord.of(*some[0]), states)
    writer.start(dataclasses.replace(HEADER, settings={"policy": "static"}), note="bounds changed")
    writer.record(DecisionRecord.of(*some[1]), states)
    writer.close()
    assert [session.header.settings["policy"] for session in sessions(tmp_path)] == ["reactive", "static"]


ROOT = Path(__file__).parents[2]
KILLED = """
import sys
from rheostat.journal.records import DecisionRecord, Header; from rheostat.journal.store import JournalWriter
from tests.journal.synthetic import Shape, cycles
writer = JournalWriter(sys.argv[1])
writer.start(Header("0.1.0", {}))
for seen, meant, decided in cycles(3000, Shape(97)):
    writer.record(DecisionRecord.of(seen, meant, decided), dict)
    print(decided.decision_id, flush=True)
"""


def test_what_was_confirmed_before_a_kill_is_in_the_journal(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    confirmed = [int(process.stdout.readline()) for _ in range(20)]
    os.kill(process.pid, signal.SIGKILL)
    confirmed += [int(line) for line in process.stdout.read().split(b"\n")[:-1]]
    process.stdout.close()
    process.wait()
    ids = [record.decision_id for record in decisions(tmp_path)]
    assert ids[: len(confirmed)] == confirmed
    assert len(ids) - len(confirmed) in (0, 1)


COUNT = st.none() | st.integers(0, 2**62)
SECONDS = st.none() | st.floats(0, 1e10)
NAME = st.text(max_size=6)
AT = st.floats(0, 2e9)
TOPICS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), unique=True, max_size=8)
OFFSETS = st.builds(
    Offsets.of,
    AT,
    TOPICS.flatmap(
        lambda named: st.tuples(
            *(st.builds(PartitionOffsets, st.just(t), st.just(p), COUNT, COUNT, COUNT) for t, p in named)
        )
    ),
    st.booleans(),
    st.none() | NAME,
)
QUERY = st.builds(
    QueryReading,
    st.sampled_from(["q1", "q2"]),
    NAME,
    st.none() | NAME,
    SECONDS,
    st.lists(st.builds(SourceInfo, NAME, NAME, COUNT, COUNT, st.dictionaries(NAME, NAME, max_size=2)), max_size=2).map(
        tuple
    ),
    st.none() | OFFSETS,
    st.none() | st.builds(Batch, AT, st.integers(), AT, SECONDS, SECONDS, SECONDS, COUNT, COUNT, COUNT),
    st.none() | st.builds(RunningBatch, AT, st.booleans(), COUNT, SECONDS),
    st.none() | NAME,
    st.none() | NAME,
    st.none() | NAME,
)
EXECUTOR = st.builds(
    Executor,
    st.sampled_from("123"),
    NAME,
    st.integers(1, 4),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
    SECONDS,
    SECONDS,
    st.none() | NAME,
    st.none() | st.integers(1, 4),
    st.booleans(),
    SECONDS,
)
CLUSTER = st.builds(Cluster.of, AT, st.lists(EXECUTOR, unique_by=lambda e: e.executor_id, max_size=3).map(tuple), COUNT)
OBSERVATION = st.builds(
    Observation,
    AT,
    st.lists(QUERY, max_size=2).map(tuple),
    st.none() | CLUSTER,
    st.lists(st.builds(Gap, NAME, NAME, st.none() | NAME), max_size=2).map(tuple),
)


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(OBSERVATION, max_size=6))
def test_any_sequence_of_observations_comes_back_exactly(seen):
    [(_, _, decided)] = cycles(1)
    encoder, decoder = Encoder(), Decoder()
    assert decoder.line(SESSION, "here") is not None
    back = []
    for observation in seen:
        for line in encoder.record(DecisionRecord.of(observation, None, decided)).splitlines(keepends=True):
            record = decoder.line(line, "here")
            if isinstance(record, DecisionRecord):
                back.append(record.observation)
    assert back == seen


def test_files_are_named_by_the_day_of_the_record_in_utc(tmp_path):
    write(tmp_path, cycles(1))
    assert [file.name for file in tmp_path.glob("*.jsonl")] == [
        f"journal-{datetime.fromtimestamp(START, UTC):%Y-%m-%d}.jsonl"
    ]
