"""``rheostat run``: an unmodified PySpark script under control.

The script runs in this process, as ``__main__``. While it runs, ``SparkSession.Builder.getOrCreate`` is replaced: the
first session that the script creates gets the autoscaler.
"""

from __future__ import annotations

import os
import runpy
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rheostat.attachment import Attachment, attach
from rheostat.errors import Fault, InputError, RheostatError
from rheostat.host.java import bash_faults

_SUBMIT = "PYSPARK_SUBMIT_ARGS"


@dataclass(frozen=True, slots=True)
class Script:
    """What to run.

    Attributes:
        path: a Python file.
        arguments: what follows it in ``sys.argv``.
        conf: Spark settings, as ``spark-submit --conf`` takes them. The script's own settings override them.
    """

    path: Path
    arguments: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        faults = bash_faults()
        if not self.path.is_file():
            faults.append(Fault("script", str(self.path), "a Python file", "there is no such file"))
        faults += [
            Fault("conf", key, "a key that begins with 'spark.'", "Spark ignores other keys")
            for key in self.conf
            if not key.startswith("spark.")
        ]
        if faults:
            raise InputError(faults)


def run_script(script: Script, settings: Mapping[str, Any]) -> int:
    """Run a script to its end with the autoscaler attached; returns its exit code.

    Args:
        script: what to run.
        settings: of the autoscaler, in the shape of a settings file.

    Raises:
        RefusedError: its session cannot be scaled as asked; the script has not started a query then.
        RheostatError: the script ended well, but created no Spark session.
        Exception: whatever the script raises.
    """
    attached: list[Attachment] = []
    with _environment(script), _attaching(settings, attached):
        try:
            runpy.run_path(str(script.path), run_name="__main__")
            code = 0
        except SystemExit as end:
            code = _exit_code(end.code)
        finally:
            for attachment in attached:
                attachment.stop()
    if not attached and code == 0:
        message = f"{script.path} made no Spark session, so nothing was scaled"
        raise RheostatError(message)
    return code


@contextmanager
def _attaching(settings: Mapping[str, Any], attached: list[Attachment]) -> Iterator[None]:
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder
    original = builder.getOrCreate

    def get_or_create(self: SparkSession.Builder) -> SparkSession:
        spark = original(self)
        if not attached:
            attached.append(attach(spark, config=settings))
        return spark

    builder.getOrCreate = get_or_create  # type: ignore[method-assign]
    try:
        yield
    finally:
        builder.getOrCreate = original  # type: ignore[method-assign]


@contextmanager
def _environment(script: Script) -> Iterator[None]:
    """The script's ``sys.argv`` and import path, its settings for the JVM, and this Python for the executors."""
    argv, path, arguments = sys.argv, list(sys.path), os.environ.get(_SUBMIT)
    sys.argv = [str(script.path), *script.arguments]
    sys.path.insert(0, str(script.path.resolve().parent))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if script.conf:
        conf = " ".join(f"--conf {shlex.quote(f'{key}={value}')}" for key, value in script.conf.items())
        os.environ[_SUBMIT] = f"{conf} {arguments or 'pyspark-shell'}"
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
        if arguments is None:
            os.environ.pop(_SUBMIT, None)
        else:
            os.environ[_SUBMIT] = arguments


def _exit_code(given: object) -> int:
    """The code of a process that ends with ``sys.exit(given)``."""
    if given is None or isinstance(given, int):
        return given or 0
    sys.stderr.write(f"{given}\n")
    return 1
