"""The history of a fleet: names of jobs as folders, rows as files, and what is wrong with either."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rheostat.errors import InputError
from rheostat.fleet.history import Row, job_folder, jobs_in, read_rows, write_rows
from rheostat.learn.slow_records import Sample

ROWS = [Row(Sample(0.0, (100.0, 5.5), 2, 0.0), 90.5), Row(Sample(15.0, (120.0, 6.0), 3, 0.25), None)]


@pytest.mark.parametrize(
    ("job", "folder"),
    [
        ("clicks", "job=clicks"),
        ("007", "job=007"),
        ("ads/eu: 50 %", "job=ads%2Feu%3A 50 %25"),
        ("a=b#c?[x]^", "job=a%3Db%23c%3F%5Bx%5D%5E"),
        ("Zürich 東京", "job=Zürich 東京"),
        ("%2F", "job=%252F"),
        ("..", "job=.."),
    ],
)
def test_a_name_becomes_a_folder_as_spark_names_it_and_is_read_back(tmp_path, job, folder):
    write_rows(tmp_path, job, "a", ROWS)
    assert job_folder(tmp_path, job) == tmp_path / folder
    assert jobs_in(tmp_path) == {job: [tmp_path / folder / "a.parquet"]}


def test_rows_are_read_as_they_were_written_from_all_files_of_a_job(tmp_path):
    write_rows(tmp_path, "job", "b", ROWS[1:])
    write_rows(tmp_path, "job", "a", ROWS[:1])
    (tmp_path / "job=job" / "_SUCCESS").touch()
    (tmp_path / "job=job" / ".a.parquet-17").write_bytes(b"torn")
    assert read_rows(jobs_in(tmp_path)["job"]) == ROWS


def test_a_source_that_is_collected_again_replaces_what_it_gave_before(tmp_path):
    write_rows(tmp_path, "job", "a", ROWS[:1])
    write_rows(tmp_path, "job", "a", ROWS)
    assert read_rows(jobs_in(tmp_path)["job"]) == ROWS


@pytest.mark.parametrize("job", ["", "x" * 252])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path, job):
    with pytest.raises(InputError, match="it cannot be a folder's name"):
        write_rows(tmp_path, job, "a", ROWS)


@pytest.mark.parametrize(("folder", "message"), [("none", "no such folder"), (".", "no jobs in it")])
def test_a_missing_history_is_reported(tmp_path, folder, message):
    with pytest.raises(InputError, match=message):
        jobs_in(tmp_path / folder)


def written(path: Path, **columns: object) -> Path:
    whole = {"at": [0.0, 15.0], "workload": [[1.0], [2.0]], "executors": [1, 1], "slow": [0.0, 0.5]}
    kept = {name: values for name, values in (whole | columns).items() if values is not None}
    pq.write_table(pa.table(kept), path)
    return path


@pytest.mark.parametrize(
    ("columns", "faults"),
    [
        pytest.param({"executors": None}, [("executors", "columns at, workload, slow")], id="a column is missing"),
        pytest.param({"slow": ["none", "some"]}, [("slow", "string")], id="text instead of numbers"),
        pytest.param({"at": [0.0, None]}, [("at", "1 of 2 values missing")], id="a gap"),
        pytest.param({"executors": [1.5, 2.0]}, [("executors", "double")], id="half an executor"),
        pytest.param({"workload": [[1.0], None]}, [("workload", "1 of 2 values missing")], id="no workload in a row"),
        pytest.param(
            {"workload": [[1.0], [None]]}, [("workload", "1 of 2 values missing")], id="no rate in a workload"
        ),
        pytest.param({"workload": [["a"], ["b"]]}, [("workload", "string")], id="text in a workload"),
        pytest.param({"workload": ["a", "b"]}, [("workload", "string")], id="text for a workload"),
        pytest.param(
            {"at": ["x", "y"], "slow": None, "workload": None},
            [("at", "string"), ("slow", "columns at, executors"), ("workload", "columns at, executors")],
            id="several at once",
        ),
    ],
)
def test_all_faults_of_a_table_are_reported_at_once(tmp_path, columns, faults):
    path = written(tmp_path / "a.parquet", **columns)
    with pytest.raises(InputError) as caught:
        read_rows([path])
    assert [(fault.field, fault.given) for fault in caught.value.faults] == faults
    assert all(fault.message.startswith(str(path)) for fault in caught.value.faults)


def test_a_plain_number_is_the_workload_of_one_topic_and_whole_numbers_may_be_floats(tmp_path):
    path = written(tmp_path / "a.parquet", workload=[1, 2], executors=[1.0, 2.0], processed=[0.5, None])
    assert read_rows([path]) == [Row(Sample(0.0, (1.0,), 1, 0.0), 0.5), Row(Sample(15.0, (2.0,), 2, 0.5), None)]


def test_all_damaged_files_of_a_job_are_named(tmp_path):
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in paths:
        path.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(InputError) as caught:
        read_rows(paths)
    assert [(fault.field, fault.given) for fault in caught.value.faults] == [("file", str(path)) for path in paths]
