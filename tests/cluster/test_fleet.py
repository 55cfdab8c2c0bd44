"""The training of a fleet on a real Spark: the same models as in process, and no job stops another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.jobs import BROKEN, SOUND, write_history

from rheostat.cli import main
from rheostat.fleet.history import jobs_in
from rheostat.fleet.train import read_models, session, train_fleet, train_job
from rheostat.host.java import find_java
from rheostat.learn.slow_records import TrainingOptions

pytestmark = pytest.mark.cluster

OPTIONS = TrainingOptions(degrees=(1, 2, 3, 4), resamples=50, seed=7)


@pytest.fixture(autouse=True)
def _java() -> Iterator[None]:
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(find_java().home)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    write_history(folder)
    return folder


def test_the_pipeline_gives_the_models_and_the_faults_that_a_process_gives(history: Path) -> None:
    jobs = jobs_in(history)
    alone = {job: train_job(job, files, OPTIONS) for job, files in jobs.items()}
    with session("local[2]") as spark:
        together = train_fleet(spark, jobs, OPTIONS)

    assert [each.job for each in together] == sorted((*SOUND, *BROKEN))
    for each in together:
        one = alone[each.job]
        same = ("job", "fault", "rows", "outliers", "degree", "stable")
        assert [getattr(each, name) for name in same] == [getattr(one, name) for name in same]
        assert each.coefficients == (None if one.coefficients is None else pytest.approx(one.coefficients, rel=1e-9))
        assert each.spread == (None if one.spread is None else pytest.approx(one.spread, rel=1e-9))
    assert {each.job for each in together if each.fault is not None} == set(BROKEN)


def test_spark_reads_a_history_as_one_table(history: Path) -> None:
    folders = [str(folder) for folder in history.iterdir() if any(name in str(folder) for name in ("=clicks", "=007"))]
    with session("local[2]") as spark:
        spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        table = spark.read.option("basePath", str(history)).parquet(*folders)
        counts = {row["job"]: row["count"] for row in table.groupBy("job").count().collect()}
        first = table.where("job = '007' and at = 0").first()

    assert counts == {"clicks": 60, "007": 80}
    assert first is not None
    assert (first["executors"], len(first["workload"])) == (2, 1)


def test_the_command_trains_what_is_sound_and_tells_the_rest(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ["--set", "degrees=[1, 2]", "--set", "resamples=20", "--jobs", "2"]
    asked = ["--history", str(history), "--out", str(tmp_path / "out"), *quick]

    assert main(["fleet", "train", *asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {each["job"]: each["fault"] is None for each in told["jobs"]} == {
        **dict.fromkeys(SOUND, True),
        **dict.fromkeys(BROKEN, False),
    }
    assert set(read_models(tmp_path / "out")) == set(SOUND)
    assert main(["fleet", "train", *asked, "--job", "few", "--json"]) == 1
