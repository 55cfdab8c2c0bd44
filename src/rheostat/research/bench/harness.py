"""Shared by the benchmarks: figures with their uncertainty and target, their page, and drivers on a real cluster."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rheostat.errors import Fault, InputError, RheostatError, UnavailableError
from rheostat.files import read_text, reason_of, replace_text
from rheostat.host.processes import Launch, Part, module_command, module_environment
from rheostat.lab.lab import Lab, LabSpec
from rheostat.report.html import markdown_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


Watch = Callable[[int, int, str], None]
"""Called with the progress of a benchmark: number of steps done, of how many (0: unknown), and what it does."""


def ignore_progress(_done: int, _total: int, _words: str) -> None:
    """A :data:`Watch` that does nothing."""


SCHEMA = "rheostat.bench/1"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure; None: not measured, or not resolved. ``n``: measurements behind it; ``ci95``: by bootstrap.

    ``target``: upper limit. ``judged``: compared with the target in place of the value, as an end of the interval.
    """

    name: str
    value: float | None
    unit: str
    n: int
    ci95: tuple[float, float] | None = None
    target: float | None = None
    judged: float | None = None

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        held = self.value if self.judged is None else self.judged
        return held is not None and math.isfinite(held) and held <= self.target

    def to_json(self) -> dict[str, Any]:
        names = ("name", "value", "unit", "n", "ci95", "target", "met")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Bench:
    """Result of a benchmark. ``notes``: what was done, and what is needed to judge the figures.

    ``tables``: further figures by heading, each with a header row first. ``pictures``: name of a file → its SVG.
    """

    name: str
    metrics: Sequence[Metric]
    notes: Sequence[str] = field(default_factory=tuple)
    tables: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": self.name,
            "machine": machine(),
            "metrics": [metric.to_json() for metric in self.metrics],
            "notes": list(self.notes),
            **(
                {"tables": {title: [list(row) for row in rows] for title, rows in self.tables.items()}}
                if self.tables
                else {}
            ),
        }


def metric(
    name: str,
    samples: Sequence[float],
    unit: str,
    statistic: Callable[[npt.NDArray[np.float64]], float] = lambda values: float(np.median(values)),
    target: float | None = None,
) -> Metric:
    """A statistic of samples with its interval; not measured without samples."""
    values = np.asarray(samples, dtype=np.float64)
    if not values.size:
        return Metric(name, None, unit, 0, target=target)
    return Metric(name, statistic(values), unit, int(values.size), bootstrap_interval(values, statistic), target)


def bootstrap_interval(
    values: npt.NDArray[Any], statistic: Callable[[npt.NDArray[Any]], float], resamples: int = 2000
) -> tuple[float, float] | None:
    """The 95 % percentile interval of a statistic, seeded; None under three values."""
    if values.size < 3:
        return None
    random = np.random.default_rng(1)
    drawn = [statistic(random.choice(values, values.size)) for _ in range(resamples)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def machine() -> str:
    memory, info = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, Path("/proc/cpuinfo")
    named = re.search(r"(?m)^model name\s*: (.+)$", info.read_text(encoding="utf-8") if info.exists() else "")
    processor = named[1].strip() if named else platform.processor() or platform.machine()
    system, python = platform.system(), platform.python_version()
    return f"{processor}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}, Python {python}"


# -------------------------------------------------------- the page docs/benchmarks.md, one section a benchmark

TITLE = """# Benchmarks

Every figure here was printed by the command above it, which wrote this page too. Targets are upper limits.
"""
"""How the page begins."""

_MOST_BYTES = 16 * 2**20


def require_page(path: Path) -> None:
    """Check that the page can be written, before anything is measured; its folder is made.

    Raises:
        InputError: it cannot: a folder, a device, no permission, not text.
    """
    try:
        if path.exists():
            read_text(path, _MOST_BYTES)
            path.open("r+b").close()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("xb").close()
            path.unlink()
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        allowed = "a Markdown page, old or new, that can be written"
        raise InputError([Fault("page", str(path), allowed, f"the page cannot be written: {reason}")]) from error


def update_page(path: Path, result: Bench) -> None:
    """Write a result into the page, in place of an older one of the same name; its pictures go beside the page."""
    for name, picture in result.pictures.items():
        (path.parent / name).write_text(picture, encoding="utf-8")
    text = path.read_text(encoding="utf-8") if path.exists() else TITLE
    path.write_text(with_section(text, result.name, section(result)), encoding="utf-8")


def with_section(text: str, name: str, fresh: str) -> str:
    """The page with the section of that name replaced, or added in the order of names."""
    head, *sections = re.split(r"(?m)^(?=## )", text)
    kept = [old for old in sections if not old.startswith(f"## {name}\n")]
    ordered = sorted([*(old.rstrip() for old in kept), fresh.rstrip()])
    return "\n\n".join([head.rstrip(), *ordered]) + "\n"


def section(result: Bench) -> str:
    lines = [
        f"## {result.name}",
        "",
        f"`rheostat bench {result.name} --page docs/benchmarks.md`, on: {machine()}.",
        "",
        *markdown_table([["figure", "value", "95 % interval", "n", "target"], *map(_row, result.metrics)]),
        "",
        *(line for title, rows in result.tables.items() for line in (f"{title}:", "", *markdown_table(rows), "")),
        *(line for name in result.pictures for line in (f"![{Path(name).stem}]({name})", "")),
        *(f"- {note}" for note in result.notes),
    ]
    return "\n".join(lines)


def _row(metric: Metric) -> list[str]:
    value = "not measured" if metric.value is None else f"{metric.value:.4g} {metric.unit}"
    interval = "" if metric.ci95 is None else f"{metric.ci95[0]:.4g} … {metric.ci95[1]:.4g}"
    mark = {None: "", True: ", met", False: ", **missed**"}[metric.met]
    target = "" if metric.target is None else f"≤ {metric.target:g}{mark}"
    return [metric.name, value, interval, str(metric.n), target]


# ------------------------------------- benchmarks on a real cluster: the driver is a program in a folder of its own

TOPIC = "clicks"

ASKED, PROGRESS, RESULT = "asked.json", "progress.json", "result.json"
"""Files in the driver's folder: executors were requested, so a Worker may start; its progress; what it measured."""


@contextmanager
def lab_and_folder(spec: LabSpec, watch: Watch) -> Iterator[tuple[Lab, Path]]:
    with (
        TemporaryDirectory(prefix="rheostat-bench-") as folder,
        Lab(spec, say=lambda sentence: watch(0, 0, sentence)) as lab,
    ):
        yield lab, Path(folder)


@dataclass(frozen=True, slots=True)
class Driver:
    """A running driver, made by :meth:`start`; ends with the lab. ``watch`` gets its progress."""

    lab: Lab
    part: Part
    folder: Path
    watch: Watch = ignore_progress

    @classmethod
    def start(
        cls, lab: Lab, module: str, job: Mapping[str, Any], folder: Path, watch: Watch = ignore_progress
    ) -> Driver:
        """Run ``python -m MODULE FOLDER`` with the job in ``job.json`` there."""
        folder.mkdir(parents=True)
        write_json(folder / "job.json", job)
        environment = module_environment() | lab.cluster.driver_environment()
        part = lab.run_part("driver", Launch(module_command(module, str(folder)), environment, folder))
        return cls(lab, part, folder, watch)

    def result(self, timeout_s: float) -> dict[str, Any]:
        """Wait for what it measured, and for its end; raises as :meth:`wait_for`."""
        self.wait_for(RESULT, timeout_s)
        self.part.wait_exit(60.0)
        result: dict[str, Any] = json.loads((self.folder / RESULT).read_text(encoding="utf-8"))
        return result

    def wait_for(self, name: str, timeout_s: float) -> None:
        """Wait until this file is in its folder. Raises PartFailedError: a part died, or it took too long."""
        deadline, pause, passed_on = time.monotonic() + timeout_s, threading.Event(), ""
        while not (self.folder / name).exists():
            self.lab.check()
            passed_on = self._pass_on(passed_on)
            if time.monotonic() > deadline:
                what = f"{name} was not there within {timeout_s:.0f} s"
                raise self.part.failure(what)
            pause.wait(0.1)

    def _pass_on(self, before: str) -> str:
        """Pass the driver's progress on, unless it is as before; return it."""
        try:
            progress = (self.folder / PROGRESS).read_text(encoding="utf-8")
        except FileNotFoundError:
            return before
        if progress != before:
            self.watch(*json.loads(progress))
        return progress


def run_driver(folder: Path, drive: Callable[[Mapping[str, Any], Path, Watch], dict[str, Any]]) -> int:
    """Run the job in a folder with ``drive(job, folder, watch)``; the exit code is that of the error, 0 without one."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    try:
        result = drive(job, folder, progress_in(folder))
    except RheostatError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    write_json(folder / RESULT, result)
    return 0


def write_json(path: Path, value: object) -> None:
    """Write JSON that no reader ever sees by halves."""
    replace_text(path, json.dumps(value))


def progress_in(folder: Path) -> Watch:
    """A :data:`Watch` that writes the progress into the driver's folder."""
    return lambda done, total, words: write_json(folder / PROGRESS, [done, total, words])


def load_note(before: tuple[float, float, float]) -> str:
    """Load average before the run and at its end, in words."""
    now = os.getloadavg()
    return f"Load average (1 min) before the run {before[0]:.1f}, at its end {now[0]:.1f} (the run itself included)."


@contextmanager
def session(conf: Mapping[str, str], name: str) -> Iterator[SparkSession]:
    """A session without log lines; ended on leaving."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        yield spark
    finally:
        spark.stop()


def until(holds: Callable[[], bool], what: str, timeout_s: float, look_s: float = 0.05) -> None:
    """Wait for a condition. Raises UnavailableError: it did not hold in time."""
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while not holds():
        if time.monotonic() > deadline:
            message = f"{what}: not within {timeout_s:.0f} s"
            raise UnavailableError(message)
        pause.wait(look_s)


def batches_done(query: StreamingQuery) -> int:
    """Number of finished batches. Raises RheostatError: the query has ended."""
    if not query.isActive:
        message = f"the query has ended: {query.exception()}"
        raise RheostatError(message)
    progress: Any = query.lastProgress
    return 0 if progress is None else int(progress["batchId"]) + 1


# ------------------------------------------ two ways of running, by turns in blocks: what the second adds to a batch


@dataclass(frozen=True, slots=True)
class Block:
    """Batches in a row, with their times in whole milliseconds."""

    attached: bool
    batch_ms: Sequence[int]


@dataclass(frozen=True, slots=True)
class Difference:
    """What attaching adds, in percent of the median batch without; ``ci95``: None with too few pairs."""

    percent: float
    ci95: tuple[float, float] | None


def abba(pairs: int) -> list[bool]:
    """Turns for this many pairs of blocks.

    >>> abba(2)
    [False, True, True, False]
    """
    return [(number % 4) in (1, 2) for number in range(2 * pairs)]


def pairs(blocks: Sequence[Block]) -> list[tuple[Block, Block]]:
    """Neighbours, each pair as (without, with). Raises ValueError: two neighbours are of one kind."""
    ordered = [sorted(pair, key=lambda block: block.attached) for pair in zip(blocks[::2], blocks[1::2], strict=True)]
    if any(without.attached or not attached.attached for without, attached in ordered):
        message = "the blocks do not go by turns"
        raise ValueError(message)
    return [(without, attached) for without, attached in ordered]


def compare_means(blocks: Sequence[Block]) -> Difference:
    """The median, over the pairs, of the difference between the mean batch times of the two blocks.

    Means within a block, since a cycle of the autoscaler falls into one batch of several and would not change the
    median batch. Times are in whole milliseconds, but a mean of 20 of them is known to about 0.06 ms.
    """
    both = pairs(blocks)
    usual = statistics.median(time for without, _ in both for time in without.batch_ms)
    means = [(statistics.fmean(without.batch_ms), statistics.fmean(attached.batch_ms)) for without, attached in both]
    shares = np.array([100 * (attached - without) / usual for without, attached in means])
    return Difference(float(np.median(shares)), bootstrap_interval(shares, lambda values: float(np.median(values))))


def compare_medians(blocks: Sequence[Block]) -> Difference:
    """The difference of the median batches of the two kinds, with medians between the whole milliseconds."""
    both = pairs(blocks)

    def percent(chosen: npt.NDArray[Any]) -> float:
        drawn = [both[int(number)] for number in chosen]
        without, attached = ([time for pair in drawn for time in pair[kind].batch_ms] for kind in (0, 1))
        return 100 * (statistics.median_grouped(attached, 1) / statistics.median_grouped(without, 1) - 1)

    everything = np.arange(len(both))
    return Difference(percent(everything), bootstrap_interval(everything, percent, 1000))
