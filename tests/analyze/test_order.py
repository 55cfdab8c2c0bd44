"""The figures that are handed to the assessment by their order."""

from rheostat.analyze.assess import _assessment, _Health, _Slow
from rheostat.analyze.batches import Finished
from rheostat.analyze.occupancy import ClusterFigures
from rheostat.analyze.query import QueryFigures
from rheostat.analyze.rates import OffsetFigures
from rheostat.model import Assessment, Nodes, QueryLoad, StageLoad


def test_each_figure_stands_under_its_name():
    offsets = OffsetFigures(
        at=98.0,
        waiting=1,
        in_flight=2,
        backlog=3,
        arrival_rate=4.0,
        lag_s=5.0,
        partitions=6,
        exact=False,
        by_topic=(("a", 1.5), ("b", 2.5)),
    )
    query = QueryFigures(
        offsets=offsets,
        finished=Finished(at=97.0, batch_id=7, duration_s=8.0, records=9),
        running=True,
        processed_rate=10.0,
        backlog_excess=11.0,
        batch_s=12.0,
        trigger_s=13.0,
        period_s=14.0,
        occupancy=15.0,
        batches=16,
        capped=False,
        partitions=17,
        oldest=96.0,
        pressure=0.18,
        throughput=19.0,
    )
    cluster = ClusterFigures(
        at=95.0,
        executors=20,
        requested=21,
        slots_per_executor=22,
        busy_ratio=0.23,
        active_tasks=24,
        idle_s=(25.0,),
        failed_tasks=26,
    )
    health = _Health(
        by_query=(QueryLoad("q"),),
        nodes=Nodes(94.0, ()),
        sink="slow",
        slow=_Slow(names=("node n",), executors=("1",), on=("n",), nodes=("n", "o"), factor=2.6),
        skew=1.27,
        useful_executors=28,
        stages=(StageLoad(29, 1.0, 0.5),),
    )
    assert _assessment(100.0, [query], cluster, ("a", "b"), health) == Assessment(
        at=100.0,
        executors=20,
        requested=21,
        slots_per_executor=22,
        arrival_rate=4.0,
        arrival_rates=(("a", 1.5), ("b", 2.5)),
        processed_rate=10.0,
        waiting=1,
        in_flight=2,
        backlog=3,
        backlog_excess=11.0,
        backlog_exact=False,
        lag_s=5.0,
        drain_s=0.5,
        draining=True,
        batch_s=12.0,
        trigger_s=13.0,
        period_s=14.0,
        last_batch_s=8.0,
        last_batch_id=7,
        last_batch_records=9,
        occupancy=15.0,
        pressure=0.18,
        throughput=19.0,
        busy_ratio=0.23,
        running=True,
        active_tasks=24,
        idle_s=(25.0,),
        batches=16,
        capped=False,
        failed_tasks=26,
        partitions=17,
        metrics_age_s=5.0,
        invalid=("a", "b"),
        queries=1,
        by_query=(QueryLoad("q"),),
        nodes=Nodes(94.0, ()),
        sink="slow",
        slow=("node n",),
        slow_executors=("1",),
        slow_on=("n",),
        slow_nodes=("n", "o"),
        slow_factor=2.6,
        skew=1.27,
        useful_executors=28,
        stages=(StageLoad(29, 1.0, 0.5),),
    )
