"""The pipeline of nearest neighbours without Spark."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rheostat.config.shedding import Sink
from rheostat.errors import InputError
from rheostat.pipelines.knn import PIPELINE, declare, make_neighbours, nearest, reference_points
from rheostat.pipelines.running import KnnSettings

LOG: dict[str, Any] = {"source": "log", "log": "l", "checkpoint": "c", "out": "o"}


def test_the_nearest_come_first_and_the_first_of_equals() -> None:
    references = np.array([[0.0, 0, 3], [0, 0, 1], [0, 4, 3], [0, 0, -1]])
    indices, distances = nearest(np.array([[0.0, 0, 0], [0, 4, 0]]), references, 3)
    assert indices.tolist() == [[1, 3, 0], [2, 1, 3]]
    assert distances.tolist() == [[1, 1, 3], [3, math.sqrt(17), math.sqrt(17)]]


def test_the_stage_adds_neighbours_to_each_record_of_every_batch() -> None:
    settings = KnnSettings(**LOG, k=4, references=30, seed=2)
    points = np.random.default_rng(1).random((700, 3))
    columns = {"id": range(700), **dict(zip("xyz", points.T, strict=True))}
    whole = pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})
    results = list(make_neighbours(settings)([whole.slice(0, 600), whole.slice(600), whole.slice(0, 0)]))
    rows = [row for batch in results for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == list(range(700))
    references = reference_points(30, 2).tolist()
    for row, point in zip(rows, points.tolist(), strict=True):
        near = sorted((math.dist(point, reference), index) for index, reference in enumerate(references))[:4]
        assert row["neighbours"] == [index for _, index in near]
        assert row["distances"] == pytest.approx([distance for distance, _ in near])


def test_one_task_is_source_and_sink() -> None:
    graph = declare(KnnSettings(**LOG, priority=-2, accuracy=0.25))
    assert [str(edge) for edge in graph.edges] == ["points>knn"]
    assert list(graph.sinks.values()) == [Sink("knn", -2, 0.25)]


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"k": 0, "references": 0, "accuracy": -1, "seed": -1}, ["k", "references", "seed", "accuracy"]),
        ({"k": 11, "references": 10}, ["k"]),
        ({"orders": "orders.json", "work_us": float("inf")}, ["orders", "work_us"]),
    ],
)
def test_the_settings_say_all_faults_at_once(given: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        KnnSettings(**LOG, **given)
    assert [fault.field for fault in caught.value.faults] == fields


def test_the_program_has_an_option_for_every_setting() -> None:
    given = ["--master=local[1]", "--source=log", "--log=in", "--checkpoint=c", "--out=o", "--k=5", "--references=20"]
    found = PIPELINE.read_settings(PIPELINE.parser().parse_args([*given, "--priority=3", "--accuracy=0.2", "--seed=9"]))
    assert (found.k, found.references, found.priority, found.accuracy, found.seed) == (5, 20, 3, 0.2, 9)
