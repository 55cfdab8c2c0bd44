import os
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from rheostat.config.loading import load_settings
from rheostat.demo.run import DemoPlan, TwoWorkers
from rheostat.errors import InputError


def test_the_load_rises_stays_falls_and_is_calm():
    curve = DemoPlan(base_rate=100.0, peak_rate=500.0).curve()
    assert [round(curve.rate(second)) for second in (0, 20, 40, 89, 120, 149.9)] == [100, 300, 500, 500, 300, 101]
    assert curve.duration == 170.0
    assert round(curve.cumulative(170.0)) == 300 * 40 + 500 * 50 + 300 * 60 + 100 * 20


@pytest.mark.parametrize(
    ("second", "phase"), [(None, "warm-up"), (0, "rise"), (40, "plateau"), (90, "fall"), (150, "calm"), (170, "drain")]
)
def test_phases_have_names(second, phase):
    assert DemoPlan().phase(second) == phase


def test_all_faults_are_reported_at_once():
    with pytest.raises(InputError) as caught:
        DemoPlan(source="disk", objective="lag < 3s", executors=(1, 20), peak_rate=25.0, seed=-1)
    fields = [fault.field for fault in caught.value.faults]
    assert fields == ["source", "partitions", "objective", "peak_rate", "seed"]


def test_the_settings_are_those_of_the_demo_profile_and_allow_for_cold_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5), raising=False)
    settings = load_settings(DemoPlan().settings(tmp_path))
    assert (settings.profile, settings.mode, settings.sample_s) == ("demo", "act", 2.0)
    assert settings.policy_options == {"samples_to_shrink": 4, "wait_limit": 0.4, "settle_batches": 3}
    assert settings.guard.largest_step_up == max(1, (os.cpu_count() or 1) // 2)
    assert settings.guard.cooldown_up_s == 15.0
    other = load_settings(DemoPlan(policy="hpa").settings(tmp_path))
    assert other.policy_options == {}


def test_the_static_run_is_fixed_at_its_size(tmp_path):
    fixed = DemoPlan().static(4)
    settings = load_settings(fixed.settings(tmp_path))
    assert (settings.policy, settings.executors, settings.policy_options) == ("static", (4, 4), {"executors": 4})


def test_the_state_stays_on_the_executor_that_has_it(tmp_path):
    assert asdict(DemoPlan().pipeline(tmp_path, "host:9092", "records"))["shuffle_partitions"] == 1


@pytest.mark.parametrize(("slots", "started"), [(1, [1]), (6, [3, 3]), (7, [4, 3])])
def test_executors_are_on_two_hosts_so_that_spark_runs_a_slow_task_again(slots, started):
    class Cluster:
        def __init__(self):
            self.added = []

        def add_worker(self, size, host):
            self.added.append((host, size.cores))

    lab: Any = SimpleNamespace(cluster=Cluster())
    TwoWorkers(lab, slots).open()
    hosts, sizes = zip(*lab.cluster.added, strict=True)
    assert (list(sizes), len(set(hosts))) == (started, len(started))
