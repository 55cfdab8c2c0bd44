"""The embedded log and checkpoints, from their files."""

import json

import pytest
from tests.observe import recorded

from rheostat.errors import UnavailableError
from rheostat.observe import rest as checkpoint
from rheostat.spark import log_files as log_folder
from rheostat.spark.jvm import Position


@pytest.fixture
def log(tmp_path):
    (tmp_path / "log.json").write_text('{"schema": "rheostat.log/1", "partitions": 3}')
    for name in (f"{0:020d}-{300:09d}.arrow", f"{300:020d}-{7:09d}.arrow", f".{307:020d}-{9:09d}.arrow", "notes.txt"):
        (tmp_path / "partition=0").mkdir(exist_ok=True)
        (tmp_path / "partition=0" / name).touch()
    (tmp_path / "partition=1").mkdir()
    return tmp_path


def test_the_latest_offset_is_the_end_of_the_greatest_whole_segment(log):
    assert log_folder.latest_offsets(log) == {("log", 0): 307, ("log", 1): 0, ("log", 2): 0}


def test_a_segment_more_is_seen_at_once(log):
    (log / "partition=1" / f"{0:020d}-{5:09d}.arrow").touch()
    assert log_folder.latest_offsets(log)["log", 1] == 5


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ('{"schema": "rheostat.log/1"}', "cannot be read"),
        ('{"schema": "rheostat.log/2", "partitions": 1}', "cannot be read: .*was written by another version"),
    ],
    ids=["no log", "torn", "no partitions", "another version"],
)
def test_a_log_that_is_not_there_or_not_understood(tmp_path, head, message):
    if head is not None:
        (tmp_path / "log.json").write_text(head)
    with pytest.raises(UnavailableError, match=message):
        log_folder.latest_offsets(tmp_path)


def checkpointed(folder, offsets, commits, start=recorded.KAFKA_START):
    for name, batches, text in (("offsets", offsets, None), ("commits", commits, recorded.COMMIT_LOG)):
        (folder / name).mkdir()
        for batch in batches:
            line = json.dumps({"clicks.a-b": {"0": 5 + batch, "1": 6 + batch}})
            (folder / name / str(batch)).write_text(text or recorded.OFFSET_LOG.rsplit("\n", 1)[0] + "\n" + line)
            (folder / name / f".{batch}.crc").touch()
    (folder / "metadata").write_text(recorded.METADATA)
    if start is not None:
        (folder / "sources" / "0").mkdir(parents=True)
        (folder / "sources" / "0" / "0").write_text(start)
    return folder


def at(batch):
    return ({"clicks.a-b": {"0": 5 + batch, "1": 6 + batch}},)


@pytest.mark.parametrize(
    ("offsets", "commits", "start", "expected"),
    [
        ([8, 9, 10], [8, 9], None, (10, True, at(9), at(10))),
        ([8, 9, 10], [8, 9, 10], None, (10, False, at(10), at(10))),
        ([0], [], recorded.KAFKA_START, (0, True, ({"clicks.a-b": {"0": 1, "1": 2}},), at(0))),
        ([0], [], None, (0, True, (None,), at(0))),
    ],
    ids=[
        "a batch is running",
        "none is running",
        "the first batch is running",
        "the first, of a source without a start",
    ],
)
def test_where_a_query_stands(tmp_path, offsets, commits, start, expected):
    found = checkpoint.position(checkpointed(tmp_path, offsets, commits, start))
    assert (found.batch_id, found.running, found.committed, found.planned) == expected
    assert (found.started_s is not None) is found.running


def test_the_recorded_offset_log():
    assert checkpoint.offset_log_entry(recorded.OFFSET_LOG) == ({"clicks.a-b": {"0": 5, "1": 6}},)
    assert checkpoint.offset_log_entry("v1\n{}\n-\n7") == (None, 7)


def test_an_offset_log_of_another_version_is_not_guessed_at(tmp_path):
    folder = checkpointed(tmp_path, [0], [])
    (folder / "offsets" / "0").write_text(recorded.OFFSET_LOG.replace("v1", "v2", 1))
    with pytest.raises(ValueError, match="'v2' is not understood"):
        checkpoint.position(folder)


def test_the_id_of_a_query(tmp_path):
    assert checkpoint.query_id(checkpointed(tmp_path, [], [])) == recorded.SLOW_ID


def test_what_is_no_checkpoint_is_unavailable(tmp_path):
    with pytest.raises(UnavailableError, match="no checkpoint of a query"):
        checkpoint.query_id(tmp_path)
    with pytest.raises(UnavailableError, match="no batch has been planned"):
        checkpoint.position(tmp_path)


def test_positions_of_the_driver_and_of_a_checkpoint_are_one_type(tmp_path):
    assert isinstance(checkpoint.position(checkpointed(tmp_path, [0], [0])), Position)
