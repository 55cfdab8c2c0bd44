"""What is looked for in the runs of S5's experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rheostat.judge.experiments import s5_setting as setting
from rheostat.judge.experiments.results import Result, Seen, over_seeds
from rheostat.judge.experiments.s5_runs import Played, value_at
from rheostat.model import Code

__all__ = ["STATEMENTS", "Runs", "Statement", "answered"]

Runs = Mapping[str, tuple[Played, ...]]
"""Of one seed, by name; several of a fleet."""

_Found = tuple[bool, tuple[float, ...]]

_RIVALS = ("reactive", "hpa", "flink")
_DELAY_S, _MINUTE_S = 120.0, 60.0
_AFTER_S = 600.0
_ALL_BUT = 0.95
"""Share of a rate that is carried where nothing more is done: router goes up from 5 % beyond."""
_RETURN_S = 285.0
"""The guard's 300 s count from the last look at the switch while it was on."""
_HALF_HOUR_S = 1800.0
_HEALTHY = "healthy: lag under 5 minutes"
_NO_TRIP = "up and down again within two cooldowns (the guard's, 120 s) is for nothing"


class Statement(NamedTuple):
    """One statement.

    Attributes:
        id, statement, document, why: as in :class:`Result`.
        words: with a place for each figure.
        look: whether it holds in the runs of one seed, and the figures.
    """

    id: str
    statement: str
    document: str | None
    why: str
    words: str
    look: Callable[[Runs], _Found]

    def over(self, runs: Mapping[int, Runs]) -> Result:
        """Judged over all seeds."""
        looked = {seed: self.look(each) for seed, each in runs.items()}
        seen = [Seen(seed, self.words.format(*figures), holds) for seed, (holds, figures) in looked.items()]
        columns = zip(*(figures for _, figures in looked.values()), strict=True)
        means = self.words.format(*(sum(column) / len(column) for column in columns))
        once = Result(self.id, self.statement, means, self.document, False, self.why)  # noqa: FBT003
        return over_seeds(once, seen)


def _one(runs: Runs, name: str) -> Played:
    return runs[name][0]


# ------------------------------------------------------------------------------------- what is looked for


def _healthy(runs: Runs) -> _Found:
    run = _one(runs, "router")
    return run.violation_s == 0 and run.lag_max < 300 and not run.faults, (run.lag_max,)


def _cheapest(runs: Runs) -> _Found:
    costs = [_one(runs, name).cost for name in ("router", *_RIVALS)]
    return costs[0] < min(costs[1:]), tuple(costs)


def _cheaper_than_hpa_and_flink(runs: Runs) -> _Found:
    costs = [_one(runs, name).cost for name in ("router", "hpa", "flink")]
    return costs[0] < min(costs[1:]), tuple(costs)


def _as_reactive_with_less_lag(runs: Runs) -> _Found:
    ours, other = _one(runs, "router"), _one(runs, "reactive")
    cheap = ours.cost <= 1.05 * other.cost
    return cheap and ours.lag_max < other.lag_max, (ours.cost, other.cost, ours.lag_max, other.lag_max)


def _no_round_trip(runs: Runs) -> _Found:
    ours = [run for name, several in runs.items() if name not in _RIVALS for run in several if name[:3] != "hpa"]
    trips, changes = sum(run.round_trips for run in ours), sum(run.changes for run in ours)
    return trips == 0, (float(trips), float(changes))


def answered(spiked: Played, calm: Played, spikes: Sequence[float]) -> int:
    """How many spikes are answered: by an increase, while the figures show them, that is not there without spikes."""
    return sum(_raised(spiked, at) and not _raised(calm, at) for at in spikes)


def _raised(run: Played, at: float) -> bool:
    """Whether the number is raised while a spike that began then is in the figures."""
    return any(each.after > each.before for each in run.between(at + _DELAY_S, at + _DELAY_S + 3 * _MINUTE_S))


def _unmoved(runs: Runs) -> _Found:
    spikes, counts, shares = _spikes(runs), list[float](), list[float]()
    for name in ("router", "hpa"):
        spiked, calm = _one(runs, name), _one(runs, f"{name}, no spikes")
        counts.append(float(answered(spiked, calm, spikes)))
        shares.append(100 * (spiked.executor_hours / calm.executor_hours - 1))
    return counts[0] <= 1 and counts[0] < counts[1], (counts[0], shares[0], counts[1], shares[1])


def _spikes(runs: Runs) -> tuple[float, ...]:
    """When the spikes of these runs were."""
    return setting.spike_times(_one(runs, "router").seed)


def _reset(runs: Runs) -> _Found:
    run, since = _one(runs, "router"), setting.LASTING_S
    load = setting.spikes(run.seed).load.curve
    rate = (load.cumulative(since + _AFTER_S) - load.cumulative(since)) / _AFTER_S
    enough = [at for at, carried in run.capacity if at >= since and carried >= _ALL_BUT * rate]
    late_s = enough[0] - since if enough else run.capacity[-1][0]
    return late_s <= _AFTER_S, (late_s / 60, 100 * value_at(run.capacity, since) / rate)


def _fleet_static(runs: Runs) -> _Found:
    ours = sum(run.executor_hours for run in runs["router"])
    static = sum(run.static_hours for run in runs["router"])
    return ours <= 0.75 * static, (ours, static, 100 * (1 - ours / static))


def _fleet_hpa(runs: Runs) -> _Found:
    ours, rival = (sum(run.executor_hours for run in runs[name]) for name in ("router", "hpa"))
    return ours <= 0.95 * rival, (ours, rival, 100 * (1 - ours / rival))


def _fleet_healthy(runs: Runs) -> _Found:
    ours, rival = (sum(run.violation_s for run in runs[name]) for name in ("router", "hpa"))
    return ours <= rival and not any(run.faults for run in runs["router"]), (ours, rival)


def _slow_named(runs: Runs) -> _Found:
    begin, end = setting.SLOW
    during = _one(runs, "slow").between(begin, end)
    named = [each.at for each in during if "slow: executor 0" in each.text]
    first_s = named[0] - begin if named else -1.0
    early = [each for each in _one(runs, "slow").between(0.0, begin) if "slow: " in each.text]
    return 0 <= first_s <= _AFTER_S and not early, (first_s, float(len(named)), float(len(during)))


def _sink_advice(runs: Runs) -> _Found:
    during = _one(runs, "sink").between(*setting.SICK)
    told = sum(each.code is Code.SICK_SINK for each in during)
    ups = sum(each.after > each.before for each in during)
    return told > 0 and ups == 0, (float(told), float(len(during)), float(ups))


def _failover(runs: Runs) -> _Found:
    begin, end = setting.FAILOVER
    kept, untold = (
        sum(each.after < each.before for each in _one(runs, name).between(begin, end + _RETURN_S))
        for name in ("failover", "failover untold")
    )
    blocked = len(_one(runs, "failover").said(Code.FAILOVER))
    return kept == 0 and blocked > 0 and untold > 0, (float(kept), float(blocked), float(untold))


def _returned(runs: Runs) -> _Found:
    end, run = setting.FAILOVER.end, _one(runs, "failover")
    ups, untold = (
        sum(each.after > each.before for each in _one(runs, name).between(end, end + _HALF_HOUR_S))
        for name in ("failover", "failover untold")
    )
    last = run.said(Code.FAILOVER)[-1:]
    over = bool(last) and last[0].at < end + _RETURN_S
    return over and run.violation_s == 0 and ups < untold, (float(ups), float(untold), run.violation_s)


def _partitions(runs: Runs) -> _Found:
    several = [_one(runs, name) for name in ("17", "31", "97")]
    trips, over = sum(run.round_trips for run in several), sum(run.violation_s for run in several)
    return trips == 0 and over == 0, (float(trips), float(sum(run.changes for run in several)), over)


# --------------------------------------------------------------------------------------------- statements

_FOUR = "cost: router {:.1f}, reactive {:.1f}, hpa {:.1f}, flink {:.1f}"
_TRIPS = "{:.1f} round trips in {:.0f} changes"


def _common(part: str) -> tuple[Statement, Statement]:
    return (
        Statement(
            f"{part} lag",
            "lag is healthy all the time",
            _HEALTHY,
            "decided once a minute, on figures that are two minutes old",
            "largest lag {:.0f} s",
            _healthy,
        ),
        Statement(
            f"{part} round trips",
            "router, and as published, make no round trip",
            None,
            _NO_TRIP,
            _TRIPS,
            _no_round_trip,
        ),
    )


STATEMENTS: Mapping[str, tuple[Statement, ...]] = {
    "sine": (
        *_common("sine"),
        Statement(
            "sine cost",
            "router follows the wave at less cost than reactive, hpa and flink",
            None,
            "waves of two hours. Each decrease waits for figures of after the one before, three minutes or so, so on "
            "waves of one hour it costs as much as hpa, which does not wait",
            _FOUR,
            _cheapest,
        ),
    ),
    "spikes": (
        *_common("spikes"),
        Statement(
            "spikes outliers",
            "single outliers do not move it: of five at most one is answered, and fewer than hpa answers",
            "an error beyond 3 σ is an outlier",
            "a minute of 1.4 times the line, against the same load without. One that would break the objective if it "
            "stayed is answered at once. Hours differ by a few per cent between two runs by chance alone",
            "router {:.1f} answered, {:+.1f} % executor-hours; hpa {:.1f}, {:+.1f} %",
            _unmoved,
        ),
        Statement(
            "spikes reset",
            "outliers in a row are another load, and become the baseline",
            "k outliers in a row reset the baseline",
            "from 3.4 hours on the load is 1.4 times the line; k is 3 minutes here, and two are the delay",
            "carried after {:.1f} minutes, {:.0f} % of it before",
            _reset,
        ),
    ),
    "day": (
        *_common("day"),
        Statement(
            "day cost",
            "router costs less than hpa and flink",
            None,
            "noise of 10 %, three campaigns, a dip",
            "cost: router {:.1f}, hpa {:.1f}, flink {:.1f}",
            _cheaper_than_hpa_and_flink,
        ),
        Statement(
            "day reactive",
            "it costs no more than 5 % above reactive, with a smaller largest lag",
            "over-allocating is better than under-allocating",
            "reactive waits for the lag, which five minutes allow; router is there before it",
            "cost {:.1f} and {:.1f}, largest lag {:.0f} and {:.0f} s",
            _as_reactive_with_less_lag,
        ),
    ),
    "fleet": (
        Statement(
            "fleet static",
            "the executor-hours of all jobs fall by a quarter at least against a static size for each peak",
            None,
            "a day of each job; sizes, peaks, phases, partitions and costs of a record vary",
            "{:.0f} for {:.0f} executor-hours: {:.1f} % less",
            _fleet_static,
        ),
        Statement(
            "fleet hpa",
            "they fall by 5 % at least against hpa",
            None,
            "the table tells what a number carries, so no headroom is needed",
            "{:.0f} for {:.0f} executor-hours: {:.1f} % less",
            _fleet_hpa,
        ),
        Statement(
            "fleet lag",
            "lag is over five minutes no longer than with hpa",
            _HEALTHY,
            "all jobs together",
            "{:.0f} s and {:.0f} s",
            _fleet_healthy,
        ),
        Statement("fleet round trips", "router makes no round trip", None, _NO_TRIP, _TRIPS, _no_round_trip),
    ),
    "incidents": (
        Statement(
            "slow node",
            "a slow executor is named within ten minutes, and none before there is one",
            "outlier containers: a sick machine",
            "its work takes four times as long for half an hour; two windows of task times in a row tell it",
            "named after {:.0f} s, in {:.0f} of {:.0f} reasons",
            _slow_named,
        ),
        Statement(
            "sick sink",
            "a sick sink gets advice, not executors",
            "up iff the sink is healthy",
            "the sink takes 40 % of the load for half an hour",
            "SICK_SINK in {:.0f} of {:.0f} decisions, {:.1f} increases",
            _sink_advice,
        ),
        Statement(
            "failover",
            "no decrease while a region's traffic is away, nor while it comes back",
            "region failover blocks scale-down only",
            "60 % of the load are away for an hour; untold, the same run goes down",
            "{:.1f} decreases, FAILOVER {:.0f} times; untold {:.1f} decreases",
            _failover,
        ),
        Statement(
            "failover return",
            "a clean return: the executors are there, and the switch leaves nothing behind",
            "until traffic is back",
            "increases in the half hour after it, and time over the objective",
            "{:.1f} increases, untold {:.1f}; {:.0f} s over the objective",
            _returned,
        ),
        Statement(
            "partitions",
            "with 17, 31 and 97 partitions there is no round trip, and no violation",
            None,
            "a wave of two hours each; nothing is divisible by the slots",
            "{:.1f} round trips in {:.0f} changes, {:.0f} s over the objective",
            _partitions,
        ),
        Statement("incidents round trips", "no round trip in any incident", None, _NO_TRIP, _TRIPS, _no_round_trip),
    ),
}
"""By part."""
