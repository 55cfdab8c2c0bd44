import pytest

from rheostat.demo.run import DemoPlan
from rheostat.demo.sizing import Machine, explain_busy, finished_batches, is_measured, measure
from rheostat.model import Batch, Cluster, Executor, Observation, QueryReading

QUIET = Machine(load_before=0.3, cold_s=8.0, fixed_s=1.4, cores=2)
BUSY = Machine(load_before=4.1, cold_s=21.0, fixed_s=2.8, cores=2)


def observed(at, batch_id, duration_s, records):
    batch = Batch(at=at, batch_id=batch_id, duration_s=duration_s, records=records)
    query = QueryReading(query_id="q", run_id="r", name=None, trigger_s=2.0, batch=batch)
    return Observation(at=at, queries=(query,), cluster=Cluster.of(at, [Executor("0", "h", 1, 0, added_at=103.0)], 1))


WARM_UP = [observed(110.0, 0, 7.0, 0), observed(120.0, 1, 9.0, 300), observed(122.0, 1, 9.0, 300)]
WARM = [*WARM_UP, observed(123.0, 2, 3.2, 450), observed(125.0, 3, 2.0, 160)]


def test_the_machine_is_measured_once_two_warm_batches_have_ended():
    assert [batch.batch_id for batch in finished_batches(WARM)] == [0, 1, 2, 3]
    assert not is_measured(WARM_UP)
    assert is_measured(WARM)


def test_a_cold_start_and_the_fixed_part_of_a_batch_are_measured():
    machine = measure(WARM, opened_at=100.0, lookup_s=0.004, load_before=0.3)
    # fixed: 3.2 − 450 × 4.4 ms = 1.22, 2.0 − 160 × 4.4 ms = 1.296; cold: 3 s to start, 9 − 1.258 − 300 × 4.4 ms
    assert machine.fixed_s == pytest.approx(1.258)
    assert machine.cold_s == pytest.approx(3.0 + 6.422)


def test_a_slow_machine_gets_a_lower_and_flatter_load():
    quiet, busy = DemoPlan().sized(QUIET), DemoPlan().sized(BUSY)
    assert (quiet.base_rate, quiet.peak_rate, quiet.rise_s) == (50, 750, 69)
    assert (busy.base_rate, busy.peak_rate, busy.rise_s) == (50, 540, 120)
    assert quiet.seconds < busy.seconds <= 230


@pytest.mark.parametrize("fixed_s", [0.3, 0.7, 1.4, 2.8])
def test_more_than_three_executors_are_needed_at_the_peak_and_fewer_than_all(fixed_s):
    plan = DemoPlan().sized(Machine(load_before=None, cold_s=8.0, fixed_s=fixed_s, cores=2))
    warm_s = 0.8 * fixed_s
    batch_s = max(4.0 + 0.6 * warm_s, 1.5 * warm_s)
    carries = (1 - warm_s / batch_s) / 0.0044
    assert 3.4 < plan.peak_rate / carries < 5.5
    assert plan.base_rate <= 0.5 * carries


def test_a_rate_that_was_given_is_kept():
    plan = DemoPlan(peak_rate=200.0).sized(BUSY)
    assert (plan.peak_rate, plan.base_rate) == (200.0, 50)
    assert plan.static(6).peak_rate == 200.0


def test_the_rise_to_a_rate_that_was_given_has_time_for_every_start():
    own = DemoPlan().sized(QUIET)
    assert own.peak_rate == 750
    twice = DemoPlan(peak_rate=1500.0, executors=(1, 12)).sized(QUIET)
    assert (own.rise_s, twice.rise_s) == (69, 120)


def test_a_static_run_has_the_same_load_and_measures_nothing():
    plan = DemoPlan().sized(BUSY)
    static = plan.static(4)
    assert (static.peak_rate, static.rise_s, static.measures) == (plan.peak_rate, plan.rise_s, False)


@pytest.mark.parametrize(
    ("machine", "most", "said"),
    [
        pytest.param(QUIET, 5.0, None, id="a quiet machine, whose load is the demo's own"),
        pytest.param(
            BUSY,
            9.3,
            "The machine was busy: load average 4.1 before the demo, at most 9.3 during it, on 2 cores; the cold start "
            "of an executor took 21 s.",
            id="a busy one",
        ),
        pytest.param(
            QUIET,
            11.0,
            "The machine was busy: load average 0.3 before the demo, at most 11.0 during it, on 2 cores; the cold "
            "start of an executor took 8 s.",
            id="other work began later",
        ),
        pytest.param(
            Machine(load_before=None, cold_s=18.0, fixed_s=1.0, cores=2),
            None,
            "The machine was busy: the cold start of an executor took 18 s.",
            id="a system without load average",
        ),
    ],
)
def test_a_busy_machine_is_named(machine, most, said):
    assert explain_busy(machine, most, objective_s=20.0) == said
