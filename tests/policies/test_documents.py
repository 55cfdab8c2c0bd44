"""The pages say what the code does, and their examples run."""

import doctest
import importlib
import json
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import rheostat.policies
from rheostat.decide.policy import PolicyContext
from rheostat.model import Objective
from rheostat.policies.reactive import ReactiveOptions, ReactivePolicy
from rheostat.testing.policies import check_policy

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (rheostat.decide, rheostat.policies)
    for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_table_of_reactive_is_complete_and_right():
    lines = PAGE.split("## `reactive`")[1].split("An empty cell")[0].splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:5]] for line in lines if line.startswith("| `")]
    faithful, demo = ReactivePolicy.presets["faithful"], ReactivePolicy.presets["demo"]
    assert rows == [
        [name, _shown(field.default), *(_shown(preset[name]) if name in preset else "" for preset in (faithful, demo))]
        for name, field in ReactiveOptions.model_fields.items()
    ]


def _shown(value: object) -> str:
    """As a settings file has it."""
    return json.dumps(value).strip('"')


def test_the_policy_of_the_guide_conforms():
    source = re.search(r"```python\n(.*?class NightPolicy:.*?)```", PAGE, re.DOTALL)
    assert source is not None
    module = ModuleType("night")
    code = "\n".join(line.removeprefix("   ") for line in source[1].splitlines())
    exec(compile(code, "policies.md", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    check_policy(lambda: module.NightPolicy(module.NightOptions(), PolicyContext(Objective(30.0), 15.0)))
