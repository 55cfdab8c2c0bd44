import io
from dataclasses import replace

import pytest
from rich.console import Console

from rheostat.cli.run import show_ratios
from rheostat.demo.run import DemoPlan, DemoRun, _counts, ratio_rows, result, verdict
from rheostat.load.payload import IdChecksum
from rheostat.load.producer import Lateness, LoadResult
from rheostat.pipelines.sink import SinkTotals

IDS = IdChecksum().add_many(range(10))
LOAD = LoadResult(10, 10, 0, 0, IDS, 0, 10, 100, 0, None, Lateness(0.03, 0.02, 0.0), 0.0, 1.0, 9.0, stopped=False)
SCORE = {
    "records_in": 123024,
    "records_out": 123024,
    "executor_hours": 0.1,
    "static_executor_hours": 0.2,
    "executors_max": 4,
    "objective_s": 20.0,
    "violation_share": 0.015,
    "lag_p95_s": 12.34,
    "lag_max_s": None,
}
RUN = DemoRun(DemoPlan(), SCORE, (), LOAD, SinkTotals({"ip": IDS}, 1, 1), drained=True)


def test_the_verdict_is_one_sentence_with_what_was_saved_and_violated():
    assert verdict(RUN, None) == (
        "123,024 records went in and 123,024 came out; Rheostat used 360 executor-seconds where 4 static executors "
        "(computed) use 720: 50% saved; lag was over the objective of 20 s for 1.5% of the time (p95 12.3 s, at most "
        "unknown s)."
    )


def test_a_busy_machine_is_named_at_the_end():
    assert verdict(replace(RUN, busy="The machine was busy: …"), None).endswith(
        "at most unknown s). The machine was busy: …"
    )


def test_a_baseline_that_was_run_is_labelled_so():
    static = DemoRun(
        DemoPlan().static(4), SCORE | {"executor_hours": 0.4}, (), LOAD, SinkTotals({}, 0, 0), drained=True
    )
    assert "4 static executors (run) use 1,440: 75% saved" in verdict(RUN, static)
    assert result(RUN, static)["baseline"]["executor_hours"] == 0.4
    assert result(RUN, None)["baseline"] is None


@pytest.mark.parametrize(
    ("got", "counts"),
    [
        pytest.param(IDS, (10, 10, 0, 0, True), id="all came out"),
        pytest.param(IdChecksum().add_many(range(9)), (10, 9, 1, 0, False), id="one was lost"),
        pytest.param(IDS.add_many([3]), (10, 11, 0, 1, False), id="one was doubled"),
        pytest.param(
            IdChecksum().add_many([*range(9), 3]),
            (10, 10, None, None, False),
            id="one lost and one doubled do not cancel",
        ),
        pytest.param(None, (10, None, None, None, False), id="the kinds of the sink do not agree"),
    ],
)
def test_losses_and_duplicates_are_counted_apart(got, counts):
    found = _counts(IDS, got, 0)
    assert (
        found.records_in,
        found.records_out,
        found.records_lost,
        found.records_duplicated,
        found.valid,
    ) == counts


@pytest.mark.parametrize(
    ("out", "lost", "doubled", "valid"),
    [
        pytest.param(7, 0, 0, True, id="what did not come out was dropped"),
        pytest.param(6, 1, 0, False, id="one more did not come out"),
        pytest.param(8, 0, 1, False, id="one more came out"),
    ],
)
def test_dropped_records_are_not_lost(out, lost, doubled, valid):
    found = _counts(IDS, IdChecksum().add_many(range(out)), 3)
    assert (found.records_lost, found.records_duplicated, found.records_shed, found.valid) == (lost, doubled, 3, valid)


def test_the_profile_is_shown_beside_the_published_constants():
    rows = {row[0]: row[1:] for row in ratio_rows()}
    assert rows["time between two checks (sample_s)"] == ["2 s", "15 s", "0.13"]
    assert rows["cooldown before a decrease (guard.cooldown_down_s)"] == ["5 s", "none", "–"]


@pytest.mark.parametrize("width", [80, 120, 40], ids=["no terminal", "a wide one", "a narrow one"])
def test_the_ratios_keep_every_word_whole_on_any_screen(width):
    out = io.StringIO()
    show_ratios(Console(file=out, width=width), ratio_rows())

    shown = out.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    words = shown.split()
    assert {"(guard.largest_step_down)", "(guard.cooldown_down_s)", "(samples_to_shrink)", "0.13", "executors"} <= {
        word.strip(",") for word in words
    }
    assert "…" not in shown


def test_on_a_narrow_screen_the_ratios_are_a_list():
    out = io.StringIO()
    show_ratios(
        Console(file=out, width=79), [["setting", "demo", "published", "ratio"], ["hold [s]", "2", "4", "0.50"]]
    )
    assert out.getvalue() == "hold [s]\n  demo 2, published 4, ratio 0.50\n"


def test_the_result_has_the_figures_that_are_defined():
    from rheostat.report.html import OF_COMMANDS
    from rheostat.report.score import EVERY_SCORE

    assert result(RUN, None).keys() <= EVERY_SCORE.keys() | OF_COMMANDS["demo"].keys()
    assert OF_COMMANDS["demo"].keys() <= result(RUN, None).keys()
