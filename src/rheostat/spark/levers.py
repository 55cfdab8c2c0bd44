"""Changes the executors of a running application: the write side of the driver's JVM, and the only place that uses it.

``requestTotalExecutors`` is a developer interface of ``SparkContext``; the rest is package-private Scala that Java, and
so Py4J, can call. What these calls do was tried on Spark 4.2.0 standalone; the cluster tests hold it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheostat.errors import ActuationError
from rheostat.spark.jvm import DriverJvm, executor_age, option_of, stored_stages, translate_errors
from rheostat.spark.kafka_options import FORMAT
from rheostat.spark.orders import Pause, now_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LISTENERS_MS = 2000


class SparkLevers:
    """The levers of one session. Every call may raise :class:`~rheostat.errors.ActuationError`.

    A call is one or a few round trips to the JVM, of about 0.2 ms each. Only :meth:`request_total` and the two kills
    wait for the cluster's master, at most ``spark.rpc.askTimeout``.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._pause: Pause | None = None

    def request_total(self, executors: int) -> bool:
        """Ask the cluster for so many executors in total; False: not acknowledged.

        The number is a limit too: below the present number it removes nothing, but a lost executor is not replaced.
        """
        with _trying(f"asking for {executors} executor(s)"):
            nowhere = self._python_utils().toScalaMap({})
            return bool(self._context().requestTotalExecutors(executors, 0, nowhere))

    def listed(self) -> tuple[str, ...]:
        """Every executor in the driver's list, oldest first, also those that are being removed."""
        with _trying("listing the executors"):
            return _oldest_first(self._backend().getExecutorIds().mkString(","))

    def registered(self) -> tuple[str, ...]:
        """The executors that get tasks, oldest first.

        A removed one stays in the list for ``spark.standalone.executorRemoveDelayOnDisconnection`` (5 s), without
        tasks: it is not counted.
        """
        listed = self.listed()
        with _trying("listing the executors"):
            backend = self._backend()
            return tuple(each for each in listed if backend.isExecutorActive(each))

    def idle(self) -> frozenset[str]:
        """The registered executors that run no task."""
        registered = self.registered()
        with _trying("looking for idle executors"):
            running = self._context().taskScheduler().runningTasksByExecutors().mkString(",")
        counts = dict(entry.split(" -> ") for entry in running.split(",") if entry)
        return frozenset(each for each in registered if counts.get(each, "0") == "0")

    def between_triggers(self) -> bool:
        """Whether no streaming query of the session is within a trigger and no Spark job is running at all."""
        with _trying("reading the status of the queries"):
            queries = self._spark._jsparkSession.streams().active()  # noqa: SLF001 - no public way to it
            if any(query.status().isTriggerActive() for query in queries):
                return False
            return bool(self._context().dagScheduler().activeJobs().isEmpty())

    def pause(self, longest_s: float) -> bool:
        """Ask the sources of all active queries to begin no batch; False: one of them takes no orders."""
        with _trying("pausing the sources"):
            jvm = DriverJvm(self._spark)
            handles = [jvm.query(run) for run in jvm.runs()]
            leaves = [leaf for handle in handles if handle is not None for leaf in handle.plan().leaves]
        files = [option_of(leaf.options, "orders") for leaf in leaves if leaf.provider == FORMAT]
        named = [Path(file) for file in files if file]
        if not leaves or len(named) < len(leaves):
            return False
        self._pause = Pause(named, longest_s)
        with _writing_orders():
            self._pause.begin(now_ms())
        return True

    def resume(self) -> None:
        """Let the sources go on."""
        pause, self._pause = self._pause, None
        if pause is not None:
            with _writing_orders():
                pause.end()

    def holding_map_output(self) -> frozenset[str]:
        """The executors that hold map output which a running job still needs.

        The scheduler keeps a shuffle in its table only as long as a running job depends on it.
        """
        with _trying("looking for map output in use"):
            scheduler = self._context().dagScheduler()
            shuffles = scheduler.shuffleIdToMapStage().keySet().mkString(",")
            statuses = self._context().env().mapOutputTracker().shuffleStatuses()
            found = [statuses.get(int(each)) for each in shuffles.split(",") if each]
            return frozenset(each for status in found if status.isDefined() for each in _locations(status.get()))

    def kill_idle(self, executors: Sequence[str]) -> tuple[str, ...]:
        """Remove those of ``executors`` that run no task; returns the ones really removed.

        Spark checks and marks them under one lock, so that a task that starts meanwhile is safe. The number asked for
        is left as it is: lower it first, or they are replaced.
        """
        return self._kill(executors, force=False)

    def kill_forced(self, executors: Sequence[str]) -> tuple[str, ...]:
        """Remove ``executors`` whatever they do; their tasks, and map output still needed, are done again."""
        return self._kill(executors, force=True)

    def oldest_stage(self) -> int:
        """The least id of the stages of running jobs; with none, an id that no stage has had yet."""
        with _trying("looking for running stages"):
            running = self._context().dagScheduler().stageIdToStage().keySet().mkString(",")
            if running:
                return min(int(each) for each in running.split(","))
            known = stored_stages(self._context())
            return int(known.head().stageId()) + 1 if known.nonEmpty() else 0

    def redone_tasks(self, since: int) -> int:
        """Tasks that had to run again in the stages from id ``since`` on, as far as is known now.

        Tasks that failed or were killed, tasks whose map output was lost while their stage ran (Spark says "failed" of
        these too), and those of every further attempt of a stage that had been complete. The counts of the executors
        will not do: those of a lost one miss a good part. Waits up to 2 s for events that are on their way.
        """
        with _trying("counting redone tasks"):
            self._context().listenerBus().waitUntilEmpty(_LISTENERS_MS)
            stored, live = stored_stages(self._context()), self._context().statusStore().activeStages()
            attempts = {(each.stage, each.number): each for found in (stored, live) for each in _newer(found, since)}
            return _redone(attempts.values())

    def _kill(self, executors: Sequence[str], *, force: bool) -> tuple[str, ...]:
        if not executors:
            return ()
        with _trying(f"removing executors {', '.join(executors)}"):
            wanted = self._python_utils().toSeq(list(executors))
            adjust_target, count_failures = False, False
            killed = self._backend().killExecutors(wanted, adjust_target, count_failures, force)
            return _oldest_first(killed.mkString(","))

    def _context(self) -> Any:
        return self._spark.sparkContext._jsc.sc()  # noqa: SLF001 - no public way to it

    def _backend(self) -> Any:
        return self._context().schedulerBackend()

    def _python_utils(self) -> Any:
        return self._spark._jvm.org.apache.spark.api.python.PythonUtils  # type: ignore[union-attr]  # noqa: SLF001


@contextmanager
def _writing_orders() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"the orders of a source cannot be written: {error}"
        raise ActuationError(message) from error


def _trying(doing: str) -> AbstractContextManager[None]:
    return translate_errors(doing, ActuationError)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt of a stage: its tasks, those that failed or were killed, and whether it came to its end."""

    stage: int
    number: int
    tasks: int
    failed: int
    complete: bool


def _newer(stages: Any, since: int) -> Iterator[_Attempt]:
    """The attempts of the stages from ``since`` on. Spark lists stored stages newest first, live ones in no order."""
    for index in range(stages.size()):
        each = stages.apply(index)
        if each.stageId() >= since:
            failed, complete = each.numFailedTasks() + each.numKilledTasks(), each.status().toString() == "COMPLETE"
            yield _Attempt(each.stageId(), each.attemptId(), each.numTasks(), failed, complete)


def _redone(attempts: Collection[_Attempt]) -> int:
    first_complete: dict[int, int] = {}
    for each in attempts:
        if each.complete:
            first_complete[each.stage] = min(each.number, first_complete.get(each.stage, each.number))
    again = (each.tasks for each in attempts if each.number > first_complete.get(each.stage, each.number))
    return sum(each.failed for each in attempts) + sum(again)


def _oldest_first(ids: str) -> tuple[str, ...]:
    return tuple(sorted((each for each in ids.split(",") if each), key=executor_age))


def _locations(status: Any) -> Collection[str]:
    if status.numAvailableMapOutputs() == 0:
        return ()
    return {output.location().executorId() for output in status.mapStatuses() if output is not None}
