"""The experiment of S2: measures, orders and accuracies, on tables worked by hand and on a load of an hour."""

import json
from itertools import pairwise

import pytest

from rheostat.cli import main
from rheostat.errors import InputError
from rheostat.judge.simulate import simulate
from rheostat.load.curves import Pieces
from rheostat.research.papers.results import write_experiment
from rheostat.research.papers.s2 import (
    ALGORITHMS,
    DOCUMENT,
    ORDERS,
    OUTAGE_S,
    Measures,
    NodesExperiment,
    PlotData,
    Table,
    Task,
    fit_errors,
    fit_model,
    judge_gamma,
    judge_order,
    measure,
    model_part,
    part_of,
    policy_spec,
    prepare_load,
    profile_part,
    read_profiles,
    run_task,
    supply_steps,
    table_rows,
    the_job,
    trips,
    usl,
)
from rheostat.sim.capacity import capacity_curve

FOUR = tuple(DOCUMENT)
PROFILE = "scaleOut,avgThr,isBckPres\n1,50,0\n1,100,1\n2,190,1\n3,270,1\n4,340,1\n4,360,1\n"


def table(*more: dict[str, tuple[float, ...]]) -> Table:
    """The document's own figures as seed 1, and others."""
    seeds = enumerate((DOCUMENT, *more), 1)
    rows = {seed: {name: Measures._make((*values, 0.0, 0.0)) for name, values in each.items()} for seed, each in seeds}
    return Table("Table III", {name: {seed: each[name] for seed, each in rows.items()} for name in FOUR})


class TestASupply:
    def test_nothing_is_supplied_for_two_minutes_from_each_change(self):
        ready = [(0.0, 3), (600.0, 4), (900.0, 2)]
        steps = supply_steps(ready, [(0.0, 3), (0.0, 3), (600.0, 4), (900.0, 2)], 120.0)
        assert steps == [(0.0, 3), (600.0, 0.0), (720.0, 4), (900.0, 0.0), (1020.0, 2)]

    def test_where_the_job_is_not_stopped_it_is_what_is_there(self):
        assert supply_steps([(0.0, 3), (600.0, 4)], [(0.0, 3), (600.0, 4)], 0.0) == [(0.0, 3), (600.0, 4)]


@pytest.fixture(scope="module")
def found():
    """100 records/s for 20 minutes, then 200: two nodes carry 143, three 199, four 247."""
    job = the_job(start_executors=2)
    load = prepare_load(Pieces([(0.0, 100.0), (1200.0, 100.0), (1200.0, 200.0), (3600.0, 200.0)]), 1)
    run = simulate(job, load, policy_spec("THR-NLAware"), seed=1)
    return run, measure(job, load, run, OUTAGE_S)


class TestARun:
    def test_capacities_are_those_of_the_setting(self):
        assert [round(rate) for rate in capacity_curve(the_job())] == [0, 82, 143, 199, 247, 291, 330, 362, 389]

    def test_no_record_is_committed_while_the_job_is_stopped_but_what_was_done_before(self, found):
        run, _ = found
        begins = [act.at for act in run.acts if act.before != act.after]
        assert begins
        stopped = [at for at, *_ in run.history.commits for begin in begins if begin + 2.0 < at <= begin + OUTAGE_S]
        assert stopped == []

    def test_the_auto_scaler_is_blind_for_the_stop_and_for_what_it_averages(self, found):
        run, _ = found
        begins = [act.at for act in run.acts if act.before != act.after]
        assert all(after - before >= 240.0 for before, after in pairwise(begins))

    def test_the_accuracies_differ_by_what_the_means_differ(self, found):
        _, seen = found
        assert seen.accuracy_o - seen.accuracy_u == pytest.approx(seen.mean_s - seen.mean_d)
        assert seen.mean_d == pytest.approx((20 * 2 + 40 * 4) / 60)

    def test_cost_is_supply_over_the_time_until_all_is_done(self, found):
        _, seen = found
        assert seen.cost >= seen.mean_s * 60
        assert seen.excess >= 0
        assert seen.reconfigurations >= 1


class TestAnOrder:
    def test_all_of_them_hold_in_the_document(self):
        results = [judge_order(order, table(), "III", compared=True) for order in ORDERS]
        assert [result.id for result in results if not result.holds] == []
        assert results[0].ours == results[0].document

    def test_it_is_judged_by_the_means_and_says_in_how_many_seeds(self):
        dear = {name: (*values[:6], 1300.0 if name == "Gesscale" else 1299.0) for name, values in DOCUMENT.items()}
        cost = next(order for order in ORDERS if order.id == "cost")
        once = judge_order(cost, table(dear), "III", compared=True)
        assert once.holds
        assert once.ours is not None
        assert once.ours.endswith("in 1 of 2 seeds")
        assert [seen.holds for seen in once.by_seed] == [True, False]
        assert "not told apart" in once.why
        cheap = {name: (*values[:6], 1300.0 if name == "Gesscale" else 900.0) for name, values in DOCUMENT.items()}
        assert not judge_order(cost, table(cheap), "III", compared=True).holds

    def test_each_of_the_seven_metrics_is_stated_with_all_four(self):
        assert [order.column for order in ORDERS] == list(Measures._fields[:7])
        for order in ORDERS:
            assert all(name in order.statement(compared=True) for name in FOUR)

    def test_a_statement_says_where_the_order_of_the_document_is_another(self):
        by_id = {order.id: order for order in ORDERS}
        assert by_id["cost"].statement(compared=True) == (
            "cost: Gesscale < THR-NLAware < THR-NLUnaware < MDL-NLUnaware, the document's order"
        )
        assert by_id["reconfigurations"].statement(compared=True) == (
            "reconfigurations: Gesscale < MDL-NLUnaware < THR-NLAware and THR-NLUnaware; "
            "the document's order is Gesscale < MDL-NLUnaware < THR-NLAware < THR-NLUnaware"
        )

    def test_the_last_ones_out_of_order_do_not_hold(self):
        late = {
            name: (*values[:6], 1250.0 if name == "MDL-NLUnaware" else values[6]) for name, values in DOCUMENT.items()
        }
        swapped = {**late, "THR-NLUnaware": (*DOCUMENT["THR-NLUnaware"][:6], 1260.0)}
        cost = next(order for order in ORDERS if order.id == "cost")
        assert cost.holds({name: values[6] for name, values in late.items()})
        assert not cost.holds({name: values[6] for name, values in swapped.items()})

    def test_the_table_has_the_document_beside_ours(self):
        rows = table_rows(table())
        assert rows[1][:2] == ["THR-NLUnaware", "1.64"]
        assert rows[2] == ["THR-NLUnaware: the document", "1.636", "0.742", "51.11", "30.28", "0.163", "25", "1199.5"]


def test_both_algorithms_with_a_model_have_the_same_options():
    assert ALGORITHMS["Gesscale"].options == ALGORITHMS["MDL-NLUnaware"].options
    assert policy_spec("Gesscale", live=True).options["dt_threshold"] == 10.0
    assert policy_spec("Gesscale").options["dt_threshold"] == 55.0


def test_trips_are_the_same_for_a_seed_and_begin_within_a_minute():
    assert trips(3).points == trips(3).points
    assert 17_220 <= trips(3).duration <= 17_280


class TestAccuracy:
    def test_only_saturated_rows_count_and_those_of_a_number_are_averaged(self, tmp_path):
        path = tmp_path / "profiles.csv"
        path.write_text(PROFILE, encoding="utf-8")
        assert read_profiles(path) == [(1, 100.0), (2, 190.0), (3, 270.0), (4, 350.0)]

    @pytest.mark.parametrize("text", ["scaleOut,avgThr\n1,2\n", PROFILE.replace("270", "many"), PROFILE[:50], ""])
    def test_a_faulty_file_is_named(self, tmp_path, text):
        path = tmp_path / "profiles.csv"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError) as raised:
            read_profiles(path)
        assert raised.value.faults[0].field == "profiles"

    def test_points_on_a_curve_are_predicted_exactly(self):
        points = [(n, 100 * n / (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1))) for n in (2, 5, 8, 11, 14)]
        assert max(fit_errors(points, usl)) < 1e-6
        law = profile_part(points).results[1]
        assert not law.holds
        assert law.why.startswith("it is better")

    def test_the_law_is_not_offered_where_the_model_is_better(self):
        points = [(n, 100 * n**0.9) for n in (2, 5, 8, 11, 14)]
        kept = profile_part(points).results[1]
        assert kept.holds
        assert "not offered" in kept.why

    def test_gamma_is_found_without_noise_and_judged_by_its_mean(self):
        rates = [(n, ms, 82 * n**0.9 - 0.48 * ms) for n, ms in ((1, 0), (2, 20), (2, 70), (3, 45), (3, 130), (5, 220))]
        exact = fit_model(rates, 1, noise=0.0)
        assert (exact.alpha, exact.beta, exact.gamma) == pytest.approx((82, 0.9, 0.48), rel=1e-3)
        assert model_part([exact]).results[0].holds
        assert not model_part([fit_model([(n, ms, 82 * n**0.9) for n, ms, _ in rates], 1, 0.0)]).results[0].holds


def test_gamma_is_found_on_two_sites_and_not_along_a_line():
    line, sites = (run_task(Task("Gesscale", 1, two_sites=sites)).learned for sites in (False, True))
    assert line is not None
    assert line[0] == 1.0
    assert sites == pytest.approx((0.9, 0.48), rel=0.02)
    assert [result.holds for result in judge_gamma([line], [sites])] == [True, True]
    assert [result.holds for result in judge_gamma([sites], [None])] == [False, False]


def test_the_page_has_the_tables_and_the_plots(tmp_path):
    drawn = PlotData([(0.0, 1.0)], [(30.0, 1.0)], [(0.0, 2.0)], [(0.0, 1.0)])
    found = NodesExperiment("s2", [part_of("Table III", [], table(), {"Gesscale": drawn}, 7)], (7,))
    text = write_experiment(tmp_path / "report.html", found).read_text(encoding="utf-8")
    assert all(words in text for words in ("Supply and demand, seed 7", "Gesscale: the document", "999.5"))
    assert found.to_json()["tables"][0]["rows"][0][1] == "accuracy_O"


def test_options_of_the_other_experiment_are_faults_all_at_once(capsys, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("second,events_per_second\n0,1\n60,1\n", encoding="utf-8")
    assert main(["experiment", "s2", "--part", "5.3", "--trace", str(trace), "--seed", "x", "--json"]) == 2
    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert [fault["field"] for fault in faults] == ["part", "seed", "trace"]
    path = tmp_path / "profiles.csv"
    path.write_text(PROFILE, encoding="utf-8")
    assert main(["experiment", "s1", "--profiles", str(path), "--json"]) == 2
    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert [fault["field"] for fault in faults] == ["profiles"]
