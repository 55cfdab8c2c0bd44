import pytest

from rheostat.judge.scoring import Bill, Rank, rank, rankings, shares
from rheostat.sim.capacity import CostParts


def bill(policy, case="one", *, hours=10.0, changes=0, violated=0.0, share=0.0, optimum=10.0, valid=True):
    return Bill(policy, case, CostParts(hours, changes, violated), share, 4.0, optimum, CostParts(9.0, 6, 0.0), valid)


def test_a_cost_is_executors_changes_and_violations():
    """10 h, 30 changes of 60 s (half an hour), a quarter of an hour over the objective at 4 executors: 10 + ½ + 1."""
    asked = bill("a", changes=30, violated=0.25)
    assert (asked.cost(), asked.cost(3.0), asked.cost(0.0)) == (11.5, 13.5, 10.5)


def test_ratios_are_joined_by_the_geometric_mean():
    """a: 2 and 8 times the optimum, √16 = 4; b: 3 times twice. By the arithmetic mean b would win by more."""
    bills = [
        bill("a", "one", hours=20.0),
        bill("a", "two", hours=8.0, optimum=1.0),
        bill("b", "one", hours=30.0),
        bill("b", "two", hours=3.0, optimum=1.0),
    ]
    found = rank("w", bills, 1.0, of="the optimum")
    assert [(r.policy, r.place, round(r.ratio or 0.0, 9)) for r in found.ranks] == [("b", 1, 3.0), ("a", 2, 4.0)]
    assert found.cases == 2


def test_equal_policies_share_a_place():
    places = [(r.policy, r.place) for r in rank("w", [bill("b"), bill("a"), bill("c", hours=11.0)], 1.0, of="").ranks]
    assert places == [("a", 1), ("b", 1), ("c", 3)]


def test_where_a_violation_is_cheap_only_policies_that_keep_the_objective_are_ranked():
    """``late`` pays 9 h and 6 min at weight 4: dearer at w, cheaper at w/3, where it is left out for its 2 %."""
    bills = [bill("late", hours=9.0, violated=0.3, share=0.02), bill("safe", hours=10.0)]
    at_w, at_3w, at_third = rankings(bills)
    assert [(r.policy, r.place) for r in at_w.ranks] == [("safe", 1), ("late", 2)]
    assert at_3w.ranks[1].ratio == pytest.approx((9 + 3 * 4 * 0.3) / 10)
    assert [(r.policy, r.place, r.why) for r in at_third.ranks] == [
        ("safe", 1, None),
        ("late", None, "over 1% of the time in 1 of 1 run"),
    ]


def test_an_invalid_run_leaves_its_policy_without_a_place_and_is_no_reference():
    bills = [bill("broken", hours=1.0, valid=False), bill("sound")]
    found = rank("3w", bills, 3.0, of="the cheapest run")
    assert found.ranks == (Rank("sound", 1, 1.0), Rank("broken", None, None, "1 of 1 run invalid"))


def test_nothing_is_ranked_without_a_case():
    assert rankings([]) == ()


def test_what_is_paid_beyond_the_optimum_is_split_into_its_causes():
    """Optimum 10: 9 h and 6 changes (0.1 h). 12 h: +30 %; 36 changes: 30 more, +5 %; 0.5 h at 4: +20 %."""
    found = shares([bill("a", hours=12.0, changes=36, violated=0.5)])
    assert (found[0].executors, found[0].changes, found[0].violations) == pytest.approx((0.3, 0.05, 0.2))
