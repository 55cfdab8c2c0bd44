"""The recording rules in docs/prometheus, and what their page says: by promtool, and by their structure without it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rheostat.config.loading import load_settings
from rheostat.metrics import NAMES

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "prometheus"
PAGE = (DOCS / "prometheus.md").read_text(encoding="utf-8")
FILES = sorted(FOLDER.glob("*.rules.yml"))
PROMTOOL = os.environ.get("RHEOSTAT_PROMTOOL") or shutil.which("promtool")


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


GROUPS = [(file.name, group) for file in FILES for group in read(file)["groups"]]
RULES = [rule for _, group in GROUPS for rule in group["rules"]]
RECORDED = {rule["record"] for rule in RULES}
CASES = read(FOLDER / "s4.test.yml")["tests"]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is neither on the path nor in RHEOSTAT_PROMTOOL")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["check", "rules", *(file.name for file in FILES)], id="the rules are well formed"),
        pytest.param(["test", "rules", "s4.test.yml"], id="the rules give S4's numbers"),
    ],
)
def test_promtool_agrees(arguments):
    done = subprocess.run(
        [Path(str(PROMTOOL)).absolute(), *arguments], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_those_of_the_document():
    assert [rule["record"] for rule in read(FOLDER / "s4-rheostat.rules.yml")["groups"][0]["rules"]] == [
        "rheostat:total_lag:records",
        "rheostat:lag_threshold:records",
        "rheostat:relative_lag_change:ratio",
        "rheostat:gated_lag_change:ratio",
        "rheostat:utilization:ratio",
    ]
    assert len(RECORDED) == len(RULES) == 15


def test_a_group_looks_often_enough_for_a_slope_over_a_minute():
    assert {group["interval"] for _, group in GROUPS} == {"15s"}


def test_every_metric_of_ours_that_a_rule_reads_is_one_that_we_tell():
    used = {name for rule in RULES for name in re.findall(r"\brheostat_\w+", rule["expr"])}
    assert used == {
        "rheostat_latest_offset_records",
        "rheostat_committed_offset_records",
        "rheostat_processed_records_per_second",
        "rheostat_busy_ratio",
    }
    assert used <= set(NAMES)


def test_every_recorded_series_that_a_rule_reads_is_recorded_before_it_in_its_own_group():
    for _, group in GROUPS:
        known: set[str] = set()
        for rule in group["rules"]:
            assert set(re.findall(r"\b[a-z_]+:[a-z_]+:[a-z_]+\b", rule["expr"])) <= known, rule["record"]
            known.add(rule["record"])


def test_every_rule_but_the_inputs_has_its_numbers_and_its_gap_in_the_test_file():
    asked = [(each["expr"], bool(each["exp_samples"])) for case in CASES for each in case["promql_expr_test"]]
    plain = {name for name in RECORDED if not name.startswith(("consumer:", "task:"))}
    assert {name for name, found in asked if found} == plain - {"consumers:consumed:records_per_second"}
    without_gap = {"rheostat:lag_threshold:records", "consumers:lag_threshold:records"}
    assert {name for name, found in asked if not found} == plain - without_gap - {
        "consumers:consumed:records_per_second"
    }


def test_the_page_names_every_metric_and_no_other():
    assert set(re.findall(r"`(rheostat_\w+)", PAGE)) == set(NAMES)


def test_the_manifests_on_the_page_read_what_is_recorded():
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    assert len(blocks) == 5
    assert load_settings(blocks[0]).metrics.port == 9095
    named = set(re.findall(r"\b[a-z_]+:[a-z_]+:[a-z_]+\b", str(blocks)))
    assert named == {"rheostat:gated_lag_change:ratio", "rheostat:utilization:ratio"}
    offered = {rule["name"]["as"] for rule in blocks[2]["externalRules"]}
    wanted = {metric["external"]["metric"]["name"] for metric in blocks[3]["spec"]["metrics"]}
    assert wanted == offered == {"s4_gated_lag_change", "s4_utilization"}
    assert [trigger["metadata"]["ignoreNullValues"] for trigger in blocks[4]["spec"]["triggers"]] == ["false", "false"]
