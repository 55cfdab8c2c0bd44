"""Stages as Spark 4.2.0 described them in a run with foreachBatch, the newest first."""

from __future__ import annotations

from typing import Any

import pytest

from rheostat.model import Batch, StageWork
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
    known = with_stages(BATCH, RUN, RECORDED)
    assert known.work_s == 0.166
    assert known.stages == (StageWork(3, 0.085), StageWork(1, 0.013), StageWork(1, 0.012))
    assert (known.duration_s, known.records) == (1.166, 1000)


def test_stages_beside_each_other_count_once():
    both = [stage(2, 4, (0, 1000, 5000), 2, 7), stage(1, 4, (0, 2000, 6000), 2, 7)]
    assert with_stages(BATCH, RUN, both).work_s == 5.0


def test_one_stage_tells_the_tasks_too():
    known = with_stages(BATCH, RUN, [stage(1, 4, (0, None, 2500), 2, 7)])
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
        pytest.param(RUN, [RECORDED[0]] * (MOST_STAGES - 1) + [skipped(1)], id="there may be more before"),
    ],
)
def test_unknown(run, stages):
    assert with_stages(BATCH, run, stages) == BATCH


def test_all_are_there_if_an_older_batch_is():
    many = RECORDED + [skipped(1)] * (MOST_STAGES - len(RECORDED))
    assert with_stages(BATCH, RUN, many).work_s == 0.166


def test_what_is_not_understood_is_said():
    with pytest.raises(ValueError, match="a stage that is not understood: KeyError"):
        with_stages(BATCH, RUN, [{"description": f"runId = {RUN} batch = 4"}])
