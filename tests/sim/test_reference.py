"""The page of job files says what the models say, and is not stale; examples run."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import rheostat.sim
from rheostat.cli.config import job_reference
from rheostat.config.faults import models_in
from rheostat.config.reference import explain_fields
from rheostat.sim.jobfile import JobFile

PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"


def all_models(model):
    inner = {each for field in model.model_fields.values() for each in models_in(field.annotation)}
    return {model}.union(*(all_models(each) for each in inner))


MODELS = sorted(all_models(JobFile), key=lambda model: model.__name__)


def test_the_page_in_docs_is_not_stale():
    message = "run: rheostat config reference --jobs --out docs/jobs.md"
    assert PAGE.read_text(encoding="utf-8") == job_reference(), message


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_has_a_meaning_a_reason_and_a_row(model):
    explained, page = explain_fields(model), job_reference()
    for name in model.model_fields.keys() - {"kind"}:
        meaning, why = explained[name]
        assert meaning.endswith("."), name
        assert len(why) > 10, name
        assert meaning in page, name


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_time_has_its_unit_in_its_name_and_in_its_field(model):
    for name, field in model.model_fields.items():
        unit = (field.json_schema_extra or {}).get("unit")
        assert (unit == "s") == (name.endswith("_s") and not name.endswith("_per_s")), name
        assert (unit == "ms") == name.endswith("_ms"), name


@pytest.mark.parametrize(
    "name", [f"rheostat.sim.{module.name}" for module in pkgutil.iter_modules(rheostat.sim.__path__)]
)
def test_examples_in_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
