import json
from pathlib import Path

import numpy as np
import pytest

from rheostat.cli import main
from rheostat.errors import InputError
from rheostat.research.bench.harness import Bench, Metric, bootstrap_interval, metric, require_page, with_section


@pytest.mark.parametrize(
    ("given", "met"),
    [
        pytest.param(Metric("m", 0.9, "ms", 5, target=1.0), True, id="under the target"),
        pytest.param(Metric("m", 1.0, "ms", 5, target=1.0), True, id="at the target"),
        pytest.param(Metric("m", 1.1, "ms", 5, target=1.0), False, id="over it"),
        pytest.param(Metric("m", None, "ms", 0, target=1.0), False, id="not measured is not met"),
        pytest.param(Metric("m", 0.2, "%", 5, target=1.0, judged=1.4), False, id="the end of the interval is judged"),
        pytest.param(Metric("m", 3.0, "ms", 5), None, id="no target, no verdict"),
    ],
)
def test_a_target_is_met_or_not(given, met):
    assert given.met is met


def test_a_metric_of_nothing_is_not_measured():
    assert metric("m", [], "s").to_json() == {
        "name": "m",
        "value": None,
        "unit": "s",
        "n": 0,
        "ci95": None,
        "target": None,
        "met": None,
    }


def test_the_interval_holds_the_statistic_and_narrows_with_more_values():
    few = bootstrap_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.median)
    many = bootstrap_interval(np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 200), np.median)
    assert few is not None
    assert many is not None
    assert few[0] <= 3.0 <= few[1]
    assert many[1] - many[0] < few[1] - few[0]


def test_two_values_have_no_interval():
    assert bootstrap_interval(np.array([1.0, 2.0]), np.median) is None


def test_a_section_is_replaced_and_the_others_stay():
    page = "# Benchmarks\n\nText.\n\n## attach\n\nold\n\n## rescale\n\nkept\n"
    assert with_section(page, "attach", "## attach\n\nnew\n") == (
        "# Benchmarks\n\nText.\n\n## attach\n\nnew\n\n## rescale\n\nkept\n"
    )


def test_a_new_section_goes_to_its_place():
    page = "# Benchmarks\n\n## attach\n\na\n\n## rescale\n\nr\n"
    assert with_section(page, "decision", "## decision\n\nd") == (
        "# Benchmarks\n\n## attach\n\na\n\n## decision\n\nd\n\n## rescale\n\nr\n"
    )


def test_a_bench_names_its_schema_and_machine():
    shown = Bench("decision", [Metric("m", 1.0, "ms", 3)]).to_json()
    assert shown["schema"] == "rheostat.bench/1"
    assert "cores" in shown["machine"]


def test_the_folder_of_a_page_is_made_and_nothing_else(tmp_path):
    require_page(tmp_path / "new" / "page.md")
    assert [path.name for path in tmp_path.rglob("*")] == ["new"]


def test_an_old_page_stays_as_it_is(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Benchmarks\n")
    require_page(page)
    assert page.read_text() == "# Benchmarks\n"


@pytest.mark.parametrize("name", ["", "file/page.md", "bytes.md", "nul\0.md", "x" * 300 + ".md"])
def test_a_page_that_cannot_be_written_is_an_input_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "bytes.md").write_bytes(b"\xff")
    with pytest.raises(InputError, match="the page cannot be written") as caught:
        require_page(tmp_path / name)
    assert caught.value.faults[0].field == "page"


def test_a_device_is_no_page():
    with pytest.raises(InputError, match="it is a device"):
        require_page(Path("/dev/null"))


def test_a_bad_page_is_told_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    def measured(*_):
        pytest.fail("it was measured")

    monkeypatch.setattr("rheostat.research.bench.speed.run_decision", measured)
    assert main(["bench", "decision", "--page", str(tmp_path), "--json"]) == 2
    (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert (fault["field"], fault["given"]) == ("page", str(tmp_path))
