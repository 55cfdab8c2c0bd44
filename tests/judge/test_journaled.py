"""A simulated run that leaves a journal: what it says, and that it is decided the same once more."""

import pytest

from rheostat.decide.policy import policy_names
from rheostat.errors import InputError
from rheostat.journal.records import DecisionRecord
from rheostat.journal.store import read_journal
from rheostat.judge.cases import Case, LoadSpec, PolicySpec, load_job
from rheostat.judge.compare import run_one
from rheostat.judge.simulate import require_new
from rheostat.loop.build import sample_store_beside
from rheostat.report.replay import replay_score

pytestmark = pytest.mark.slow

SHAPE = "ramp:1..5@900+spike:2..4@600"
DECIDING = [name for name in policy_names() if name != "schedule"]
QUICK = {"check_every": 20, "resamples": 5, "degree": 1, "stability_limit": 100.0, "block": 5}
"""Options with which ``proactive`` has its model, and decides by forecasts, in the half hour of the load."""


def case():
    return Case(load_job("base"), "base", LoadSpec(SHAPE, shape=SHAPE), seed=2)


def spec(policy):
    return PolicySpec(policy, options=QUICK if policy == "proactive" else {})


@pytest.mark.parametrize("policy", DECIDING)
def test_its_journal_replays_to_the_same_decisions(policy, tmp_path):
    run_one(case(), spec(policy), journal=tmp_path)
    records = list(read_journal(tmp_path))
    again = replay_score(records, {}, sample_store_beside(tmp_path, pytest.fail))
    decisions = [record.decision for record in records if isinstance(record, DecisionRecord)]
    assert len(decisions) >= (900 + 600) / 15
    assert (again["decisions"], again["identical"], again["differences"]) == (len(decisions), len(decisions), [])
    assert sum(decision.acts for decision in decisions) >= (2 if policy == "static" else 8)
    assert policy != "proactive" or "FORECAST" in {decision.reason.code for decision in decisions}


def test_the_journal_changes_nothing_in_the_run(tmp_path):
    assert run_one(case(), PolicySpec("reactive"), journal=tmp_path) == run_one(case(), PolicySpec("reactive"))


def test_a_run_has_a_folder_of_its_own(tmp_path):
    require_new(tmp_path / "new" / "journal")
    require_new(tmp_path / "new" / "journal")
    (tmp_path / "new" / "journal" / "journal-1970-01-01.jsonl").write_text("")
    with pytest.raises(InputError) as caught:
        require_new(tmp_path / "new" / "journal")
    assert [(fault.field, fault.allowed) for fault in caught.value.faults] == [("journal", "a folder, new or empty")]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as caught:
        require_new(tmp_path / "file")
    assert [fault.field for fault in caught.value.faults] == ["journal"]
