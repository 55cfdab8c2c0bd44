"""The driver of the demo, a process of its own: a session, the autoscaler attached, the pipeline.

``python -m rheostat.demo.driver JOB.json``; SIGTERM ends it between two batches. What is in the file: see :class:`Job`.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rheostat.attachment import Attachment, attach
from rheostat.errors import RheostatError
from rheostat.pipelines import click_fraud, taxi_attractions
from rheostat.pipelines.settings import ClickFraudSettings, TaxiSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PIPELINES", "Job", "main"]


class _Pipeline(NamedTuple):
    """What a module of :mod:`rheostat.pipelines` has."""

    settings: Callable[..., Any]
    session: Callable[..., AbstractContextManager[SparkSession]]
    run: Callable[..., None]


PIPELINES: Mapping[str, _Pipeline] = {
    "click_fraud": _Pipeline(ClickFraudSettings, click_fraud.session, click_fraud.run),
    "taxi_attractions": _Pipeline(TaxiSettings, taxi_attractions.session, taxi_attractions.run),
}
"""By name."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the driver is told.

    Attributes:
        program: a name in :data:`PIPELINES`.
        conf: the session's configuration.
        pipeline: fields of its settings.
        settings: the autoscaler's settings.
    """

    program: str
    conf: Mapping[str, str]
    pipeline: Mapping[str, Any]
    settings: Mapping[str, Any]

    def write(self, path: Path) -> Path:
        """Write it where the driver will read it."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path


def main(argv: list[str]) -> int:
    """Run until told to end; the exit code is that of the error, 0 without one."""
    job = Job(**json.loads(Path(argv[0]).read_text(encoding="utf-8")))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    attached: list[Attachment] = []

    def on_session(spark: SparkSession) -> None:
        attached.append(attach(spark, config=job.settings))

    program = PIPELINES[job.program]
    pipeline = program.settings(**job.pipeline)
    try:
        with program.session(pipeline, job.conf["spark.master"], [], dict(job.conf)) as spark:
            try:
                program.run(pipeline, spark, on_session=on_session, stop=stop)
            finally:
                for attachment in attached:
                    attachment.stop()
    except RheostatError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
