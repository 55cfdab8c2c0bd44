"""Training of single jobs, and what is kept of it. The pipeline on a real Spark: tests/cluster/test_fleet.py."""

from __future__ import annotations

import json
import math

import pytest
from tests.fleet.jobs import write_history

from rheostat.errors import InputError
from rheostat.fleet.history import Row, jobs_in, write_rows
from rheostat.fleet.train import JobModel, capacity_of, read_models, train_job, training_options, write_models
from rheostat.learn.slow_records import Sample, TrainingOptions, train
from rheostat.research.bench.training import compare_models, synthetic_rows

OPTIONS = TrainingOptions(degrees=(1, 2, 3), resamples=20)


def test_a_job_is_trained_as_in_process_and_its_model_is_read_back(tmp_path):
    rows = synthetic_rows(3, 120)
    write_rows(tmp_path / "history", "job", "a", rows)
    (files,) = jobs_in(tmp_path / "history").values()
    found = train_job("job", files, OPTIONS)
    alone = train([row.sample for row in rows], capacity_of(rows, OPTIONS.objective), OPTIONS)
    assert (found.fault, found.rows, found.degree) == (None, 120, alone.degree)
    assert found.coefficients == list(alone.model.polynomial.coefficients)
    write_models(tmp_path / "out", [found], {"seed": 0})
    model = read_models(tmp_path / "out")["job"]
    assert model == alone.model
    points = [((rate,), n) for rate in (0.0, 900.0, 4000.0) for n in (1, 3, 50)]
    assert [model.predict(*point) for point in points] == [alone.model.predict(*point) for point in points]


FAULTS = {
    "damaged": "it cannot be read: ",
    "nan": "samples[3].slow",
    "no slow": "slow: ",
    "few": "samples: there is too little to learn from",
    "text": "it holds no numbers",
    "nothing": "samples: there is too little to learn from",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    history = tmp_path_factory.mktemp("history")
    write_history(history)
    return {job: train_job(job, files, OPTIONS) for job, files in jobs_in(history).items()}


@pytest.mark.parametrize(("job", "fault"), FAULTS.items())
def test_a_broken_job_has_its_fault_in_its_row(trained, job, fault):
    assert fault in (trained[job].fault or "")
    assert trained[job] == JobModel(job, fault=trained[job].fault)


def test_what_is_not_broken_has_a_model(trained):
    sound = {job: (each.rows, each.degree in OPTIONS.degrees) for job, each in trained.items() if each.fault is None}
    assert sound == {"clicks": (60, True), "ads/eu: 50 %": (70, True), "007": (80, True), "Zürich": (90, True)}


def test_the_files_say_the_same_and_nothing_that_is_no_json(trained, tmp_path):
    write_models(tmp_path, list(trained.values()), {"seed": 7})
    told = json.loads((tmp_path / "models.json").read_text(), parse_constant=pytest.fail)
    assert (told["schema"], told["options"]) == ("rheostat.models/1", {"seed": 7})
    by_name = {each["job"]: each for each in told["jobs"]}
    assert list(by_name) == sorted(trained)
    assert by_name["007"]["model"]["polynomial"]["coefficients"] == trained["007"].coefficients
    assert by_name["few"]["model"] is None
    assert set(read_models(tmp_path)) == {"clicks", "ads/eu: 50 %", "007", "Zürich"}


def test_models_that_are_none_are_refused(tmp_path):
    with pytest.raises(InputError, match="it cannot be read"):
        read_models(tmp_path)


def row(slow: float, processed: float | None, rate: float = 900.0, n: int = 3) -> Row:
    return Row(Sample(0.0, (rate / 2, rate / 2), n, slow), processed)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([row(0.05, 600.0)], None, id="no violation"),
        pytest.param([row(0.5, None)], None, id="nothing known of what was processed"),
        pytest.param([row(0.1, 600.0)], 200.0, id="processed over executors"),
        pytest.param([row(0.5, 1200.0)], 300.0, id="no more than arrives: the rest was backlog"),
        pytest.param([row(0.5, 600.0), row(0.5, 300.0)], 150.0, id="the mean"),
        pytest.param([row(0.5, 0.0), row(0.5, math.nan), row(0.5, 600.0)], 200.0, id="what says nothing is left out"),
    ],
)
def test_the_capacity_is_what_violations_show(rows, expected):
    assert capacity_of(rows, 0.1) == expected


def test_models_that_differ_are_counted():
    one = [JobModel("a", degree=1, coefficients=[2.0, -4.0]), JobModel("b", degree=2, coefficients=[0.0])]
    two = [JobModel("a", degree=1, coefficients=[2.0, -4.5]), JobModel("b", degree=3, coefficients=[0.0])]
    assert compare_models(one, two) == (1, 0.125)
    assert compare_models(one, one) == (0, 0.0)


def test_options_are_named_with_all_their_faults():
    with pytest.raises(InputError) as caught:
        training_options(["seeds=7", "resamples=many", "degrees"])
    assert {fault.field for fault in caught.value.faults} == {"seeds", "resamples", "--set"}
    assert "did you mean 'seed'?" in str(caught.value)
    with pytest.raises(InputError) as caught:
        training_options(["resamples=1", "folds=1"])
    assert {fault.field for fault in caught.value.faults} == {"resamples", "folds"}
    assert training_options(["seed=7", "outliers=false"]) == TrainingOptions(seed=7, outliers=False)


def test_a_history_to_measure_with_is_the_same_every_time_and_has_violations():
    rows = synthetic_rows(5, 450)
    assert rows == synthetic_rows(5, 450) != synthetic_rows(6, 450)
    assert sum(each.sample.slow >= 0.1 for each in rows) == 44
    assert {each.sample.executors for each in rows} == {2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
