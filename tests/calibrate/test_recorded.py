"""The record-at-a-time model against recordings."""

import numpy as np
import pytest

from rheostat.calibrate.recorded import (
    Figures,
    Recording,
    fit_capacity,
    fit_recording,
    measure_errors,
    read_profiles,
    read_recordings,
)
from rheostat.errors import InputError
from rheostat.load.curves import Pieces


def test_an_exact_power_law_is_found_and_foretells_each_point():
    """C = 100 · n^0.5."""
    fit = fit_capacity([(1, 100.0), (4, 200.0), (16, 400.0), (64, 800.0)])
    assert fit.alpha == pytest.approx(100.0)
    assert fit.beta == pytest.approx(0.5)
    assert fit.largest_error < 1e-9


def test_a_point_is_foretold_without_itself():
    """1, 2 and 4 carry 100 each; 8 carry half of that: foretold 800, off by 100 %."""
    fit = fit_capacity([(1, 100.0), (2, 200.0), (4, 400.0), (8, 400.0)])
    assert fit.points[-1][:2] == (8, 400.0)
    assert fit.points[-1][2] == pytest.approx(800.0)
    assert fit.largest_error == pytest.approx(1.0)


def test_two_numbers_of_workers_are_too_few():
    with pytest.raises(InputError):
        fit_capacity([(1, 100.0), (2, 200.0), (2, 210.0)])


LOAD = Pieces([(0, 1000), (400, 1000)])


def recording(pause_s=10.0, workers=2, later=3):
    """1000/s offered to workers of 700/s each; at second 200 another one comes, after so many seconds without work.

    What waits then, 1000/s × the pause, is worked off at 2100 − 1000 = 1100/s.
    """
    seconds = np.arange(0.0, 400.0, 20.0)
    count = np.where(seconds < 200, float(workers), float(later))
    fine = np.arange(0.0, 400.0, 0.5)
    stopped = np.clip(fine - 200.0, 0.0, pause_s)
    waiting = np.maximum(0.0, 1000.0 * stopped - 1100.0 * np.maximum(0.0, fine - 200.0 - pause_s))
    backlog = waiting.reshape(-1, 40).mean(axis=1) + 500.0
    done = 1000.0 * (fine + 0.5) - waiting
    throughput = np.diff(np.append(0.0, done[39::40])) / 20.0
    return Recording("by hand", seconds, throughput, backlog, count)


def test_the_model_replays_a_change_by_hand():
    told = measure_errors(recording(), LOAD, Figures(alpha=700.0, pause_s=10.0, commit_s=1.0))
    assert told.throughput < 0.02
    assert told.backlog < 0.1
    assert told.backlog_mean > 0.5


def test_the_pause_of_a_change_is_found():
    run = recording(pause_s=12.0)
    figures = fit_recording(run, LOAD)
    assert figures.pause_s == 12.0
    assert figures.commit_s == pytest.approx(1.0, rel=0.1)


def test_workers_that_come_back_as_many_are_a_restart_too():
    run = recording()
    gap = np.where(run.seconds == 300.0, 1.2, run.workers)
    told = measure_errors(
        Recording("again", run.seconds, run.throughput, run.backlog, gap), LOAD, Figures(700.0, 10.0, 1.0)
    )
    assert told.backlog > 0.1


def test_a_file_of_runs_is_read(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(
        "run,second,throughput,consumer_lag,latency_ms,task_managers\n"
        "one,0,100,5,1,4\none,20,,7,1,4\ntwo,0,200,1,1,2.0\ntwo,20,200,1,1,2.0\n",
        encoding="utf-8",
    )
    one, two = read_recordings(path)
    assert (one.name, two.name) == ("one", "two")
    assert one.backlog.tolist() == [20.0, 28.0]
    assert np.isnan(one.throughput[1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("scaleOut,avgThr\n2,100\n", "isBckPres", id="a column is missing"),
        pytest.param("scaleOut,avgThr,isBckPres\n2,fast,1\n", "not a number", id="not a number"),
    ],
)
def test_a_file_that_is_wrong_says_why(tmp_path, text, words):
    path = tmp_path / "profiles.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_profiles(path)
    assert words in caught.value.faults[0].message


def test_only_saturated_rows_count(tmp_path):
    path = tmp_path / "profiles.csv"
    path.write_text("scaleOut,avgThr,isBckPres\n4,50,0\n4,90,1\n2,50,1\n", encoding="utf-8")
    assert read_profiles(path) == [(2, 50.0), (4, 90.0)]
