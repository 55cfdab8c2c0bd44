"""No name of a Python type reaches a user: every model of ours is fed wrong values of every kind."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from rheostat.config.faults import faults_of, keys_of, models_in
from rheostat.config.loading import load_settings
from rheostat.config.models import Settings
from rheostat.decide.policy import PolicyContext, load_policy, policy_names
from rheostat.errors import InputError
from rheostat.fleet.train import training_options
from rheostat.model import Objective
from rheostat.node.server import CreateOrder, RemoveOrder
from rheostat.sim.jobfile import JobFile

WRONG: list[Any] = [
    None,
    True,
    3.5,
    -1,
    10**30,
    float("nan"),
    float("inf"),
    "",
    "text",
    b"bytes",
    "x" * 300,
    [],
    [1],
    ["a", 3, None],
    [1, 2, 3],
    [[1]],
    [[1, "b"]],
    {},
    {"a": 1},
    {1: 2},
    {"kind": "nonsense"},
    [{"kind": "slow"}],
    [{"kind": "nonsense"}],
    [{}],
    datetime.date(2020, 1, 1),
    (1, 2),
]
RAW = re.compile(r"Value error|<class|pydantic|[Tt]uple|[Dd]ictionary|instance of|after validation")
CONTEXT = PolicyContext(Objective(30.0), 15.0)


def options_of(name: str) -> Any:
    policy: Any = load_policy(name, {}, CONTEXT)
    return policy.options_type


MODELS = {
    "settings": Settings,
    "job": JobFile,
    "create": CreateOrder,
    "remove": RemoveOrder,
    **{name: options_of(name) for name in policy_names()},
}


def ways(model: type[BaseModel], way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every key of a model and of the models in it; 0 is the first item of a list."""
    for key, field in keys_of(model).items():
        yield (*way, key)
        inner = models_in(field.annotation)
        if len(inner) == 1:
            yield from ways(inner[0], (*way, key, 0) if "tuple" in str(field.annotation) else (*way, key))


def put(way: tuple[str | int, ...], value: Any) -> Any:
    for step in reversed(way):
        value = [value] if step == 0 else {step: value}
    return value


def errors(model: type[BaseModel]) -> Iterator[tuple[object, ValidationError]]:
    """What the model says of every wrong value at every key."""
    for way in ways(model):
        for value in WRONG:
            try:
                model.model_validate(put(way, value))
            except ValidationError as error:
                yield (way, value), error


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_error_of_every_model_names_key_and_allowed_values_without_python_types(model):
    for where, error in errors(model):
        for fault in faults_of(error, model):
            assert not RAW.search(f"{fault.message} {fault.allowed}"), (where, fault)
            assert all((fault.field, fault.given, fault.allowed)), (where, fault)


@pytest.mark.parametrize(
    ("name", "options", "field", "message", "allowed"),
    [
        pytest.param(
            "hpa", {"tolerance": "a"}, "tolerance", "input should be a valid number; No change", "number ≥ 0", id="text"
        ),
        pytest.param(
            "hpa", {"tolerance": 2}, "tolerance", "input should be less than 1; No change", "< 1", id="too large"
        ),
        pytest.param(
            "hpa", {"metrics": {"util": 1.0}}, "metrics.util", "input should be '", "'utilization'", id="a name"
        ),
        pytest.param(
            "hpa",
            {"metrics": {"occupancy": "x"}},
            "metrics.occupancy",
            "input should be a valid number",
            "keys",
            id="in",
        ),
        pytest.param(
            "hpa", {"scale_up": {"polices": 1}}, "scale_up.polices", "'scale_up.policies'", "select", id="key"
        ),
        pytest.param(
            "schedule", {"steps": 3}, "steps", "input should be a valid list", "list of", id="a number for a list"
        ),
        pytest.param("schedule", {"steps": [[0, 1], [0, 2]]}, "steps", "must ascend", "ascending", id="twice at once"),
        pytest.param(
            "threshold", {"down_below": 0.95}, "down_below", "must be less", "< up_above (0.85)", id="crossed"
        ),
        pytest.param("amadeus", {"threshold_low": 2}, "threshold_low", "must be less", "< threshold_high", id="both"),
    ],
)
def test_an_option_of_a_policy_is_named_with_what_is_wrong_and_what_it_means(name, options, field, message, allowed):
    with pytest.raises(InputError) as caught:
        load_policy(name, options, CONTEXT)
    fault = next(each for each in caught.value.faults if each.field == f"policy_options.{field}")
    assert message in fault.message
    assert allowed in fault.allowed


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        pytest.param("a: 1\nb: [1, 2\n", "line 3", "line 3, column 1: expected ',' or ']'", id="a list without an end"),
        pytest.param("a: 1\nb: 2020-02-30\n", "line 2", "line 2, column 4: day is out of range", id="no such day"),
        pytest.param("a: 1\nb: \x07\n", "line 2", "line 2: a character that YAML does not allow (U+0007)", id="a bell"),
        pytest.param("a: b\n  c: d: e\n", "line 2", "line 2, column 4: mapping values", id="a colon too many"),
    ],
)
def test_a_text_that_is_no_yaml_names_the_file_and_the_line(tmp_path, text, where, message):
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_settings(file)
    (fault,) = caught.value.faults
    assert (fault.field, fault.given) == (str(file), where)
    assert fault.message.startswith(f"the file is not readable as YAML: {message}")
    assert "unicode string" not in fault.message


def test_an_option_of_the_training_is_told_likewise():
    with pytest.raises(InputError) as caught:
        training_options(["resamples=many", "degrees=[1, x]"])
    told = [(each.field, each.given, each.allowed, each.message) for each in caught.value.faults]
    assert told == [
        ("degrees.1", "'x'", "list of integers", "input should be a valid integer"),
        ("resamples", "'many'", "integer", "input should be a valid integer"),
    ]
