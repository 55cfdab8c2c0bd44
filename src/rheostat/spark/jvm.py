"""Reads the driver's JVM. Nothing here changes anything, and the JVM calls nothing back.

Much is read as one text in one round trip, which is cheaper than many objects with calls of their own. The formats are
those of Spark 4.0 to 4.2; the functions that read a text raise ValueError for one that they do not understand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rheostat.errors import Fault, RefusedError, RheostatError, UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Run(NamedTuple):
    """One run of a streaming query."""

    query_id: str
    run_id: str


class Trigger(NamedTuple):
    """When batches start.

    Attributes:
        kind: ``"processing"``, ``"once"``, ``"available-now"``, ``"continuous"``, ``"real-time"`` or ``"unknown"``.
        interval_s: of a processing-time trigger; 0: as soon as possible. None for the others.
    """

    kind: str
    interval_s: float | None


_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_RUN = re.compile(rf"\[id = (?P<id>{_UUID}), runId = (?P<run>{_UUID})\] \[state = (?P<state>\w+)\]")
_TRIGGER = re.compile(r"(?P<name>\w+?)Trigger\$?(?:\((?P<ms>\d+).*\))?")
_TRIGGER_KINDS = {
    "ProcessingTime": "processing",
    "OneTime": "once",
    "AvailableNow": "available-now",
    "Continuous": "continuous",
    "RealTime": "real-time",
}
_FAILED = re.compile(r"^\s*\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
_MAX_FAILURE = 300
_MOST_EVENTS = 64
"""Progress events that are looked through at most."""
_PACKAGE = re.compile(r"\b(?:[a-z]\w*\.)+(?=[A-Z]\w*)")
_MAX_ERROR = 300
_DEPLOYMENTS = {
    "local-cluster[": "local-cluster",
    "local": "local",
    "spark://": "standalone",
    "yarn": "yarn",
    "k8s://": "kubernetes",
}


def runs(text: str) -> tuple[Run, ...]:
    """The runs in the text of Spark's map of active queries, without those that have terminated."""
    found = list(_RUN.finditer(text))
    if len(found) < text.count("[state = ") or not text.startswith("{"):
        message = f"not understood as a map of queries: {text[:200]}"
        raise ValueError(message)
    return tuple(Run(match["id"], match["run"]) for match in found if match["state"] != "TERMINATED")


def trigger(text: str) -> Trigger:
    """Spark's text of a trigger.

    >>> trigger("ProcessingTimeTrigger(2000)")
    Trigger(kind='processing', interval_s=2.0)
    """
    match = _TRIGGER.fullmatch(text)
    kind = _TRIGGER_KINDS.get(match["name"], "unknown") if match else "unknown"
    if match is None or kind != "processing" or match["ms"] is None:
        return Trigger(kind, None)
    return Trigger(kind, int(match["ms"]) / 1000)


def offset_seq(text: str) -> tuple[object, ...]:
    """The offsets of a query, one for each source in the order of the plan; None where there is none yet.

    >>> offset_seq('[{"orders": {"0": 15}}, -]')
    ({'orders': {'0': 15}}, None)
    """
    decoder = json.JSONDecoder()
    offsets: list[object] = []
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] == "-" and text[at + 1] in ",]":
            offset, at = None, at + 1
        else:
            offset, at = decoder.raw_decode(text, at)
        offsets.append(offset)
        at += len(", ")
    if not (text.startswith("[") and text.endswith("]")):
        message = f"not understood as the offsets of a query: {text[:200]}"
        raise ValueError(message)
    return tuple(offsets)


def failure_text(message: str) -> str:
    """What ended a query, in one line: Spark's message without the plan, and of a Python traceback the last line.

    >>> failure_text("[STREAM_FAILED] Query [id = …] terminated with exception: No room === Streaming Query === …")
    'No room'
    """
    head = message.split("=== Streaming Query ===", maxsplit=1)[0]
    text, found, traceback = _FAILED.sub("", head).partition("An exception was raised by the Python Proxy")
    if found:
        lines = [line.strip() for line in traceback.splitlines() if line.strip()]
        errors = [line for line in lines if not line.startswith(("SQLSTATE", "at ", "File ", "^"))]
        text += errors[-1] if errors else ""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_FAILURE else f"{line[: _MAX_FAILURE - 1]}…"


def deploy_of(master: str) -> str:
    """The kind of cluster that a master's URL stands for, see :class:`SessionFacts`."""
    return next((kind for start, kind in _DEPLOYMENTS.items() if master.startswith(start)), "other")


def host_of(address: str) -> str:
    """The host of ``host:port``, or of a host alone: an executor that has just registered has no port yet.

    >>> [host_of(each) for each in ("10.1.2.3:38497", "10.1.2.3", "[::1]:80", "[::1]")]
    ['10.1.2.3', '10.1.2.3', '[::1]', '[::1]']
    """
    host, _, port = address.rpartition(":")
    return host if port.isdecimal() else address


def executor_age(executor_id: str) -> tuple[int, str]:
    """Sorts executors, oldest first: cluster managers number them in the order in which they start them."""
    return (int(executor_id) if executor_id.isdecimal() else 0, executor_id)


@contextmanager
def translate_errors(doing: str, raised: type[RheostatError] = UnavailableError) -> Iterator[None]:
    """Raise what fails in the JVM, or on the way to it, as ``raised``: "DOING: the JVM's words"."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException, OSError, AttributeError, TypeError) as error:
        java = getattr(error, "java_exception", None)
        words = " ".join(str(java if java is not None else f"{type(error).__name__}: {error}").split())
        message = f"{doing}: {_PACKAGE.sub('', words).removeprefix('ExecutionException: ')[:_MAX_ERROR]}"
        raise raised(message) from error


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What decides whether, and how, the executors of a session can be changed. None: not known or not set.

    Attributes:
        connect: a Spark Connect session, whose driver is out of reach; everything else is unknown then.
        master: as in the configuration (``"spark://host:7077"``, ``"local[2]"``).
        deploy: ``"local"``, ``"local-cluster"``, ``"standalone"``, ``"yarn"``, ``"kubernetes"`` or ``"other"``.
        dynamic_allocation: whether Spark's own is switched on.
        cores_max: ``spark.cores.max``, a hard cap on standalone.
        executor_cores: ``spark.executor.cores``, or the cores of a registered executor where that is not set.
    """

    connect: bool
    spark_version: str | None = None
    app_id: str | None = None
    app_name: str | None = None
    master: str | None = None
    deploy: str | None = None
    dynamic_allocation: bool | None = None
    cores_max: int | None = None
    executor_cores: int | None = None


@dataclass(frozen=True, slots=True)
class SourceLeaf:
    """A streaming source in the plan of a query. ``options`` holds all of them, secrets too."""

    provider: str
    options: Mapping[str, str]


def option_of(options: Mapping[str, str], name: str) -> str | None:
    """An option of a source by its name, which is not case-sensitive."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What does not change while a query runs."""

    run: Run
    name: str | None
    trigger: Trigger
    leaves: tuple[SourceLeaf, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """The offsets of a query: one JSON value for each of its sources, in the order of the plan.

    Attributes:
        batch_id: of the running batch, else of the next one; −1 before the first is known.
        running: whether a batch is planned and not committed yet.
        started_s: when the trigger of that batch fired, seconds of the epoch.
        committed: the end of the last committed batch; before the first of all, where that one starts.
        planned: the end of the running batch; what is committed, if none runs.
    """

    batch_id: int
    running: bool
    started_s: float | None
    committed: tuple[object, ...]
    planned: tuple[object, ...]


_UNREAD = (
    *("inputBytes", "outputBytes", "outputRecords", "failedTasks", "succeededTasks", "killedTasks"),
    *("shuffleRead", "shuffleReadRecords", "shuffleWrite", "shuffleWriteRecords", "memoryBytesSpilled"),
    *("diskBytesSpilled", "isBlacklistedForStage", "isExcludedForStage", "peakMemoryMetrics"),
)
"""What is left out of what executors did of a stage: an answer of Py4J beyond 8 KB takes 44 ms, a delay of TCP."""


class DriverJvm:
    """The JVM of a classic Spark session. Every method raises UnavailableError when it does not answer.

    Raises:
        RefusedError: the session has no JVM in this process (Spark Connect).
    """

    def __init__(self, spark: SparkSession) -> None:
        if session_is_remote(spark):
            message = "attach where the driver runs: a Spark Connect client cannot reach the driver's JVM"
            raise RefusedError([Fault("spark", "a Spark Connect session", "a classic Spark session", message)])
        self._spark = spark
        self._mapper: Any = None
        self._excludes = False
        with translate_errors("reaching the driver's JVM"):
            self._context = spark.sparkContext._jsc.sc()  # noqa: SLF001
            self._active = spark._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001

    @property
    def gateway(self) -> Any:
        """Py4J's view of the JVM, for :mod:`rheostat.spark.kafka_admin`."""
        return self._spark._jvm  # noqa: SLF001

    def stopped(self) -> bool:
        """Whether the Spark context has been stopped."""
        with translate_errors("asking whether Spark runs"):
            return bool(self._context.isStopped())

    def runs(self) -> tuple[Run, ...]:
        """The active runs of all sessions of this application, also those still starting. One round trip."""
        with translate_errors("listing the active queries"):
            return runs(str(self._active.toString()))

    def query(self, run: Run) -> QueryHandle | None:
        """A handle on an active run; None if it has ended, or another run has taken its place."""
        with translate_errors("finding a query"):
            query_id = self.gateway.java.util.UUID.fromString(run.query_id)
            execution = self._active.get(query_id)
            if execution is None or execution.runId().toString() != run.run_id:
                return None
        return QueryHandle(run, execution, self)

    def executors(self) -> list[dict[str, Any]]:
        """The executors in Spark's status store, in the form of its REST interface, without the driver.

        Works with the UI off. Those that are being removed are left out. 3 round trips and one for each executor. One
        that comes to a host that Spark has excluded is not marked as excluded by Spark: it is here.
        """
        with translate_errors("listing the executors"):
            listed = self.as_json(self._context.statusStore().executorList(True))  # noqa: FBT003 (Scala's)
            executors = [executor for executor in json.loads(listed) if executor["id"] != "driver"]
            if not executors:
                return []
            backend = self._context.schedulerBackend()
            active = [executor for executor in executors if backend.isExecutorActive(executor["id"])]
            self._excludes = self._excludes or any(executor.get("isExcluded") for executor in active)
            if not self._excludes:
                return active
            hosts = str(self._context.taskScheduler().excludedNodes().mkString(",")).split(",")
            return [each | {"isExcluded": True} if host_of(each["hostPort"]) in hosts else each for each in active]

    def stages(self, most: int) -> list[dict[str, Any]]:
        """The newest stages, newest first, in the form of Spark's REST interface. Six round trips."""
        with translate_errors("listing the stages"):
            found: list[dict[str, Any]] = json.loads(self.as_json(stored_stages(self._context).take(most)))
            return found

    def stage_executors(self, stage: Mapping[str, Any]) -> dict[str, Any]:
        """What each executor did of one of the :meth:`stages`, by its id, as its ``executorSummary``. 3 round trips."""
        with translate_errors("listing the executors of a stage"):
            summary = self._context.statusStore().executorSummary(stage["stageId"], stage["attemptId"])
            found: dict[str, Any] = json.loads(self.as_json(summary))
            return found

    def jobs(self, most: int) -> list[dict[str, Any]]:
        """The newest jobs, newest first, in the form of Spark's REST interface. Four round trips."""
        with translate_errors("listing the jobs"):
            stored = self._context.statusStore().jobsList(None).take(most)
            found: list[dict[str, Any]] = json.loads(self.as_json(stored))
            return found

    def facts(self) -> SessionFacts:
        """What is known of the session; see :func:`session_facts` for one that may be remote."""
        with translate_errors("reading the configuration"):
            conf = self._spark.sparkContext.getConf()
            cores = conf.get("spark.executor.cores")
            if not cores and (executors := self.executors()):
                cores = str(executors[0]["totalCores"])
            master = str(self._context.master())
            return SessionFacts(
                connect=False,
                spark_version=self._spark.version,
                app_id=self._context.applicationId(),
                app_name=self._context.appName(),
                master=master,
                deploy=deploy_of(master),
                dynamic_allocation=(conf.get("spark.dynamicAllocation.enabled") or "false").strip().lower() != "false",
                cores_max=_number(conf.get("spark.cores.max")),
                executor_cores=_number(cores),
            )

    def as_json(self, value: Any) -> str:
        """A Java or Scala value as JSON, by Spark's own Jackson: one round trip however large it is."""
        if self._mapper is None:
            mapper = self.gateway.com.fasterxml.jackson.databind.ObjectMapper()
            mapper.registerModule(self.gateway.com.fasterxml.jackson.module.scala.DefaultScalaModule())
            unread = self.gateway.java.util.HashSet()
            for name in _UNREAD:
                unread.add(name)
            left_out = self.gateway.com.fasterxml.jackson.annotation.JsonIgnoreProperties.Value
            summary = self.gateway.java.lang.Class.forName("org.apache.spark.status.api.v1.ExecutorStageSummary")
            mapper.configOverride(summary).setIgnorals(left_out.forIgnoredProperties(unread))
            self._mapper = mapper
        return str(self._mapper.writeValueAsString(value))


class QueryHandle:
    """One run of a streaming query in the JVM. It stays readable after the query has ended."""

    def __init__(self, run: Run, execution: Any, jvm: DriverJvm) -> None:
        self.run = run
        self._execution = execution
        self._jvm = jvm

    def plan(self) -> QueryPlan:
        """Trigger and sources. Some ten round trips: ask once for a run."""
        with translate_errors("reading the plan of a query"):
            execution = self._execution
            leaves = execution.analyzedPlan().collectLeaves()
            found = (self._leaf(leaves.apply(index)) for index in range(leaves.size()))
            return QueryPlan(
                run=self.run,
                name=execution.name(),
                trigger=trigger(execution.trigger().toString()),
                leaves=tuple(leaf for leaf in found if leaf is not None),
            )

    def position(self) -> Position | None:
        """The offsets, also while a batch runs; None until the query knows them itself. 12 round trips.

        The committed offsets are read last, so that a batch that ends meanwhile is not counted as in flight.
        """
        with translate_errors("reading the offsets of a query"):
            context = self._execution.getLatestExecutionContext()
            sources = self._execution.sources()
            if context is None or sources is None or sources.isEmpty():
                return None
            batch_id = int(context.batchId())
            if batch_id < 0:
                return None
            running = bool(context.isCurrentBatchConstructed())
            planned = offset_seq(context.endOffsets().toOffsetSeq(sources, None).toString())
            committed = offset_seq(self._execution.committedOffsets().toOffsetSeq(sources, None).toString())
            if running and None in committed:
                data = context.newData()
                committed = tuple(
                    self._start(data, sources.apply(index)) if offset is None else offset
                    for index, offset in enumerate(committed)
                )
            started = context.getStartTime() / 1000 if running else None
            return Position(batch_id, running, started, committed, planned if running else committed)

    def progress(self) -> str | None:
        """The last progress event as JSON; None before the first batch has ended. 2 round trips."""
        with translate_errors("reading the progress of a query"):
            progress = self._execution.lastProgress()
            return None if progress is None else str(progress.json())

    def earlier_progress(self, after: int, before: int) -> list[str]:
        """The progress events of the batches between two others, oldest first, as JSON: what Spark keeps of them.

        3 round trips for each, and for each event of a time without input.
        """
        with translate_errors("reading the progress of a query"):
            events, found = self._execution.recentProgress(), list[str]()
            for place in reversed(range(max(0, len(events) - _MOST_EVENTS), len(events))):
                batch_id = int(events[place].batchId())
                if batch_id <= after:
                    break
                if batch_id < before:
                    found.insert(0, str(events[place].json()))
            return found

    def failure(self) -> str | None:
        """Why the query failed; None if it runs, or has ended in order."""
        with translate_errors("asking why a query ended"):
            exception = self._execution.exception()
            return None if exception.isEmpty() else failure_text(str(exception.get().getMessage()))

    def _leaf(self, leaf: Any) -> SourceLeaf | None:
        kind = leaf.getClass().getSimpleName()
        if kind == "StreamingRelationV2":
            provider, options = leaf.sourceName(), leaf.extraOptions().asCaseSensitiveMap()
        elif kind == "StreamingRelation":
            provider, options = leaf.dataSource().className(), leaf.dataSource().options()
        else:
            return None
        return SourceLeaf(str(provider), json.loads(self._jvm.as_json(options)))

    def _start(self, data: Any, source: Any) -> object:
        """Where the running batch starts in a source."""
        held = data.get(source) if data is not None else None
        if held is None or held.isEmpty() or held.get().getClass().getSimpleName() != "OffsetHolder":
            return None
        return json.loads(held.get().start().json())


def stored_stages(context: Any) -> Any:
    """The stages that Spark remembers (the last 1000), newest first, as a Scala sequence; running ones may lag."""
    store = context.statusStore()
    details, summaries = False, False
    return store.stageList(None, details, summaries, getattr(store, "stageList$default$4")(), None)


def session_is_remote(spark: object) -> bool:
    """Whether the session is one of Spark Connect, without a JVM in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def session_facts(spark: SparkSession) -> SessionFacts:
    """What decides about scaling this session, also one of Spark Connect."""
    return SessionFacts(connect=True) if session_is_remote(spark) else DriverJvm(spark).facts()


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
