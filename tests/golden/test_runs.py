"""Every decision of every policy on four simulated jobs is the recorded one, and so is every sentence.

By default the first hour of each run is played; with ``RHEOSTAT_GOLDEN_HOURS=6`` all that was recorded. The fast suite
plays presets that are not the policy's own under faults only.
"""

import os

import pytest
from tests.golden.cases import ALL_HOURS, FAST_HOURS, distinct_presets, golden_cases
from tests.golden.files import RECORD, golden_file, read_golden
from tests.golden.runs import golden_figures, golden_sentences, play

HOURS = int(os.environ.get("RHEOSTAT_GOLDEN_HOURS", FAST_HOURS))
CASES = list(golden_cases())


@pytest.fixture(scope="module")
def recorded():
    if read_golden("decisions") is None:
        pytest.skip(f"no {golden_file('decisions').name}: {RECORD} on a tree that is known to be right makes it")
    return read_golden("decisions"), read_golden("sentences")


def in_fast_suite(case):
    """A preset differs from the policy's own settings in options alone: the job with every fault is enough for it."""
    return case.preset is None or case.job == "faults"


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.id, marks=[] if in_fast_suite(case) else pytest.mark.slow) for case in CASES],
)
def test_a_run_decides_and_says_what_was_recorded(case, recorded):
    figures, sentences = recorded
    assert case.id in figures, f"{case.id} is not recorded: {RECORD}"
    hours = f"{HOURS} h"
    played = play(case, HOURS)
    found, expected = golden_figures(played, HOURS), figures[case.id][hours]
    differing = [
        f"{key}: recorded {expected[key]}, now {found[key]}" for key in expected if found[key] != expected[key]
    ]
    told = "; ".join(reversed(differing))
    assert not differing, f"the decisions differ (see {RECORD} --dump DIR): {told}; {played['last_failure'] or ''}"
    said = golden_sentences(played, HOURS) == sentences[case.id][hours]
    assert said, f"only the sentences differ (see {RECORD} --dump DIR)"


def test_no_run_was_left_out(recorded):
    figures, sentences = recorded
    assert HOURS in (FAST_HOURS, ALL_HOURS)
    assert [*figures] == ["same presets", *sentences]
    assert [*sentences] == [case.id for case in CASES]


def test_presets_that_are_not_run_have_the_options_of_one_that_is(recorded):
    assert recorded[0]["same presets"] == distinct_presets()[1]
