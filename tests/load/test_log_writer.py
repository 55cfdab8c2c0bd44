"""The log on disk: what is written can be read, whole or not at all."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from rheostat.errors import InputError, RheostatError
from rheostat.load.log_writer import LogSink, LogWriter
from rheostat.load.payload import Records
from rheostat.load.producer import partition_of
from rheostat.spark.log_files import LogFolder


def read(folder: Path, partition: int) -> list[dict]:
    rows = []
    for file in sorted(folder.glob(f"partition={partition}/[0-9]*.arrow")):
        with pa.ipc.open_file(pa.OSFile(str(file))) as segment:
            rows += segment.read_all().to_pylist()
    return rows


def names(folder: Path, partition: int) -> list[str]:
    return sorted(path.name for path in (folder / f"partition={partition}").iterdir())


def test_what_is_appended_is_read(tmp_path):
    with LogWriter(tmp_path / "log", 2) as log:
        assert log.append(1, ["a", "b"], 1_700_000_000.25) == 0
        assert log.append(1, ["c"], 1_700_000_001.0) == 2
        assert log.ends() == {0: 0, 1: 3}
    rows = read(tmp_path / "log", 1)
    assert [row["value"] for row in rows] == ["a", "b", "c"]
    assert [row["timestamp"].timestamp() for row in rows] == [1_700_000_000.25, 1_700_000_000.25, 1_700_000_001.0]
    assert names(tmp_path / "log", 1) == [f"{0:020d}-{2:09d}.arrow", f"{2:020d}-{1:09d}.arrow"]
    assert json.loads((tmp_path / "log" / "log.json").read_text()) == {"schema": "rheostat.log/1", "partitions": 2}


def test_the_columns_are_as_agreed(tmp_path):
    with LogWriter(tmp_path, 1) as log:
        log.append(0, ["a"], 0.0)
    with pa.ipc.open_file(pa.OSFile(str(tmp_path / "partition=0" / names(tmp_path, 0)[0]))) as segment:
        assert segment.schema == pa.schema([("value", pa.string()), ("timestamp", pa.timestamp("us", tz="UTC"))])


def test_the_reader_of_the_log_source_sees_the_same_ends(tmp_path):
    with LogWriter(tmp_path, 3) as log:
        log.append(2, ["a"] * 5, 0.0)
        assert LogFolder(str(tmp_path)).latest() == log.ends() == {0: 0, 1: 0, 2: 5}


def test_a_new_writer_goes_on_at_the_end(tmp_path):
    with LogWriter(tmp_path, 2) as log:
        log.append(0, ["a", "b"], 0.0)
    with LogWriter(tmp_path) as again:
        assert again.partitions == 2
        assert again.append(0, ["c"], 0.0) == 2
    assert [row["value"] for row in read(tmp_path, 0)] == ["a", "b", "c"]


def test_a_log_has_eight_partitions_by_default(tmp_path):
    with LogWriter(tmp_path) as log:
        assert log.partitions == 8


def test_a_segment_is_not_visible_before_it_is_whole(tmp_path, monkeypatch):
    seen = []
    rename = Path.rename

    def look_then_rename(self, target):
        seen.append((LogFolder(str(tmp_path)).latest()[0], names(tmp_path, 0)))
        return rename(self, target)

    with LogWriter(tmp_path, 1) as log:
        monkeypatch.setattr(Path, "rename", look_then_rename)
        log.append(0, ["a", "b"], 0.0)
        assert LogFolder(str(tmp_path)).latest() == {0: 2}
    assert seen == [(0, [f".{0:020d}-{2:09d}.arrow"])]


def test_a_failed_write_leaves_nothing_and_can_be_tried_again(tmp_path):
    with LogWriter(tmp_path, 1) as log:
        blocked = tmp_path / "partition=0" / f"{0:020d}-{1:09d}.arrow"
        blocked.mkdir()
        with pytest.raises(RheostatError, match="cannot append to the log"):
            log.append(0, ["a"], 0.0)
        assert log.ends() == {0: 0}
        assert names(tmp_path, 0) == [blocked.name]
        blocked.rmdir()
        assert log.append(0, ["a"], 0.0) == 0


def test_a_second_writer_is_refused(tmp_path):
    with LogWriter(tmp_path, 1), pytest.raises(InputError, match="another process is writing"):
        LogWriter(tmp_path)
    LogWriter(tmp_path).close()


def test_after_a_crash_the_log_goes_on_and_leftovers_are_gone(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path; from rheostat.load.log_writer import LogWriter\n"
        "log = LogWriter(Path(sys.argv[1]), 1); log.append(0, ['a', 'b'], 0.0)\n"
        "(log.folder / 'partition=0' / f'.{2:020d}-{3:09d}.arrow').write_bytes(b'half')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    died = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, timeout=60)
    assert died.returncode == -9
    with LogWriter(tmp_path) as log:
        assert names(tmp_path, 0) == [f"{0:020d}-{2:09d}.arrow"]
        assert log.append(0, ["c"], 0.0) == 2
    assert [row["value"] for row in read(tmp_path, 0)] == ["a", "b", "c"]


def test_another_number_of_partitions_is_refused(tmp_path):
    LogWriter(tmp_path, 2).close()
    with pytest.raises(InputError) as caught:
        LogWriter(tmp_path, 3)
    (fault,) = caught.value.faults
    assert (fault.field, fault.given, fault.allowed) == ("--partitions", "3", "2")


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(InputError, match="holds other things"):
        LogWriter(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "log").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        LogWriter(tmp_path / "log")


def test_the_sink_acknowledges_what_is_written(tmp_path):
    time = [100.0]
    sink = LogSink(LogWriter(tmp_path, 4), roll_s=0.5, now=lambda: time[0])
    keys = [f"key {number % 7}" for number in range(50)]
    assert sink.send(Records(10, [f"value {number}" for number in range(50)], keys)) == 50
    assert sink.collect().acknowledged == ()
    time[0] = 100.5
    receipt = sink.collect()
    assert sorted(receipt.acknowledged) == list(range(10, 60))
    assert receipt.size == sum(len(f"value {number}") for number in range(50))
    for partition in range(4):
        expected = [f"value {n}" for n in range(50) if partition_of(keys[n], 4) == partition]
        assert [row["value"] for row in read(tmp_path, partition)] == expected
    assert sink.finish(1.0).acknowledged == []


def test_records_without_a_key_go_round(tmp_path):
    sink = LogSink(LogWriter(tmp_path, 3))
    sink.send(Records(1, ["a", "b", "c", "d"], None))
    assert sink.finish(1.0).failed == 0
    assert [[row["value"] for row in read(tmp_path, partition)] for partition in range(3)] == [["c"], ["a", "d"], ["b"]]


def test_the_finished_sink_lets_another_writer_in(tmp_path):
    sink = LogSink(LogWriter(tmp_path, 1))
    sink.finish(1.0)
    sink.finish(1.0)
    LogWriter(tmp_path).close()


def test_what_cannot_be_written_is_counted(tmp_path):
    sink = LogSink(LogWriter(tmp_path, 1))
    sink.send(Records(0, ["a", "b"], None))
    (tmp_path / "partition=0" / f"{0:020d}-{2:09d}.arrow").mkdir()
    receipt = sink.finish(1.0)
    assert (receipt.acknowledged, receipt.failed) == ([], 2)
    assert receipt.error is not None
    assert "cannot append to the log" in receipt.error
