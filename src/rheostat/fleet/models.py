"""What training gives for each job, and the two files that it is kept in.

``models.parquet`` has a row for each job, with the fields of :class:`JobModel` as columns; ``models.json`` says the
same for people and for other programs (``{"schema": "rheostat.models/1", "options", "jobs"}``), models spelled out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from rheostat.archive.table import read_table, write_table
from rheostat.errors import Fault, InputError
from rheostat.files import replace_file

if TYPE_CHECKING:
    import pyarrow as pa

    from rheostat.learn import SlowModel

__all__ = ["COLUMNS", "SCHEMA", "JobModel", "batch_of", "read_models", "text_of", "write_models"]

SCHEMA = "rheostat.models/1"

COLUMNS = (
    "job string, fault string, rows bigint, outliers bigint, degree bigint, cv_error double, spread double, "
    "stable boolean, w_max double, coefficients array<double>, model string"
)
"""The fields of :class:`JobModel` as Spark declares columns."""


class JobModel(NamedTuple):
    """What training gave for a job: a model, or a fault.

    Attributes:
        job: its name.
        fault: why there is no model; None: there is one.
        rows: different samples that it has.
        outliers: how many of them were left out.
        degree: of the polynomial.
        cv_error: root mean square error of blocked cross-validation at that degree, a share of slow records.
        spread: how far apart refits of resamples are at the samples (Algorithm 4), a share of slow records.
        stable: whether that is within the limit.
        w_max: records/s that one executor carries, as the samples show it; None: they do not.
        coefficients: of the polynomial.
        model: the :class:`~rheostat.learn.SlowModel` as JSON.
    """

    job: str
    fault: str | None = None
    rows: int | None = None
    outliers: int | None = None
    degree: int | None = None
    cv_error: float | None = None
    spread: float | None = None
    stable: bool | None = None
    w_max: float | None = None
    coefficients: list[float] | None = None
    model: str | None = None


def text_of(model: SlowModel) -> str:
    """A model as JSON."""
    return _adapter().dump_json(model).decode()


def batch_of(found: Sequence[JobModel]) -> pa.RecordBatch:
    """A row for each job, with :data:`COLUMNS` as Arrow declares them."""
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "array<double>": pa.list_(pa.float64()),
    }
    columns = [column.split(" ") for column in COLUMNS.split(", ")]
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns])
    return pa.RecordBatch.from_pylist([each._asdict() for each in found], schema)


def write_models(out: Path, found: Sequence[JobModel], options: Mapping[str, Any]) -> None:
    """Write both files, each as a whole.

    Args:
        out: their folder; made if it is not there.
        found: of each job.
        options: of the training, as JSON.

    Raises:
        OSError: they cannot be written.
    """
    import pyarrow as pa

    ordered = sorted(found)
    write_table(out / "models.parquet", pa.Table.from_batches([batch_of(ordered)]))
    jobs = [{**each._asdict(), "model": each.model and json.loads(each.model)} for each in ordered]
    text = json.dumps({"schema": SCHEMA, "options": options, "jobs": jobs}, allow_nan=False)
    replace_file(out / "models.json", lambda file: file.write(text.encode()))


def read_models(out: Path) -> dict[str, SlowModel]:
    """The models of the jobs that have one.

    Raises:
        InputError: there are none, or they are not of this version.
    """
    path = out / "models.parquet"
    table = read_table(path)
    try:
        rows = table.select(["job", "model"]).to_pylist()
        return {row["job"]: _adapter().validate_json(row["model"]) for row in rows if row["model"] is not None}
    except (KeyError, ValidationError) as error:
        allowed = f"models that this version has trained ({SCHEMA})"
        raise InputError([Fault("models", str(path), allowed, f"it cannot be read: {error}")]) from error


@cache
def _adapter() -> TypeAdapter[SlowModel]:
    from rheostat.learn import SlowModel

    return TypeAdapter(SlowModel)
