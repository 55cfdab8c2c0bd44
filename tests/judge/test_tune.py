import json
from typing import Any

import pytest
from tests.judge.journals import known_run
from tests.sim.jobs import plain

from rheostat.calibrate.measured import Snapshot
from rheostat.decide.settings_check import check_settings
from rheostat.errors import InputError
from rheostat.judge.cases import Case, LoadSpec, PolicySpec, Treatment, levels_of
from rheostat.judge.compare import run_one
from rheostat.judge.tune import (
    Candidate,
    Gains,
    Outcome,
    choose_gains,
    gains_of,
    play_task,
    rank_candidates,
    search,
    settings_fragment,
    tune,
)

pytestmark = pytest.mark.slow

PRESENT = Gains(0.9, 0.4)


def outcome(cost, violation_hours=0.0):
    return Outcome(cost, violation_hours, 1.0)


def candidate(gains, cost, *, held_out=1.0, faults=(), over=0.0, held_over=0.0):
    return Candidate(gains, outcome(cost, over), outcome(held_out, held_over), faults)


def valley(up, down):
    """A bench where cost grows with the distance from one pair; and which pairs it was asked for."""
    asked = []

    def play(wanted):
        asked.append(list(wanted))
        return [candidate(each, 1.0 + abs(each.up - up) + abs(each.down - down)) for each in wanted]

    return play, asked


class TestTheSearch:
    def test_it_tries_the_grid_and_then_twice_the_neighbours_of_the_best_at_half_the_distance(self):
        play, asked = valley(0.6, 1.0)
        found = search(play, PRESENT, [0.5, 1.0])
        assert asked == [
            [PRESENT, (0.5, 0.5), (0.5, 1.0), (1.0, 0.5), (1.0, 1.0)],
            [(0.25, 0.75), (0.25, 1.0), (0.5, 0.75), (0.75, 0.75), (0.75, 1.0)],
            [(0.375, 0.875), (0.375, 1.0), (0.5, 0.875), (0.625, 0.875), (0.625, 1.0)],
        ]
        assert found[0].gains == (0.625, 1.0)

    def test_no_pair_is_played_twice_even_if_the_present_one_is_on_the_grid(self):
        play, asked = valley(0.5, 0.5)
        search(play, Gains(0.5, 0.5), [0.5])
        flat = [pair for wave in asked for pair in wave]
        assert len(flat) == len(set(flat)) == 1 + 8 + 8

    def test_if_all_pairs_cost_the_same_nothing_is_refined(self):
        asked = []

        def play(wanted):
            asked.append(len(wanted))
            return [candidate(each, 2.0) for each in wanted]

        found = search(play, PRESENT, [0.5, 1.0])
        assert (asked, found[0].gains) == ([5], PRESENT)

    def test_of_equal_pairs_the_nearest_to_the_present_one_is_first_and_invalid_ones_are_last(self):
        found = [
            candidate(Gains(0.1, 0.1), 0.5, faults=("not drained",)),
            candidate(Gains(0.5, 0.5), 1.0),
            candidate(Gains(0.9, 0.5), 1.0),
            candidate(Gains(1.0, 1.0), 1.0, over=0.1),
            candidate(PRESENT, 2.0),
        ]
        assert [each.gains for each in rank_candidates(found, PRESENT)] == [
            (0.9, 0.5), (0.5, 0.5), (1.0, 1.0), (0.9, 0.4), (0.1, 0.1),
        ]  # fmt: skip


class TestTheVerdict:
    BEST = Gains(0.9, 1.0)

    def verdict(self, best, present):
        return choose_gains(rank_candidates([present, best], PRESENT), PRESENT)

    def test_a_better_pair_that_is_no_worse_on_the_held_out_part_is_recommended(self):
        found = self.verdict(candidate(self.BEST, 1.5), candidate(PRESENT, 2.0))
        assert found == (
            self.BEST,
            "α 0.9, β 1 cost 1.5 instead of 2 executor-hours; on the part that was held out 1, with 0.00% of the time "
            "over the objective, instead of 1 with 0.00%",
        )

    @pytest.mark.parametrize(
        "worse",
        [pytest.param({"held_out": 1.01}, id="dearer"), pytest.param({"held_over": 0.01}, id="over the objective")],
    )
    def test_a_pair_that_is_worse_on_the_held_out_part_is_refused(self, worse):
        found = self.verdict(candidate(self.BEST, 1.5, **worse), candidate(PRESENT, 2.0))
        assert found.gains == PRESENT
        assert found.why.startswith("the present gains stay: α 0.9, β 1 cost 1.5 instead of 2 executor-hours, but on")

    @pytest.mark.parametrize(
        ("best", "present", "says"),
        [
            pytest.param(candidate(BEST, 2.0), candidate(PRESENT, 2.0), "makes a difference", id="all alike"),
            pytest.param(candidate(BEST, 2.1), candidate(PRESENT, 2.0), "no other pair costs less", id="best"),
            pytest.param(
                candidate(BEST, 1.0), candidate(PRESENT, 2.0, faults=("lost",)), "does not count (lost)", id="invalid"
            ),
            pytest.param(
                candidate(BEST, 1.0, faults=("lost",)), candidate(PRESENT, 2.0), "costs less", id="the other invalid"
            ),
        ],
    )
    def test_otherwise_the_present_gains_stay(self, best, present, says):
        found = self.verdict(best, present)
        assert found.gains == PRESENT
        assert says in found.why


JOB = plain(partitions=8, decide_every_s=6.0, start_executors=1)
QUICK = {
    "check_every": 20, "resamples": 5, "degree": 1, "stability_limit": 10.0, "block": 5,
    "back_s": 60.0, "horizon_s": 6.0, "relearn": False,
}  # fmt: skip
WHO = PolicySpec("proactive", options=QUICK, settings={"guard": {"cooldown_down_s": 0.0}})
FALLS = "ramp:100..700@300+constant:700@100+ramp:700..100@800"
"""An executor carries 200/s. The rise is for learning; then the load falls slowly, and 4 executors become 1."""


def case(shape, seed=1):
    return Case(JOB, "plain", LoadSpec(shape, shape=shape), seed, Treatment(scaled=False))


def changes(case, gains):
    options = {**QUICK, "gain_up": gains.up, "gain_down": gains.down}
    series: Any = run_one(case, PolicySpec("proactive", None, options, WHO.settings), drawn=True).series
    return [(act.at, act.after) for act in series.acts if act.after < act.before]


@pytest.fixture(scope="module")
def falling():
    return tune([case(FALLS)], WHO, grid=[1.0])


class TestALoadThatFallsSlowly:
    """With β over a half each step down is decided one sample, 6 s, before it is with 0.4."""

    def test_each_step_down_comes_one_decision_earlier(self):
        assert changes(case(FALLS), PRESENT) == [(612.0, 3), (864.0, 2), (1122.0, 1)]
        assert changes(case(FALLS), Gains(1.0, 1.0)) == [(606.0, 3), (858.0, 2), (1116.0, 1)]

    def test_two_steps_save_12_s_in_the_first_900_s_and_the_last_one_6_s_in_the_rest(self, falling):
        present, fast = falling.candidate(PRESENT), falling.candidate(Gains(1.0, 1.0))
        assert 3600 * (present.searched.cost - fast.searched.cost) == pytest.approx(12.0, abs=0.1)
        assert 3600 * (present.held_out.cost - fast.held_out.cost) == pytest.approx(6.0, abs=0.1)

    def test_the_faster_way_down_is_recommended(self, falling):
        assert falling.verdict.gains == falling.candidates[0].gains == (0.25, 0.75)
        assert falling.candidates[-1].gains in {PRESENT, (1.0, 0.5)}

    def test_both_parts_together_are_the_score_of_the_run(self, falling):
        score = run_one(case(FALLS), WHO).score
        present = falling.candidate(PRESENT)
        assert present.searched.cost + present.held_out.cost == pytest.approx(score["total_cost"], rel=1e-12)
        assert present.searched.hours + present.held_out.hours == pytest.approx(score["seconds"] / 3600, rel=1e-12)

    def test_the_searched_part_does_not_depend_on_the_rest_of_the_load(self):
        """1200 s of which 900 are searched, and the same 900 s with another end."""
        other = "ramp:100..700@300+constant:700@100+ramp:700..325@500+constant:900@300"
        first, second = (play_task((case(load), WHO, PRESENT)).searched for load in (FALLS, other))
        assert first.cost == pytest.approx(second.cost, rel=1e-12)

    def test_the_settings_are_accepted(self, falling):
        values = settings_fragment(falling)
        assert check_settings(values).policy_options == {**QUICK, "gain_up": 0.25, "gain_down": 0.75}
        assert values["guard"] == {"cooldown_down_s": 0.0}

    def test_the_json_has_the_whole_result(self, falling):
        told = falling.to_json()
        assert told["present"] == {"gain_up": 0.9, "gain_down": 0.4}
        assert told["recommended"] == {"gain_up": 0.25, "gain_down": 0.75}
        assert told["changes"] is True
        assert told["candidates"][0].keys() == {"gain_up", "gain_down", "total_cost", "violation_share", "invalid"}
        assert (told["held_out"]["from_s"], told["held_out"]["to_s"]) == (900.0, 1200.0)
        assert told["why"] == falling.verdict.why


def test_a_load_that_never_asks_for_a_second_executor_leaves_the_gains_as_they_are():
    found = tune([case("constant:50@200")], WHO, grid=[0.5, 1.0])
    assert found.candidates[0].gains == PRESENT
    assert len(found.candidates) == 5
    assert found.verdict == (PRESENT, "the present gains stay: no other pair makes a difference under this load")


def test_seeds_are_added_up_and_any_number_of_processes_gives_the_same():
    cases = [case("constant:50@80", seed) for seed in (1, 2)]
    alone, together = (tune(cases, WHO, grid=[1.0], jobs=jobs) for jobs in (1, 2))
    assert json.dumps(alone.to_json()) == json.dumps(together.to_json())
    singles = [play_task((each, WHO, PRESENT)).searched.cost for each in cases]
    assert alone.candidate(PRESENT).searched.cost == pytest.approx(sum(singles), rel=1e-12)
    assert alone.candidate(PRESENT).searched.hours == pytest.approx(2 * 60 / 3600)


def test_the_present_gains_are_those_of_the_preset_and_the_options():
    assert gains_of(case("constant:50@60"), PolicySpec("proactive", "faithful")) == (0.9, 0.4)
    assert gains_of(case("constant:50@60"), PolicySpec("proactive", options={"gain_down": 0.7})) == (0.9, 0.7)


def test_another_policy_has_no_gains():
    with pytest.raises(InputError) as caught:
        gains_of(case("constant:50@60"), PolicySpec("reactive"))
    assert [fault.field for fault in caught.value.faults] == ["policy"]


class TestTheRecentLoad:
    def test_it_has_as_many_records_as_arrived_in_the_journal(self):
        run = known_run()
        levels = levels_of(run.snapshots, 1e9)
        seen = [look.latest for look in run.snapshots if look.latest is not None]
        assert sum(seconds * rate for seconds, rate in levels) == pytest.approx(seen[-1] - seen[0], rel=0.01)
        assert all(5.0 <= seconds < 7.0 for seconds, _ in levels)

    def test_only_the_end_of_the_journal_is_used(self):
        levels = levels_of(known_run().snapshots, 60.0)
        assert 50.0 < sum(seconds for seconds, _ in levels) <= 60.0

    def test_offsets_that_go_back_are_a_time_without_arrivals(self):
        seen = [Snapshot(10.0 * n, latest, 0, None, 1, 1) for n, latest in enumerate((100, 200, 50, None, 250))]
        assert levels_of(seen, 1e9) == [(10.0, 10.0), (10.0, 0.0), (20.0, 10.0)]

    def test_without_offsets_there_is_no_load(self):
        assert levels_of([Snapshot(0.0, None, None, None, 1, 1)], 60.0) == []
