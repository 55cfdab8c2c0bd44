"""The shortened experiment on nodes: its plan, and what is read from finished runs."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from rheostat.calibrate.measured import RealBatch
from rheostat.cli import main
from rheostat.config.loading import load_settings
from rheostat.config.models import pairs_of
from rheostat.demo.run import NodeServers
from rheostat.lab.lab import Lab
from rheostat.load.curves import staircase
from rheostat.pipelines.running import TaxiSettings
from rheostat.research.papers.live import (
    NODES,
    ROUND_TRIPS_MS,
    BatchCost,
    LoadLag,
    Move,
    NodesRun,
    TripsPlan,
    demand_of,
    fit_batch_cost,
    judge_runs,
    mean_levels,
    measure_nodes,
    nodes_plot,
    right_choices,
    s2_plans,
    s2_results,
    seconds_without,
)
from rheostat.research.papers.results import write_experiment
from rheostat.research.papers.s2 import Measures

APART = pairs_of(ROUND_TRIPS_MS)
GROWN = (Move((), ("core",), ()), Move(("core",), ("near",), ()), Move(("core", "near"), ("far",), ()))
SHRUNK = (Move(("core", "far", "near"), (), ("far",)), Move(("core", "near"), (), ("near",)))
SCORE = {"valid": True, "records_in": 1000, "records_out": 1000}
LINE = BatchCost(1.0, 0.02, 40)
"""44 records/s of one executor in batches of 400, 80 of two, 109 of three."""


def batch(records, executors, seconds, begin=0.0, age=1):
    return RealBatch(1, begin, begin + seconds, records, 0.1, seconds, 0.0, executors, (), 0, age, 0.0, shrunk=False)


def run(**changed):
    """Executors from one to two after 100 of 200 s, and a last record 10 s after the end."""
    plain = {
        "supply": [(-10.0, 1.0), (100.0, 2.0)],
        "requested": [(-20.0, 0.0), (-15.0, 1.0), (95.0, 2.0)],
        "used": [(-10.0, ("core",)), (100.0, ("core", "near"))],
        "distance_ms": 10.0,
        "moves": GROWN[:2] + SHRUNK[:1],
        "batches": [batch(300, 1, 7.0, 0.0), batch(400, 2, 5.0, 8.0)],
        "ended": 210.0,
        "lasts": 200.0,
        "lag": LoadLag(0.0, 5.0, 9.0),
    }
    return NodesRun(**{**plain, **changed})


OTHER = run(
    supply=[(-10.0, 3.0)],
    requested=[(-20.0, 0.0), (-15.0, 1.0), (5.0, 2.0), (90.0, 3.0), (195.0, 2.0)],
    used=[(-10.0, ("core", "far")), (50.0, ("core", "far", "near"))],
    distance_ms=250.0,
    moves=(Move(("core",), ("far",), ()), Move(("core", "far", "near"), (), ("near",))),
    ended=220.0,
    lag=LoadLag(0.1, 30.0, 40.0),
)


class TestThePlan:
    def test_both_runs_get_the_same_trips_and_the_policies_of_the_document(self):
        ours, theirs = s2_plans(3).values()
        assert (ours.policy, theirs.policy) == ("mst", "threshold")
        assert ours.payloads().make(0, 300, 1.0).values == theirs.payloads().make(0, 300, 1.0).values
        assert ours.curve().cumulative(600.0) == theirs.curve().cumulative(600.0)
        assert ours.curve().cumulative(600.0) == pytest.approx(55.0 * 600, rel=0.05)

    def test_the_rate_is_that_of_ten_seconds(self):
        curve = s2_plans(1)["Gesscale"].curve()
        assert curve.rate(43.0) == pytest.approx((curve.cumulative(50.0) - curve.cumulative(40.0)) / 10)
        assert mean_levels(curve).cumulative(600.0) == pytest.approx(curve.cumulative(600.0))

    def test_after_the_last_trip_the_first_ones_come_again_with_ids_of_their_own(self):
        plan = TripsPlan(mean_rate=30.0, days_s=20.0, copies=1)
        trips = int(plan.curve().cumulative(20.0))
        made = [json.loads(value) for value in plan.payloads().make(0, trips + 2, 1.0).values]
        assert [each["id"] for each in made] == list(range(trips + 2))
        assert [each["pickup"] for each in made[-2:]] == [each["pickup"] for each in made[:2]]

    @pytest.mark.parametrize(
        ("second", "phase"), [(None, "warm-up"), (0.0, "day 1"), (300.0, "day 2"), (600.0, "drain")]
    )
    def test_phases_have_names(self, second, phase):
        assert s2_plans(1)["Gesscale"].phase(second) == phase

    def test_the_pipeline_is_that_of_the_document(self, tmp_path):
        settings = s2_plans(1)["Gesscale"].pipeline(tmp_path, "127.0.0.1:9092", "records")
        assert isinstance(settings, TaxiSettings)
        assert (settings.lookup_ms, settings.cap, settings.trigger_s) == (18.0, 400, 2.0)


class TestTheNodes:
    def servers(self, tmp_path, *, measured=True):
        """Servers that are not started."""
        return NodeServers(Lab(), tmp_path, NODES, ROUND_TRIPS_MS, measured=measured)

    @pytest.mark.parametrize(
        ("name", "host", "delays"),
        [
            ("core", "127.0.1.1", []),
            ("near", "127.0.2.1", ["core=20"]),
            ("far", "127.0.3.1", ["core=250", "near=250"]),
        ],
    )
    def test_each_pair_is_delayed_at_one_end(self, tmp_path, name, host, delays):
        options = self.servers(tmp_path).options(name)
        assert [value for key, value in pairwise(options) if key == "--delay"] == delays
        assert options[:4] == ["--name", name, "--host", host]

    @pytest.mark.parametrize("measured", [True, False], ids=["measured", "given"])
    def test_the_autoscaler_gets_both_layers(self, tmp_path, measured):
        plan, servers = s2_plans(1)["Gesscale"], self.servers(tmp_path, measured=measured)
        settings = load_settings({**plan.settings(tmp_path), **servers.settings()})
        assert (settings.actuator, settings.policy, settings.executors) == ("workers", "mst", (1, 3))
        assert [name for name, _ in settings.workers.named_nodes] == ["core", "near", "far"]
        assert settings.workers.round_trips_ms == ("measured" if measured else ROUND_TRIPS_MS)


class TestWhoComesAndGoes:
    @pytest.mark.parametrize(
        ("moves", "found"),
        [
            pytest.param(GROWN, [True], id="only where there was a choice"),
            pytest.param([Move(("core",), ("far",), ())], [False], id="the far one first"),
            pytest.param([Move(("core",), ("near", "far"), ())], [True], id="both at once, in order"),
            pytest.param([Move(("core",), ("far", "near"), ())], [False], id="both at once, out of order"),
            pytest.param([Move(("near",), ("core",), ())], [True], id="from another node"),
            pytest.param([Move(("core", "elsewhere"), ("near",), ())], [True], id="an executor on an unknown node"),
            pytest.param(SHRUNK, [], id="nobody came"),
        ],
    )
    def test_the_nearest_comes(self, moves, found):
        assert right_choices(moves, NODES, APART, added=True) == found

    @pytest.mark.parametrize(
        ("moves", "found"),
        [
            pytest.param(SHRUNK, [True], id="of two neither is farther"),
            pytest.param([Move(("core", "far", "near"), (), ("near",))], [False], id="the near one"),
            pytest.param([Move(("core", "far", "near"), (), ("far", "near"))], [True], id="both at once"),
            pytest.param(GROWN, [], id="nobody went"),
        ],
    )
    def test_the_farthest_goes(self, moves, found):
        assert right_choices(moves, NODES, APART, added=False) == found

    def test_the_far_node_alone_is_counted_while_the_load_lasts(self):
        used = [(-5.0, ("core", "far")), (10.0, ("core", "far", "near")), (20.0, ("core",)), (90.0, ("far",))]
        assert seconds_without(used, "far", "near", 100.0) == 20.0


class TestTheMetrics:
    def test_what_executors_carry_is_told_by_the_batches_of_all_runs(self):
        kept = [batch(100 * k, n, 1.0 + 2.0 * k / n) for k in (1, 2, 3, 4) for n in (1, 2)]
        cold, joined = batch(400, 1, 30.0, age=0), batch(400, None, 30.0)
        found = fit_batch_cost([run(batches=[*kept, cold]), run(batches=[*kept[:3], joined])])
        assert found is not None
        assert (round(found.fixed_s, 9), round(found.slot_s, 9), found.batches) == (1.0, 0.02, 11)
        assert [round(found.rate(n, 400)) for n in (0, 1, 2, 3)] == [0, 44, 80, 109]

    @pytest.mark.parametrize(
        "batches",
        [
            pytest.param([batch(100, 1, 3.0)] * 9, id="too few"),
            pytest.param([batch(100, 1, 3.0)] * 20, id="all alike"),
        ],
    )
    def test_it_is_unknown_where_they_do_not_tell_it(self, batches):
        assert fit_batch_cost([run(batches=batches)]) is None

    def test_the_demand_is_the_fewest_that_carry_the_load(self):
        load = staircase([(10, 40.0), (10, 60.0), (10, 100.0), (10, 200.0)])
        assert demand_of(load, LINE, (1, 3), 400) == [(0.0, 1.0), (10.0, 2.0), (20.0, 3.0)]

    def test_the_seven_metrics(self):
        """One where two are needed for 100 of 200 s; 10 s longer at two."""
        found = measure_nodes(run(), [(0.0, 2.0)])
        assert found == Measures(0.0, 0.5, 0.0, 50.0, 0.05, 1.0, (100 + 2 * 110) / 60, 1.5, 2.0)

    def test_what_is_plotted_begins_with_the_load(self):
        found = nodes_plot(run(), staircase([(200, 60.0)]), [(0.0, 2.0)])
        assert (found.supply, found.demand, found.throughput) == ([(100.0, 2.0)], [(0.0, 2.0)], [(13.0, 400 / 6)])


def batches(slot_s=0.02):
    return [batch(100 * k, n, 1.0 + 100 * k * slot_s / n) for k in (1, 2, 3, 4) for n in (1, 2, 3)]


def told(ours=None, theirs=OTHER, score=SCORE, line=LINE):
    if ours is None:
        ours = run(batches=batches())
    runs = {"Gesscale": ours, "THR-NLUnaware": replace(theirs, batches=batches())}
    table = {name: measure_nodes(each, [(0.0, 2.0)]) for name, each in runs.items()} if line else None
    found = s2_results(runs, table, {"Gesscale": score, "THR-NLUnaware": SCORE}, line)
    return {each.id.removesuffix(", live"): (each.ours, each.holds) for each in found}


class TestTheStatements:
    def test_they_are_read_from_the_runs(self):
        assert told() == {
            "near first": ("Gesscale 1 of 1, THR-NLUnaware 0 of 1", True),
            "far goes first": ("Gesscale 1 of 1, THR-NLUnaware 0 of 1", True),
            "in use": ("Gesscale 0 s alone, THR-NLUnaware 50 s alone", True),
            "distance": ("Gesscale 10 ms, THR-NLUnaware 250 ms", True),
            "cost": ("Gesscale 5.333, THR-NLUnaware 11", True),
            "reconfigurations": ("Gesscale 1, THR-NLUnaware 3", True),
            "excess": ("Gesscale 0.05, THR-NLUnaware 0.1", True),
            "accuracy_O": ("Gesscale 0, THR-NLUnaware 1", True),
            "accuracy_U": ("Gesscale 0.5, THR-NLUnaware 0", False),
            "capacity": (
                "Gesscale 44, 80, 109 records/s of 1, 2, 3, THR-NLUnaware 44, 80, 109 records/s of 1, 2, 3",
                True,
            ),
            "objective": ("Gesscale 0.0% (p95 5.0 s), THR-NLUnaware 10.0% (p95 30.0 s)", True),
            "records": ("Gesscale 1,000 in, 1,000 out; THR-NLUnaware 1,000 in, 1,000 out", True),
        }

    @pytest.mark.parametrize(
        ("change", "missed"),
        [
            pytest.param({"ours": run(moves=OTHER.moves)}, "near first", id="the far one first"),
            pytest.param({"ours": run(moves=())}, "near first", id="nothing was to choose"),
            pytest.param({"ours": run(moves=OTHER.moves)}, "far goes first", id="the near one went"),
            pytest.param({"ours": run(used=OTHER.used)}, "in use", id="the far one alone"),
            pytest.param({"ours": run(distance_ms=None)}, "distance", id="no round trip known"),
            pytest.param({"ours": OTHER}, "cost", id="as dear"),
            pytest.param({"ours": run(lag=LoadLag(None, None, None))}, "objective", id="no lag known"),
            pytest.param({"ours": run()}, "capacity", id="nobody knows what executors carry"),
            pytest.param({"ours": run(batches=batches(0.024))}, "capacity", id="a busier machine"),
            pytest.param({"score": {**SCORE, "records_out": 999}}, "records", id="a record is lost"),
        ],
    )
    def test_one_that_does_not_hold_is_told(self, change, missed):
        assert told(**change)[missed][1] is False

    def test_without_a_capacity_there_are_no_metrics(self):
        assert "cost" not in told(line=None)

    def test_the_report_has_the_table_and_the_plots(self, tmp_path):
        kept = [batch(100 * k, n, 1.0 + 2.0 * k / n, 10.0 * k) for k in (1, 2, 3, 4) for n in (1, 2, 3)]
        runs = {"Gesscale": run(batches=kept, lasts=600.0, ended=605.0), "THR-NLUnaware": run(batches=kept)}
        found = judge_runs(runs, {"Gesscale": SCORE, "THR-NLUnaware": SCORE}, 1)
        text = write_experiment(tmp_path / "report.html", found).read_text(encoding="utf-8")
        assert all(words in text for words in ("Table III, shortened", "Nodes", "THR-NLUnaware: the document"))
        rows = found.to_json()["tables"][0]["rows"]
        assert [row[0] for row in rows][::2] == ["", "Gesscale: the document", "THR-NLUnaware: the document"]


def test_a_live_run_has_its_own_load(capsys):
    assert main(["experiment", "s2", "--live", "--part", "outage", "--json"]) == 2
    (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert (fault["field"], fault["given"]) == ("part", "outage")
