"""``rheostat bench controller``: what a controller that has been attached for a while takes of processor and memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rheostat.config.models import Settings
from rheostat.research.bench.attach import Plan, added_mb, jvm_cycle_ms, measured
from rheostat.research.bench.harness import Bench, Metric, Watch, load_note, metric, unwatched

_PLAN = Plan(pairs=20, block=20, sample_s=0.5, cycles=240, policy="proactive")
_TARGET_PERCENT, _TARGET_MB = 1.0, 60.0
_SAMPLE_S: float = Settings.model_fields["sample_s"].default


def run_controller(watch: Watch = unwatched) -> Bench:
    """The policy `proactive` beside a real query."""
    return run_plan(_PLAN, watch)


def run_plan(plan: Plan, watch: Watch = unwatched) -> Bench:
    """Run a plan; see :func:`rheostat.research.bench.attach.measured`."""
    load = os.getloadavg()
    result = measured(plan, watch)
    notes = (
        f"The policy {plan.policy} beside the query of `bench attach`, journal on disk, a cycle each {plan.sample_s:g} "
        f"s so that there are many; the share is that of one core with a cycle each {_SAMPLE_S:g} s, the default.",
        f"Python: processor time of the driver's process over {plan.cycles} cycles, in which nothing else runs there. "
        f"JVM: by the difference between {len(result['blocks'])} neighbouring blocks of batches with and without it.",
        "The share is judged by the upper end of the JVM's interval, where there is one.",
    )
    return Bench("controller", figures(result["memory"], result["blocks"]), (*notes, load_note(load)))


def figures(memory: Mapping[str, float], blocks: Sequence[Mapping[str, Any]]) -> list[Metric]:
    """Processor time of a cycle, its share of a core, and memory."""
    python_ms = 1000 * memory["cycle_s"]
    jvm = metric("processor time of a cycle, JVM, by difference", jvm_cycle_ms(blocks), "ms")
    upper_ms = jvm.value if jvm.ci95 is None else jvm.ci95[1]
    share, worst = _share(python_ms, jvm.value), _share(python_ms, upper_ms)
    return [
        Metric("steady share of a core", share, "%", int(memory["cycles"]), target=_TARGET_PERCENT, judged=worst),
        Metric("processor time of a cycle, Python", python_ms, "ms", int(memory["cycles"])),
        jvm,
        Metric("memory of the driver's Python, added", added_mb(memory), "MB", 1, target=_TARGET_MB),
        Metric("heap of the driver's JVM, added", memory["heap_later_mb"] - memory["heap_before_mb"], "MB", 1),
    ]


def _share(python_ms: float, jvm_ms: float | None) -> float | None:
    """Percent of a core; None where the JVM's part is not known."""
    return None if jvm_ms is None else 100 * (python_ms + jvm_ms) / (1000 * _SAMPLE_S)
