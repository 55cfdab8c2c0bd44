"""``rheostat load``: produce a load into Kafka, or into a log on disk."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import reduce
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from rheostat import __version__
from rheostat.cli.common import JsonFlag, console, print_json, report, say
from rheostat.errors import Fault, InputError
from rheostat.load.payload import IdChecksum, RecordMaker
from rheostat.load.request import KafkaTarget, LoadRequest, LogTarget, read_requests
from rheostat.load.shapes import GRAMMAR, KINDS

if TYPE_CHECKING:
    from rheostat.load.producer import LoadProgress, LoadResult, Sink
    from rheostat.load.trips import TripLoad


_WITH_OPTIONS = (f"{name} ({', '.join(kind.options)})" if kind.options else name for name, kind in KINDS.items())
_TRIPS_HELP = (
    "Taxi trips instead of click-fraud records: synthetic (two days, a million trips), or CSV files, comma separated."
)
_HEAD = {"schema": "rheostat.load/1", "version": __version__}
_SCENARIO_HELP = (
    "JSON or YAML file with applications, their topics and rates. With --log: a folder with a log for each topic."
)
_SHAPE_HELP = f"{escape(GRAMMAR)}. Shapes and their options: {', '.join(_WITH_OPTIONS)}."


def _option(words: str) -> Any:
    """An option that is parsed as text, so that all faults are reported at once."""
    return typer.Option(help=words)


def load(
    topic: Annotated[str | None, _option("Topic to produce into.")] = None,
    bootstrap: Annotated[str | None, _option("Broker, HOST:PORT. Default: localhost:9092.")] = None,
    log: Annotated[str | None, _option("Folder of a log on disk, instead of Kafka.")] = None,
    partitions: Annotated[str | None, _option("Partitions of a new topic or log. Default: 8.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False,
    shape: Annotated[str | None, _option(_SHAPE_HELP)] = None,
    rate: Annotated[
        str | None, _option("Records/s, for a shape without its own rate; mean rate, for synthetic trips.")
    ] = None,
    seconds: Annotated[str | None, _option("Duration, s; cuts a longer load. Default: 60.")] = None,
    trace: Annotated[str | None, _option("CSV files or folders (second,events_per_second), played in turn.")] = None,
    variation: Annotated[str | None, _option("Variation files (seconds, level), one for each agent.")] = None,
    rate_per_level: Annotated[str | None, _option("Records/s for each level of a variation file.")] = None,
    trips: Annotated[str | None, _option(_TRIPS_HELP)] = None,
    scenario: Annotated[str | None, _option(_SCENARIO_HELP)] = None,
    speed: Annotated[str | None, _option("Speed-up of trips: 10 is ten times faster. Default: 1.")] = None,
    copies: Annotated[str | None, _option("Records for each trip. Default: 1.")] = None,
    time_scale: Annotated[str | None, _option("Time factor of files: 0.1 is ten times faster.")] = None,
    rate_scale: Annotated[str | None, _option("Rate factor of files: 2 doubles the rates.")] = None,
    seed: Annotated[str | None, _option("Seed of keys, values and random shapes. Default: 0.")] = None,
    first_id: Annotated[str | None, _option("Id of the first record. Default: 0.")] = None,
    users: Annotated[str | None, _option("Number of users. Default: 10000.")] = None,
    ips: Annotated[str | None, _option("Number of addresses. Default: 2000.")] = None,
    skew: Annotated[str | None, _option("Exponent of the power law of users and addresses. Default: 0.8.")] = None,
    click_share: Annotated[str | None, _option("Share of clicks, 0 to 1. Default: 0.2.")] = None,
    key: Annotated[str | None, _option("Key of the records: user, ip or none.")] = None,
    json: JsonFlag = False,
) -> int:
    """Produce click-fraud records at the rates of a shape, a trace or a variation file; taxi trips; or a scenario."""
    given = {name: value for name, value in locals().items() if name != "json"}
    requests = read_requests(**given)
    for trips_given in (request.trips for request in requests if request.trips is not None):
        for reason, number in sorted(trips_given.left_out.items()):
            say(f"skipped: {number:,} {'row' if number == 1 else 'rows'}, {reason}")
    results = _produce(requests, _open_sinks(requests))
    for request, result in zip(requests, results, strict=True):
        _show(result, f"{_name(request)}: " if scenario is not None else "")
    if json and scenario is not None:
        print_json(_scenario_to_json(scenario, requests, results))
    elif json:
        print_json(_HEAD | _to_json(requests[0], results[0], shape or trace or variation or trips))
    return 0 if all(result.whole for result in results) else 1


def _open_sinks(requests: Sequence[LoadRequest]) -> list[Sink]:
    """Raises InputError with the faults of all topics or logs; of a scenario they name the place in its file."""
    faults: list[Fault] = []
    sinks: list[Sink] = []
    for request in requests:
        try:
            sinks.append(_open_sink(request.target))
        except InputError as error:
            for fault in error.faults:
                within = ".partitions" if fault.field == "--partitions" else ""
                faults.append(replace(fault, field=request.field + within) if request.field else fault)
    if faults:
        for sink in sinks:
            sink.finish(0.0)
        raise InputError(faults)
    return sinks


def _open_sink(target: KafkaTarget | LogTarget) -> Sink:
    if isinstance(target, LogTarget):
        from rheostat.load.log_writer import LogSink, LogWriter

        return LogSink(LogWriter(target.folder, target.partitions))
    from rheostat.load.kafka_sink import KafkaSink, ensure_topic

    ensure_topic(target.bootstrap, target.topic, target.partitions, create=target.create)
    return KafkaSink(target.bootstrap, target.topic)


def _produce(requests: Sequence[LoadRequest], sinks: Sequence[Sink]) -> list[LoadResult]:
    """Play all loads at the same time; where one breaks, the others stop, and its error is raised."""
    from rheostat.load.producer import OpenLoopProducer, RunClock

    stop, makers = threading.Event(), [request.records() for request in requests]
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
    with _signals(stop), Progress(*columns, console=console(), transient=True) as bar:

        def play(request: LoadRequest, sink: Sink, records: RecordMaker) -> LoadResult:
            task = bar.add_task(_name(request), total=request.curve.duration, words="")

            def show(progress: LoadProgress) -> None:
                words = f"{progress.rate:,.0f}/s  {progress.sent:,} sent  {progress.late_s:.2f} s late"
                bar.update(task, completed=progress.t or 0.0, words=words)

            return OpenLoopProducer(sink, records, RunClock(stop), watch=show).run(request.curve)

        jobs = list(zip(requests, sinks, makers, strict=True))
        if len(jobs) == 1:
            return [play(*jobs[0])]
        with ThreadPoolExecutor(len(jobs)) as pool:
            running = [pool.submit(play, *job) for job in jobs]
            try:
                for each in as_completed(running):
                    each.result()
            finally:
                stop.set()
        return [each.result() for each in running]


def _name(request: LoadRequest) -> str:
    target = request.target
    return target.topic if isinstance(target, KafkaTarget) else target.folder.name


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """The first SIGINT or SIGTERM ends the load in order, a second one immediately."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        restore()

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        restore()


def _show(result: LoadResult, name: str) -> None:
    rate = result.records / result.seconds if result.seconds else 0.0
    late = result.lateness
    report(f"{name}{_records(result.records)} in {result.seconds:.1f} s ({rate:,.0f}/s), {result.size:,} bytes")
    if late.max_s is not None and late.p95_s is not None:
        behind = f", {late.behind_at_end_s:.2f} s behind at the end" if late.behind_at_end_s else ""
        report(f"{name}late by {late.p95_s:.3f} s (p95), {late.max_s:.3f} s at most{behind}")
    if result.stopped:
        report(f"{name}stopped early: {result.next_id - result.first_id:,} of {_records(result.scheduled)} handed over")
    if not result.whole:
        report(f"✗ {name}{_records(result.in_doubt)} in doubt: {result.error or 'not acknowledged in time'}")


def _records(number: int) -> str:
    return f"{number:,} {'record' if number == 1 else 'records'}"


def _to_json(request: LoadRequest, result: LoadResult, text: str | None) -> dict[str, Any]:
    target = request.target
    return {
        "topic": target.topic if isinstance(target, KafkaTarget) else None,
        "log": str(target.folder) if isinstance(target, LogTarget) else None,
        "load": text,
        "trips": request.trips and _trips_to_json(request.trips),
        "seed": request.payload.seed,
        "seconds_scheduled": request.curve.duration,
        "seconds": result.seconds,
        "records_scheduled": result.scheduled,
        "records": result.records,
        "records_in_doubt": result.in_doubt,
        "errors": result.failed,
        "error": result.error,
        "bytes": result.size,
        "first_id": result.first_id,
        "next_id": result.next_id,
        "checksum": result.checksum.to_json(),
        "lateness": asdict(result.lateness),
        "stopped": result.stopped,
    }


def _scenario_to_json(file: str, requests: Sequence[LoadRequest], results: Sequence[LoadResult]) -> dict[str, Any]:
    """The result of each topic, and what they are together: sums, and the latest of times."""
    pairs = list(zip(requests, results, strict=True))
    topics = [{"application": request.application, **_to_json(request, result, file)} for request, result in pairs]
    sums = ("records_scheduled", "records", "records_in_doubt", "errors", "bytes")
    checksum = reduce(IdChecksum.merge, (result.checksum for result in results))
    late = [result.lateness.max_s for result in results if result.lateness.max_s is not None]
    totals: dict[str, Any] = {name: sum(topic[name] for topic in topics) for name in sums}
    totals |= {name: max(topic[name] for topic in topics) for name in ("seconds_scheduled", "seconds", "next_id")}
    totals |= {"checksum": checksum.to_json(), "late_max_s": max(late, default=None)}
    totals["stopped"] = any(result.stopped for result in results)
    return {**_HEAD, "schema": "rheostat.load-scenario/1", "scenario": file, "topics": topics, "totals": totals}


def _trips_to_json(trips: TripLoad) -> dict[str, Any]:
    arrivals = trips.arrivals
    figures = {"trips": arrivals.trips[-1], "speed": arrivals.speed, "copies": arrivals.copies}
    return {**figures, "left_out": dict(sorted(trips.left_out.items()))}
