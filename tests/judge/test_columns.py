import pytest

from rheostat.errors import InputError
from rheostat.judge.report import COLUMNS, column_named, table_of

ZERO = dict.fromkeys(
    [
        "total_cost",
        "executor_hours",
        "reconfigurations",
        "violation_share",
        "lag_p95_s",
        "lag_max_s",
        "provisioning_accuracy_o",
        "provisioning_accuracy_u",
        "timeshare_o",
        "timeshare_u",
        "excess_time",
    ],
    0.0,
)


def score(cost, *, violation=0.0, lag_max=1.0, valid=True):
    figures = {"total_cost": cost, "violation_share": violation, "lag_max_s": lag_max}
    return {**ZERO, **figures, "optimum_cost": 8.0, "valid": valid}


def place(key):
    return 1 + [column.key for column in COLUMNS].index(key)


def test_rows_are_means_over_the_seeds_and_sorted():
    table = table_of({"a": [score(10.0), score(14.0)], "b": [score(9.0)]}, {})
    assert [(row[0], row[place("cost")], row[place("ratio")]) for row in table.texts[1:]] == [
        ("b", "9.00", "1.125"),
        ("a", "12.00", "1.500"),
    ]


def test_the_best_of_a_column_is_the_least_among_the_judged_rows():
    """The optimum's own run is cheaper, and the invalid one too: neither is marked."""
    runs = {"a": [score(10.0)], "b": [score(12.0, lag_max=0.5)], "broken": [score(1.0, valid=False)]}
    table = table_of(runs, {"(plan)": [score(8.0)]})
    best = {(table.texts[row + 1][0], COLUMNS[column - 1].key) for row, column in table.best}
    assert {("a", "cost"), ("a", "ratio"), ("b", "lag_max")} <= best
    assert not {name for name, _ in best} & {"(plan)", "broken"}


def test_a_figure_that_was_not_measured_is_a_dash_and_sorts_last():
    table = table_of({"a": [score(10.0, lag_max=None)], "b": [score(12.0, lag_max=5.0)]}, {}, sort="lag_max")
    assert [row[0] for row in table.texts[1:]] == ["b", "a"]
    assert table.texts[2][place("lag_max")] == "–"


def test_shares_are_percent():
    assert table_of({"a": [score(1.0, violation=0.125)]}, {}).texts[1][place("violation")] == "12.50%"


def test_a_mistyped_column_gets_a_hint():
    with pytest.raises(InputError) as caught:
        column_named("violations")
    fault = caught.value.faults[0]
    assert (fault.field, fault.message) == ("sort", "there is no such column; did you mean 'violation'?")
    assert fault.allowed.startswith("cost | ratio | hours")
