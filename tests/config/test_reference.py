"""The reference page says what the models say, and is not stale."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rheostat.config.models import GuardSettings, MetricsSettings, Settings, WorkersSettings
from rheostat.config.reference import explain_fields, reference

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_in_docs_is_not_stale():
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: rheostat config reference --out docs/configuration.md"


def unit(field):
    return (field.json_schema_extra or {}).get("unit")


@pytest.mark.parametrize(
    ("model", "prefix"),
    [(Settings, ""), (GuardSettings, "guard."), (WorkersSettings, "workers."), (MetricsSettings, "metrics.")],
    ids=["settings", "guard", "workers", "metrics"],
)
def test_every_key_has_a_meaning_and_a_reason_for_its_default(model, prefix):
    explained = explain_fields(model)
    for name in model.model_fields:
        meaning, why = explained[name]
        assert len(meaning) > 15, name
        assert len(why) > 15, name
        assert f"| `{prefix}{name}` |" in reference()


def test_every_time_has_its_unit_in_its_name_and_in_its_field():
    for model in (Settings, GuardSettings, WorkersSettings, MetricsSettings):
        for name, field in model.model_fields.items():
            assert name.endswith("_s") == (unit(field) == "s"), name


def test_a_page_that_names_a_source_says_where_it_is_described():
    """S1 and the like are defined in one place, docs/policies.md; every other page that uses one links there."""
    docs = PAGE.parent
    pages = [page for page in docs.rglob("*.md") if page.name != "policies.md"]
    using = [page for page in pages if re.search(r"\bS[1-5]\b", page.read_text(encoding="utf-8"))]
    assert PAGE in using
    assert [page.name for page in using if "policies.md#sources" not in page.read_text(encoding="utf-8")] == []
    defined = re.findall(r"^\| (S\d) \|", (docs / "policies.md").read_text(encoding="utf-8"), re.MULTILINE)
    used = {name for page in using for name in re.findall(r"\bS[1-5]\b", page.read_text(encoding="utf-8"))}
    assert used <= set(defined)


def test_a_row_tells_type_range_default_and_reason():
    assert (
        "| `guard.largest_step_down` | integer ≥ 1 and ≤ 100000 (executors) or null | `1` "
        "| The largest decrease by one decision, or a third of the current target where that is more; null: no limit. "
        "| one at a time, as in S1: a wrong decrease costs little before it is noticed |"
    ) in reference()
