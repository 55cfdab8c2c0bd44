"""Job files: what is taken, and every fault that is named."""

import pytest
from tests.sim.jobs import PLAIN

from rheostat.errors import InputError
from rheostat.judge.cases import load_job, preset_names
from rheostat.model import Bounds
from rheostat.sim.events import SlowExecutor
from rheostat.sim.jobfile import JobFile, job_of


def faults_of(values):
    with pytest.raises(InputError) as caught:
        job_of(values)
    return {fault.field: fault for fault in caught.value.faults}


def test_presets_are_there_and_can_be_read():
    assert preset_names() == ("base", "click-fraud", "flink-cars", "gesscale")
    assert {name: load_job(name).name for name in preset_names()} == {name: name for name in preset_names()}


def test_the_base_job():
    job = load_job("base")
    assert (job.trigger_s, job.partitions, job.bounds, job.period_s) == (10.0, 24, Bounds(1, 20), 30.0)
    assert (job.executor.cores, job.executor.start_up.median_s, job.rescale.mode) == (1, 10.0, "live")


def test_a_file_is_read_and_the_rest_has_its_defaults(tmp_path):
    file = tmp_path / "orders.yaml"
    file.write_text(
        "name: orders\nobjective: lag < 1 min\nexecutors: [2, 8]\nstages:\n  - {name: read, cost_ms: 1}\n"
        "events:\n  - {kind: slow, at_s: 60, factor: 2}\n"
    )
    job = load_job(file)
    assert (job.job_schema, job.model, job.trigger_s, job.batch_cap) == ("rheostat.job/1", "micro-batch", 10.0, None)
    assert (job.stages[0].cost_ms, job.stages[0].task_ms, job.stages[0].tasks) == (1.0, 20.0, None)
    slow = job.events[0]
    assert isinstance(slow, SlowExecutor)
    assert (slow.factor, slow.executor, slow.until_s) == (2.0, 0, float("inf"))


def test_overrides_reach_into_sections_and_lists():
    job = load_job(
        "base",
        {
            "objective": "lag < 10s",
            "trigger_s": 2,
            "executor.start_up.median_s": 60.0,
            "executor.start_up.p95_s": 90.0,
            "stages.1.cost_ms": 0.9,
            "driver": {"commit_s": 1.0},
        },
    )
    assert (job.objective_s, job.executor.start_up.median_s, job.stages[1].cost_ms) == (10.0, 60.0, 0.9)
    assert (job.driver.planning_s, job.driver.commit_s) == (0.3, 1.0)


@pytest.mark.parametrize(
    ("given", "hint"),
    [("bsae", "did you mean 'base'?"), ("zzz", "there is no job of this name"), ("none.yaml", "cannot be read")],
)
def test_a_job_that_is_not_there_is_an_input_error(given, hint):
    with pytest.raises(InputError) as caught:
        load_job(given)
    assert hint in caught.value.faults[0].message


@pytest.mark.parametrize(
    ("change", "field", "allowed"),
    [
        pytest.param({"schema": "rheostat.job/2"}, "schema", "rheostat.job/1", id="another version"),
        pytest.param({"objective": "fast"}, "objective", "'lag < DURATION", id="objective not understood"),
        pytest.param({"objective": "lag < 3s"}, "objective", "two triggers, 4 s", id="shorter than two batches"),
        pytest.param({"executors": [5, 2]}, "executors", "minimum ≤ maximum", id="bounds in the wrong order"),
        pytest.param({"executors": [1, 10_001]}, "executors", "at most 10000", id="more than anybody simulates"),
        pytest.param({"start_executors": 9}, "start_executors", "from 1 to 8", id="a start out of bounds"),
        pytest.param({"stages": []}, "stages", "a list of stages", id="no stages"),
        pytest.param({"stages": [{"name": "a"}]}, "stages.0.cost_ms", "number ≥ 0", id="a stage without a cost"),
        pytest.param(
            {"stages": [{"name": "a", "cost_ms": -1}]}, "stages.0.cost_ms", "number ≥ 0", id="a negative cost"
        ),
        pytest.param(
            {"stages": [{"name": "a", "cost_ms": 1}, {"name": "a", "cost_ms": 1}]},
            "stages.1.name",
            "each name once",
            id="two stages of one name",
        ),
        pytest.param(
            {"stages": [{"name": "a", "cost_ms": 1, "skew": 1}]}, "stages.0.skew", "number of tasks", id="skew of reads"
        ),
        pytest.param({"partition_shares": [1, 2]}, "partition_shares", "1 numbers", id="shares that do not fit"),
        pytest.param({"model": "record"}, "record", "keys with values", id="a record job without a capacity"),
        pytest.param({"model": "batch"}, "model", "`micro-batch`, `record`", id="no such model"),
        pytest.param({"rescale": {"mode": "hot"}}, "rescale.mode", "`live`, `restart`", id="no such mode"),
        pytest.param(
            {"executor": {"start_up": {"median_s": 5, "p95_s": 4}}},
            "executor.start_up.p95_s",
            "≥ median_s (5)",
            id="a percentile under the median",
        ),
        pytest.param(
            {"record": {"table": [[4, 1.0], [2, 2.0]]}}, "record.table", "executors ascending", id="table that descends"
        ),
        pytest.param({"partition_shares": [10**400]}, "partition_shares.0", "numbers", id="a share beyond a float"),
        pytest.param({"record": {"table": [[4, 10**400]]}}, "record.table.0", "pairs of numbers", id="beyond a float"),
        pytest.param({"record": {"table": [[4, True]]}}, "record.table.0", "pairs of numbers", id="a word for a rate"),
        pytest.param({"record": {"table": [[4]]}}, "record.table.0", "pairs of numbers", id="table without pairs"),
        pytest.param({"events": [{"kind": "slow"}]}, "events.0.at_s", "number ≥ 0", id="an event without a time"),
        pytest.param(
            {"events": [{"kind": "code", "at_s": 0, "factor": 2, "stage": "x"}]},
            "events.0.stage",
            "read",
            id="no stage",
        ),
        pytest.param(
            {"events": [{"kind": "metrics", "at_s": 0, "missing": ["lag"]}]},
            "events.0.missing.0",
            "list of",
            id="no such section",
        ),
    ],
)
def test_a_wrong_value_is_one_fault_at_its_key(change, field, allowed):
    faults = faults_of({**PLAIN, **change})
    assert field in faults
    assert allowed in faults[field].allowed


@pytest.mark.parametrize(
    ("change", "field", "meant"),
    [
        pytest.param({"triger_s": 1}, "triger_s", "trigger_s", id="mistyped"),
        pytest.param({"cores": 2}, "cores", "executor.cores", id="section forgotten"),
        pytest.param({"driver": {"planing_s": 1}}, "driver.planing_s", "driver.planning_s", id="in a section"),
        pytest.param(
            {"stages": [{"name": "a", "cost_ms": 1, "barier": False}]},
            "stages.0.barier",
            "stages.0.barrier",
            id="in a list",
        ),
        pytest.param(
            {"events": [{"kind": "slow", "at_s": 0, "factr": 2}]}, "events.0.factr", "events.0.factor", id="in an event"
        ),
    ],
)
def test_an_unknown_key_is_a_fault_that_names_the_one_that_was_meant(change, field, meant):
    assert faults_of({**PLAIN, **change})[field].message == f"unknown key; did you mean {meant!r}?"


def test_an_unknown_kind_of_event_has_its_hint():
    fault = faults_of({**PLAIN, "events": [{"kind": "ded", "at_s": 0}]})["events.0.kind"]
    assert fault.message == "no such kind; did you mean 'dead'?"
    assert "no-room" in fault.allowed


def test_everything_that_is_wrong_is_named_at_once(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(
        "objective: x\nexecutors: [0, 2]\ntrigger_s: -1\ntrigger_s: 2\nstages:\n  - {nam: read, cost_ms: 1}\n"
    )
    with pytest.raises(InputError) as caught:
        load_job(file)
    fields = {fault.field for fault in caught.value.faults}
    assert fields == {"trigger_s", "name", "objective", "executors", "stages.0.name", "stages.0.nam"}


def test_a_job_survives_json():
    job = load_job("flink-cars", {"events": [{"kind": "dead", "at_s": 1}]})
    assert JobFile.model_validate_json(job.model_dump_json(by_alias=True)) == job
