"""``rheostat demo --overload``: a load beyond the greatest number of executors, with shedding and without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rheostat.config.shedding import Sink, declare_shedding
from rheostat.decide.shedding import measure_accuracy
from rheostat.demo.run import SOURCES, DemoPlan, DemoRun
from rheostat.demo.sizing import Machine
from rheostat.errors import Fault
from rheostat.pipelines.running import PipelineSettings
from rheostat.report.html import Page, write_report
from rheostat.report.score import Series, count_edges
from rheostat.spark.kafka_options import FORMAT
from rheostat.spark.shedding import Shedding
from rheostat.text import percent

_SOURCE, _SINK = "records", "counts"
_OVERLOAD = 1.6
"""Peak rate ÷ what the greatest number of executors carries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadPlan(DemoPlan):
    """A load that the greatest number of executors does not carry.

    Attributes:
        orders: the file by which the source is told what to keep; None: nothing is dropped.
        minimum_accuracy: promised to the sink.
    """

    source: str = FORMAT
    executors: tuple[int, int] = (1, 2)
    rise_s: float = 20.0
    plateau_s: float = 90.0
    fall_s: float = 10.0
    calm_s: float = 30.0
    orders: Path | None = None
    minimum_accuracy: float = 0.4

    def _faults(self) -> list[Fault]:
        faults = super(OverloadPlan, self)._faults()
        if self.source in SOURCES and self.source != FORMAT:
            message = "only this source can be told what to keep while the query runs"
            faults.append(Fault("source", repr(self.source), f"{FORMAT}, with --overload", message))
        return faults

    def shedding(self, orders: Path) -> Shedding:
        sink = Sink(_SINK, minimum_accuracy=self.minimum_accuracy)
        return Shedding(declare_shedding([sink], {_SOURCE: [_SINK]}), orders)

    def sized(self, machine: Machine) -> OverloadPlan:
        """The peak is beyond what this machine carries, unless it was given."""
        sized = super(OverloadPlan, self).sized(machine)
        peak = round((sized.peak_rate or 0.0) * _OVERLOAD, -1) if self.peak_rate is None else self.peak_rate
        return replace(self, base_rate=sized.base_rate, peak_rate=peak, measures=False)

    def settings(self, folder: Path) -> Mapping[str, Any]:
        """Settings of the autoscaler, with what may be dropped."""
        settings = super(OverloadPlan, self).settings(folder)
        return settings if self.orders is None else {**settings, "shedding": self.shedding(self.orders).settings()}

    def pipeline(self, folder: Path, bootstrap: str | None, topic: str | None) -> PipelineSettings:
        pipeline = super(OverloadPlan, self).pipeline(folder, bootstrap, topic)
        options = {} if self.orders is None else self.shedding(self.orders).source_options(_SOURCE)
        return replace(pipeline, source_options=options)

    def notes(self) -> tuple[str, ...]:
        share = f"{self.minimum_accuracy:.0%}"
        return (
            f"The load is {_OVERLOAD:g} × what {self.executors[1]} executors, the most that are allowed, are expected "
            f"to carry. Both runs get the same load. The sink was promised {share} of the records.",
            "Which records are dropped depends on where they lie in the topic, not on what they say, so the counts "
            "that are left are unbiased.",
            *super(OverloadPlan, self).notes(),
        )


def shedding_of(run: DemoRun, orders: Path) -> OverloadPlan:
    """The same load again, with shedding."""
    if not isinstance(run.plan, OverloadPlan):
        message = f"not a run beyond the executors: {run.plan}"
        raise TypeError(message)
    return replace(run.plan, orders=orders, waits_until_warm=True)


def accuracy(run: DemoRun) -> float | None:
    """Share of the records that reached the sink; None: not counted."""
    plan = run.plan
    if not isinstance(plan, OverloadPlan) or plan.orders is None:
        return None
    return measure_accuracy(plan.shedding(plan.orders).graph, count_edges(run.records)).get(_SINK)


def result(run: DemoRun, without: DemoRun) -> dict[str, Any]:
    """The score with shedding, with that of the run without it."""
    promised = run.plan.minimum_accuracy if isinstance(run.plan, OverloadPlan) else None
    sinks = {_SINK: {"promised": promised, "measured": accuracy(run)}}
    return {**run.score, "accuracy": sinks, "baseline": dict(without.score)}


def verdict(run: DemoRun, without: DemoRun) -> str:
    """One sentence on the lag of both runs, and on what it cost."""
    kept, lost = run.score, without.score
    return (
        f"Beyond the greatest number of executors the lag reached {_seconds(lost['lag_max_s'])} without shedding and "
        f"was over the objective of {kept['objective_s']:g} s for {percent(lost['violation_share'])} of the time. With "
        f"shedding it reached {_seconds(kept['lag_max_s'])}, was over the objective for "
        f"{percent(kept['violation_share'])} of the time, and {percent(accuracy(run))} of the records were kept."
    )


def write_page(run: DemoRun, without: DemoRun, path: Path) -> Path:
    """One page with both runs."""
    page = Page(
        title="Rheostat demo: overload, with shedding and without",
        verdict=verdict(run, without),
        notes=run.plan.notes(),
        score=run.score,
        tables={"With shedding and without": _rows(run, without)},
    )
    return write_report(
        path, page, Series(run.records), run.plan.objective_s, beside=("without shedding", Series(without.records))
    )


def _rows(run: DemoRun, without: DemoRun) -> list[list[str]]:
    rows = [["", "lag p95", "lag max", "over the objective", "records in", "dropped", "executor-seconds"]]
    for name, score in (("with shedding", run.score), ("without", without.score)):
        lags = [_seconds(score["lag_p95_s"]), _seconds(score["lag_max_s"]), percent(score["violation_share"])]
        counts = [f"{score['records_in']:,}", f"{score['records_shed']:,}", f"{score['executor_hours'] * 3600:,.0f}"]
        rows.append([name, *lags, *counts])
    return rows


def _seconds(value: float | None) -> str:
    return "an unknown time" if value is None else f"{value:.1f} s"
