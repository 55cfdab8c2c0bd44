"""Records are dropped as their draws say while what runs is killed; ten minutes of it: ``rheostat bench kills``."""

from __future__ import annotations

import pytest

from rheostat.research.bench.kills import KINDS, Plan, run_kills

pytestmark = pytest.mark.cluster


def test_every_record_is_kept_or_dropped_as_its_draw_says_while_parts_are_killed():
    figures = {each.name: each for each in run_kills(plan=Plan(seconds=30.0, between_s=(5.0, 8.0), seed=1)).metrics}
    assert all(each.met is not False for each in figures.values()), figures
    assert all((figures[f"kills of the {kind}"].value or 0) >= 1 for kind in KINDS)
    assert (figures["different non-drop probabilities"].value or 0) >= 3
    assert (figures["records kept"].value or 0) > 0
    assert (figures["records shed"].value or 0) > 0
