import json

import pytest

from rheostat.cli import main
from rheostat.cli.numbers import executors_of, number_of
from rheostat.cli.output import to_json
from rheostat.errors import InputError


def last_json(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        pytest.param(["demo", "--source", "file", "--executors", "5,2"], {"source", "executors"}, id="demo"),
        pytest.param(
            ["demo", "--rate", "fast", "--seed", "x", "--policy", "reactiv"],
            {"rate", "seed", "policy"},
            id="no numbers",
        ),
        pytest.param(["demo", "--objective", "lag < 3s"], {"objective"}, id="an objective under two batches"),
        pytest.param(["demo", "--partitions", "4"], {"partitions"}, id="fewer partitions than executors"),
        pytest.param(["bench", "decison"], {"name"}, id="a mistyped benchmark"),
        pytest.param(["demo", "--fast"], {"--fast"}, id="an unknown option"),
        pytest.param(
            ["run", "--objective", "soon", "--conf", "novalue", "missing.py"],
            {"objective", "conf", "script"},
            id="run: file, objective and setting",
        ),
    ],
)
def test_wrong_input_ends_with_two_and_names_every_fault(arguments, fields, capsys):
    assert main([*arguments[:1], "--json", *arguments[1:]]) == 2
    shown = last_json(capsys)
    assert shown["schema"] == "rheostat.error/1"
    assert {fault["field"] for fault in shown["faults"]} == fields
    assert all(fault["allowed"] for fault in shown["faults"])


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == "0.1.0"


def test_json_never_holds_what_json_has_not():
    assert to_json({"a": float("nan"), "b": (1.5, float("-inf")), "c": {"d": None}}) == (
        '{"a": null, "b": [1.5, null], "c": {"d": null}}'
    )


@pytest.mark.parametrize(("text", "bounds"), [("1,20", (1, 20)), ("2..3", (2, 3)), (" 4 - 9 ", (4, 9))])
def test_bounds_are_read(text, bounds):
    assert executors_of(text) == bounds


@pytest.mark.parametrize("text", ["", "3", "a,b", "1,2,3"])
def test_what_is_no_bounds_is_a_fault(text):
    assert isinstance(executors_of(text), InputError)


@pytest.mark.parametrize("text", ["", "nan", "inf", "12x"])
def test_what_is_no_number_is_a_fault(text):
    assert isinstance(number_of("rate", text, float), InputError)
