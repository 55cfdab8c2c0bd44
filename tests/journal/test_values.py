import json
from dataclasses import replace

import pytest

from rheostat.journal.codec import Decoder, Encoder, session_line
from rheostat.journal.records import (
    DecisionRecord,
    Header,
    SessionRecord,
    assessment_from_json,
    assessment_to_json,
    decision_from_json,
    decision_to_json,
)
from rheostat.model import (
    Action,
    Assessment,
    Batch,
    Decision,
    ExecutorWork,
    Observation,
    Offsets,
    QueryLoad,
    QueryReading,
    Reason,
    ReasonCode,
    Recommendation,
    StageLoad,
    StageWork,
    Unmeasured,
)


@pytest.mark.parametrize(
    ("idle_s", "written"),
    [
        pytest.param((90.5, 90.5, 90.5, 15.0, 0.0, 0.0), [[90.5, 3], [15.0, 1], [0.0, 2]], id="as runs"),
        pytest.param((), [], id="none is idle"),
    ],
)
def test_idle_times(idle_s, written):
    seen = Assessment(12.0, executors=6, idle_s=idle_s, missing=("lag_s",))
    data = assessment_to_json(seen, 12.0)
    assert json.loads(json.dumps(data)) == {"executors": 6, "idle_s": written, "missing": ["lag_s"]}
    assert assessment_from_json(json.loads(json.dumps(data)), 12.0) == seen


def test_health_and_stages():
    seen = Assessment(
        12.0,
        sink="the last batch took 20.0 s, 15.0 s of them after its tasks",
        slow=("node b", "executor 3 on a"),
        slow_executors=("1", "2", "3"),
        slow_on=("b", "b", "a"),
        slow_nodes=("b",),
        excluded=("4",),
        excluded_on=("c",),
        slow_factor=3.0400001,
        slower=("7",),
        skew=1.25,
        useful_executors=10,
        stages=(StageLoad(8, 0.75, 3.0), StageLoad(20, 0.25)),
    )
    data = json.loads(json.dumps(assessment_to_json(seen, 12.0)))
    assert (data["slow_factor"], data["stages"]) == (3.04, [[8, 0.75, 3.0], [20, 0.25, None]])
    assert assessment_from_json(data, 12.0) == replace(seen, slow_factor=3.04)


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([[18.0, 2**70]], id="more than fit into memory"),
        pytest.param([[18.0, 600_000], [3.0, 600_000]], id="too many together"),
        pytest.param([[18.0, -1]], id="fewer than none"),
        pytest.param([[18.0, 2.5]], id="no integer"),
    ],
)
def test_a_count_that_no_job_can_have_is_a_fault_of_the_line(runs):
    with pytest.raises(ValueError, match="a count is no integer from 0 to 1000000"):
        assessment_from_json({"idle_s": runs}, 12.0)


def test_who_leaves_first():
    reason = Reason(ReasonCode.OVERSIZED, "too many")
    decision = Decision(12.0, 3, Action.DOWN, 5, 4, reason, Recommendation(4, reason), first=("7", "2"))
    data = json.loads(json.dumps(decision_to_json(decision)))
    assert data["first"] == ["7", "2"]
    assert decision_from_json(data, 12.0) == decision
    assert "first" not in decision_to_json(replace(decision, first=()))


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(Batch(10.0, 4, 2.5, 0.1, 2.0, 0.4, 100, 7, 0), id="stages unknown"),
        pytest.param(Batch(10.0, 4, 2.5, records=100, work_s=1.5), id="one stage"),
        pytest.param(Batch(10.0, 4, 2.5, records=9, offsets=(5, None)), id="offsets of two sources, stages unknown"),
        pytest.param(Batch(10.0, 4, 2.5, work_s=1.5, stages=(StageWork(3, 0.5), StageWork(4, 1.0))), id="two stages"),
        pytest.param(
            Batch(10.0, 4, 2.5, stages=(StageWork(3, 0.5, (ExecutorWork("0", 0.4, 9),)), StageWork(4, 1.0))),
            id="work by executor",
        ),
        pytest.param(
            Batch(10.0, 4, 2.5, records=9, stages=(StageWork(2, 1.0),)).with_reads((50,)), id="a table read anew"
        ),
    ],
)
def test_a_batch_with_its_stages(batch):
    query = QueryReading("q", "r", None, 1.0, batch=batch, ended=(Batch(5.0, 3, 1.5), batch))
    assert written_and_read(query) == query


def written_and_read(query: QueryReading) -> QueryReading:
    reason = Reason(ReasonCode.FIXED, "as told")
    decision = Decision(12.0, 1, Action.HOLD, 1, 1, reason, Recommendation(1, reason))
    encoder, decoder = Encoder(), Decoder()
    head = session_line(SessionRecord(0.0, Header("1", {}), {}))
    lines = [head, *encoder.record(DecisionRecord.of(Observation(12.0, (query,)), None, decision)).splitlines()]
    last = [decoder.line(line, "here") for line in lines][-1]
    assert isinstance(last, DecisionRecord)
    assert last.observation is not None
    return last.observation.queries[0]


def test_queries_that_are_idle_or_not_measured():
    loads = (QueryLoad("a", arrival_rate=0.0, idle=True), QueryLoad("b", arrival_rate=5.0))
    left_out = (
        Unmeasured("c", 3.5, ("backlog", "lag_s")),
        Unmeasured("d", 0.0, ("backlog",), "rate"),
        Unmeasured("e", 0.0, fails="has failed"),
    )
    seen = Assessment(12.0, idle=True, by_query=loads, unmeasured=left_out, failing=("the query e has failed",))
    assert assessment_from_json(json.loads(json.dumps(assessment_to_json(seen, 12.0))), 12.0) == seen
    older = {"by_query": [["b", 5.0, None, None, None, None, None, None, None, 3, None]]}
    older["unmeasured"] = [["d", 0.0, ["backlog"], "rate"]]
    assert assessment_from_json(older, 12.0).by_query == (QueryLoad("b", arrival_rate=5.0, batches=3),)
    assert assessment_from_json(older, 12.0).unmeasured == left_out[1:2]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(QueryReading("q", "r", None, 1.0, uncountable="rate"), id="of a source that cannot be counted"),
        pytest.param(QueryReading("q", "r", None, 1.0, offsets=Offsets.of(11.0, ())), id="of a source without topics"),
    ],
)
def test_a_query_that_reads_nothing_that_can_be_counted(query):
    assert written_and_read(query) == query
