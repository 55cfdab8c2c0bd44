"""Stages as Spark 4.2.0 described them in a run with foreachBatch, the newest first."""

from __future__ import annotations

from typing import Any

import pytest

from rheostat.model import Batch, ExecutorWork, StageWork
from rheostat.observe.parse import MOST_STAGES, with_stages

RUN = "4ea5260f-8d80-4659-b439-587a169c9111"
BATCH = Batch(1795875572.001, 4, 1.166, planning_s=0.102, add_batch_s=0.945, commit_s=0.109, records=1000)


def stage(
    number: int, batch: int | None, times: tuple[int | None, int | None, int | None], tasks: int, run_ms: int
) -> dict[str, Any]:
    begun, launched, ended = times
    text = f"r3\nid = 84d3e7a8-df2b-4601-a36f-546de777cbd4\nrunId = {RUN}\nbatch = {batch}"
    return {
        "status": "SKIPPED" if batch is None else "COMPLETE",
        "stageId": number,
        "numTasks": tasks,
        "submissionTime": begun,
        "firstTaskLaunchedTime": launched,
        "completionTime": ended,
        "executorRunTime": run_ms,
        "description": None if batch is None else text,
    }


def job(*stages: dict[str, Any], text: str | None = None, group: str | None = RUN) -> dict[str, Any]:
    """A job of these stages: with the batch as its description, unless another is given."""
    return {
        "stageIds": [each["stageId"] for each in stages],
        "jobGroup": group,
        "description": stages[0]["description"] if text is None else text or None,
        "submissionTime": stages[0]["submissionTime"],
        "completionTime": stages[0]["completionTime"],
    }


def each_a_job(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [job(each) for each in stages if each["status"] != "SKIPPED"]


def skipped(number: int) -> dict[str, Any]:
    return stage(number, None, (None, None, None), 3, 0)


RECORDED = [
    stage(25, 4, (1795875571321, 1795875571329, 1795875571362), 1, 12),
    skipped(24),
    skipped(23),
    stage(22, 4, (1795875571250, 1795875571258, 1795875571289), 1, 13),
    skipped(21),
    stage(20, 4, (1795875571080, 1795875571097, 1795875571199), 3, 85),
    stage(19, 3, (1795875570171, 1795875570184, 1795875570201), 1, 6),
]


def test_a_batch_with_three_stages():
    """33 + 31 + 102 ms in which one of them ran."""
    known = with_stages(BATCH, RUN, RECORDED, each_a_job(RECORDED))
    assert known.work_s == 0.166
    assert known.stages == (StageWork(3, 0.085), StageWork(1, 0.013), StageWork(1, 0.012))
    assert (known.duration_s, known.records) == (1.166, 1000)


def test_the_work_of_executors_where_it_is_asked_for():
    summary = {"1": {"taskTime": 40, "inputRecords": 300}, "0": {"taskTime": 50, "inputRecords": 700}}
    known = with_stages(
        BATCH, RUN, RECORDED, each_a_job(RECORDED), by_executor=lambda stage: summary if stage["stageId"] == 20 else {}
    )
    assert known.stages[0] == StageWork(3, 0.085, (ExecutorWork("0", 0.05, 700), ExecutorWork("1", 0.04, 300)))
    assert known.stages[1] == StageWork(1, 0.013)


def test_stages_beside_each_other_count_once():
    both = [stage(2, 4, (0, 1000, 5000), 2, 7), stage(1, 4, (0, 2000, 6000), 2, 7)]
    assert with_stages(BATCH, RUN, both, each_a_job(both)).work_s == 5.0


def test_one_stage_tells_the_tasks_too():
    only = [stage(1, 4, (0, None, 2500), 2, 7)]
    known = with_stages(BATCH, RUN, only, each_a_job(only))
    assert (known.work_s, known.stages) == (2.5, (StageWork(2, 0.007),))


def running(*_: object) -> list[dict[str, Any]]:
    return [stage(26, 4, (1795875571400, 1795875571410, None), 1, 0), *RECORDED]


@pytest.mark.parametrize(
    ("run", "stages"),
    [
        pytest.param(RUN, [], id="none"),
        pytest.param("another", RECORDED, id="of another run"),
        pytest.param(RUN, RECORDED[-1:], id="of another batch"),
        pytest.param(RUN, running(), id="one has not ended"),
        pytest.param(RUN, [RECORDED[0]] * MOST_STAGES, id="there may be more of them"),
        pytest.param(RUN, [RECORDED[0]] * (MOST_STAGES - 1) + [skipped(25)], id="there may be more before"),
    ],
)
def test_unknown(run, stages):
    assert with_stages(BATCH, run, stages, each_a_job(stages)) == BATCH


def test_all_are_there_if_an_older_batch_is():
    many = RECORDED + [skipped(1)] * (MOST_STAGES - len(RECORDED))
    assert with_stages(BATCH, RUN, many, each_a_job(many)).work_s == 0.166


def test_what_is_not_understood_is_said():
    with pytest.raises(ValueError, match="a stage or job that is not understood: KeyError"):
        with_stages(BATCH, RUN, RECORDED, [{"description": f"runId = {RUN} batch = 4"}])


WITHIN = (1795875571080, 1795875571097, 1795875571199)
OTHER = "0fdc7dc5-5d0a-4d0d-a3c2-26ed1d3c1d3a"


@pytest.mark.parametrize(
    ("text", "group", "times", "work_s"),
    [
        pytest.param("merge: 3 rows", RUN, WITHIN, 0.166, id="a description of its own, as of Delta's MERGE"),
        pytest.param(None, "mine", WITHIN, 0.166, id="a group of its own, from which on the run is in the text alone"),
        pytest.param("", "", WITHIN, None, id="a thread pool: no group and no description"),
        pytest.param("nightly", "mine", WITHIN, None, id="a group and a description of its own"),
        pytest.param("counts", OTHER, WITHIN, 0.064, id="of another query, in its foreachBatch"),
        pytest.param(
            f"r\nid = 1\nrunId = {OTHER}\nbatch = 4", "mine", WITHIN, 0.064, id="of another query, by its text"
        ),
        pytest.param("", "", (1795875570834, 0, 1795875571199), 0.064, id="it began before the batch"),
        pytest.param("", "", (1795875571080, 0, 1795875572002), 0.064, id="it ended after the batch"),
        pytest.param("", "", (1795875571080, 0, None), None, id="it has not ended as far as Spark says"),
    ],
)
def test_a_job_is_of_a_batch_by_its_group_or_text_and_the_time(text, group, times, work_s):
    """One of three jobs is another one; what may be a part of the batch's own work is never counted as all of it."""
    odd = stage(20, 4, times, 3, 85)
    stages = [odd if each["stageId"] == 20 else each for each in RECORDED]
    jobs = [job(odd, text=text, group=group) if each["stageIds"] == [20] else each for each in each_a_job(stages)]
    assert with_stages(BATCH, RUN, stages, jobs, {OTHER}).work_s == work_s


def test_a_stage_that_was_skipped_has_no_work():
    assert with_stages(BATCH, RUN, RECORDED[:3], [job(RECORDED[0], skipped(24), skipped(23))]).work_s == 0.033


def test_a_batch_of_more_jobs_than_are_read_is_unknown():
    many = [job(RECORDED[0])] * MOST_STAGES
    assert with_stages(BATCH, RUN, RECORDED, many) == BATCH
    assert with_stages(BATCH, RUN, RECORDED, [*many[1:], job(RECORDED[-1])]).work_s == 0.033


@pytest.mark.parametrize(
    ("read", "reread"),
    [
        pytest.param((1000, 2_000_000, 0), (0.013, 0.013, 2_000_000), id="a table"),
        pytest.param((500_000, 2_000_000, 0), (0.098, pytest.approx(0.085 / 3), 2_500_000), id="two tables"),
        pytest.param((1000, 1000, 0), (0, 0.0, 0), id="the records of the batch, read by two actions"),
        pytest.param((1000, 3, 0), (0, 0.0, 0), id="the parts of a batch that is kept"),
        pytest.param((1000, None, 0), (None, None, None), id="not told"),
    ],
)
def test_stages_that_read_more_than_the_batch_has_read_other_data(read, reread):
    stages = [each for each in RECORDED if each["stageId"] in (20, 22, 25)]
    told = [each | {"inputRecords": n} for each, n in zip(stages, reversed(read), strict=True)]
    known = with_stages(BATCH, RUN, told, each_a_job(told))
    assert (known.reread_s, known.reread_least_s, known.reread_records) == reread
