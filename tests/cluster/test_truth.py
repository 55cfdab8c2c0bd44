"""A real run by a timetable: its journal tells what the simulator is fitted to."""

import pytest

from rheostat.calibrate.measured import read_run
from rheostat.demo.run import run_demo
from rheostat.research.bench.truth import TimetablePlan

pytestmark = pytest.mark.cluster


def test_a_timetable_is_followed_and_its_journal_read(tmp_path):
    steps = ((-1000.0, 1), (15.0, 2))
    plan = TimetablePlan(shape="constant:60@35", steps=steps, begin_s=30.0, executors=(1, 2), base_rate=30.0)

    done = run_demo(plan, tmp_path, lambda _: None, lambda _: None)

    assert done.score["valid"]
    run = read_run(tmp_path / "journal")
    assert [decision.target for decision in run.actions][:2] == [1, 2]
    assert (run.setup.kind, run.setup.longest_wait_s) == ("kafka", 0.02)
    assert (run.setup.partitions, run.setup.batch_cap, run.setup.cores) == (12, 2400, 1)
    assert sum(batch.records for batch in run.batches) <= done.score["records_in"]
    assert run.snapshots[-1].backlog == 0
    (came,) = run.start_ups
    assert 0.5 < came[0] < 30
