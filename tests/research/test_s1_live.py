"""What is read from the journals of the shortened experiments."""

import json

import pytest

from rheostat.cli import main
from rheostat.model import ReasonCode
from rheostat.research.papers.live import s1_plans, s1_results
from rheostat.research.papers.s1 import Cycle, Trial

SCORE = {"valid": True, "records_in": 1000, "records_out": 1000}


def cycle(at, executors, target, code, slow=0.0):
    return Cycle(at, 100.0, executors, slow, counts=True, code=code, target=target, figures={})


def trial(*cycles):
    return Trial(cycles, None, (), 0)


PROACTIVE = trial(
    cycle(60.0, 1, 2, ReasonCode.SLA_VIOLATED, slow=0.2),
    cycle(200.0, 2, 1, ReasonCode.OVERSIZED),
    cycle(250.0, 1, 1, ReasonCode.FORECAST),
    cycle(400.0, 1, 3, ReasonCode.FORECAST),
)
REACTIVE = trial(cycle(400.0, 2, 3, ReasonCode.SLA_VIOLATED, slow=0.3), cycle(500.0, 3, 3, ReasonCode.STEADY))


def told(proactive=PROACTIVE, reactive=REACTIVE, score=SCORE):
    found = s1_results({"proactive": proactive, "reactive": reactive}, {"proactive": score, "reactive": SCORE})
    return {each.id.removesuffix(", live"): (each.ours, each.holds) for each in found}


def test_the_statements_are_read_from_the_cycles():
    assert told() == {
        "5.2 steps up": ("1 of 1 steps up at a violation", True),
        "5.2 switch": ("after 250 s of 360", True),
        "5.3 violations": ("proactive 0, reactive 1 sample", True),
        "5.3 executors": ("1.00 v 2.50", True),
        "records": ("proactive 1,000 in, 1,000 out; reactive 1,000 in, 1,000 out", True),
    }


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        pytest.param({"proactive": trial(cycle(60.0, 1, 2, ReasonCode.FORECAST))}, "5.2 steps up", id="no exploration"),
        pytest.param({"proactive": trial(cycle(60.0, 1, 2, ReasonCode.SLA_VIOLATED))}, "5.2 switch", id="no control"),
        pytest.param({"proactive": trial(cycle(60.0, 1, 2, ReasonCode.SLA_VIOLATED))}, "5.3 executors", id="no sample"),
        pytest.param({"score": {**SCORE, "records_out": 999}}, "records", id="a record is lost"),
        pytest.param({"score": {**SCORE, "records_out": None, "valid": False}}, "records", id="nobody knows"),
        pytest.param({"reactive": trial(cycle(400.0, 0, 0, ReasonCode.STEADY))}, "5.3 executors", id="more executors"),
    ],
)
def test_a_statement_that_does_not_hold_is_told(change, missed):
    assert told(**change)[missed][1] is False


def test_both_policies_get_the_same_load():
    proactive, reactive = s1_plans(3).values()
    assert proactive.shape == reactive.shape
    assert (proactive.seconds, proactive.curve().rate(180.0), proactive.phase(10.0)) == (720.0, 450.0, "load")


def test_a_live_run_has_its_own_load(capsys):
    assert main(["experiment", "s1", "--live", "--part", "5.3", "--json"]) == 2
    (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert (fault["field"], fault["given"]) == ("part", "5.3")
