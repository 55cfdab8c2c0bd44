"""The reference page of job files, made from the models themselves."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator

from pydantic import BaseModel

from rheostat.config.reference import models_in, table
from rheostat.sim.events import Event
from rheostat.sim.jobfile import JobFile
from rheostat.sim.loading import load_job, preset_names
from rheostat.sim.nodes import NodeMap
from rheostat.sim.parts import Distribution, Driver, ExecutorCost, Metrics, RecordModel, Rescale, Sink, Stage, State

__all__ = ["job_reference"]

_SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("stages[]", Stage),
    ("driver", Driver),
    ("executor", ExecutorCost),
    ("state", State),
    ("record", RecordModel),
    ("nodes", NodeMap),
    ("rescale", Rescale),
    ("sink", Sink),
    ("metrics", Metrics),
)

_HEAD = """# Job files

<!-- Made by `rheostat config reference --jobs --out docs/jobs.md`; do not edit. -->

A job file describes the job that the simulator runs: what a batch costs, what an executor costs, how the number of
them is changed, and what happens meanwhile. It is YAML. Unknown keys and keys given twice are errors, and everything
that is wrong is named at once (`rheostat config check FILE`). Times are in seconds. Every command that takes a job
takes the name of a preset or the path of a file, and overrides by dotted keys behind `job.`:
`--set job.executor.start_up.median_s=30`, `--set job.stages.0.cost_ms=2`.

```yaml
schema: rheostat.job/1
name: orders
objective: lag < 60s for 99%
executors: [1, 12]
trigger_s: 10
partitions: 24
batch_cap: 200000
stages:
  - {name: read, cost_ms: 0.4}
  - {name: aggregate, tasks: 48, cost_ms: 0.2, stateful: true}
events:
  - {kind: dead, at_s: 1800, executor: 0}
```

## How a batch runs

A batch begins on the grid of the trigger, or at once if the one before ended too late for it. It takes what has
arrived, at most the cap. Its time is `driver.planning_s`, then the stages one after the other, then `driver.commit_s`
and `state.commit_s`. A task takes `task_ms + its records × cost_ms`; tasks go to slots in order, each to the first that
is free, so T equal tasks on s slots take ⌈T ÷ s⌉ waves. Executors that register meanwhile take waiting tasks; the first
task in each of their slots is cold. Executors are taken away between two batches. Records count as committed when their
batch ends, so lag is a sawtooth.

A job of the model `record` has no batches: see `record`. It is seen as a job with a trigger of `commit_every_s` whose
batch time is the share of the interval that its records took, so that batch ÷ trigger is its utilization. Its
executors share all work and count as busy alike: a slow one or a slow node lowers what they carry together, but is
never named, and `guard.replace_slow` does nothing.
"""


def job_reference() -> str:
    """The page in Markdown."""
    return "\n".join([_HEAD, *_keys(), *_sections(), *_events(), *_presets()]) + "\n"


def _keys() -> Iterator[str]:
    yield from ["## Job", "", *table(JobFile, "")]


def _sections() -> Iterator[str]:
    for name, model in _SECTIONS:
        yield from ["", f"## {name.removesuffix('[]').capitalize()}", "", _said(model), ""]
        yield from table(model, f"{name}.")
    head = "A duration that varies: `executor.start_up` and `rescale.pause` have these keys."
    yield from ["", "## Durations", "", head, "", *table(Distribution, "")]


def _events() -> Iterator[str]:
    head = "Entries of `events`. The kind tells what it is; an event without `for_s` lasts to the end or is a moment."
    yield from ["", "## Events", "", head]
    for model in models_in(Event):
        kind = typing.get_args(model.model_fields["kind"].annotation)[0]
        rows = [row for row in table(model, "") if not row.startswith("| `kind`")]
        yield from ["", f"### `{kind}`", "", _said(model), "", *rows]


def _presets() -> Iterator[str]:
    yield from ["", "## Presets", "", "| preset | model | objective | executors | partitions | trigger, s |"]
    yield "|---|---|---|---|---|---|"
    for name in preset_names():
        job = load_job(name)
        bounds = f"{job.n_min} to {job.n_max}"
        yield f"| `{name}` | {job.model} | {job.objective} | {bounds} | {job.partitions} | {job.trigger_s:g} |"


def _said(model: type[BaseModel]) -> str:
    return " ".join((inspect.getdoc(model) or "").split())
