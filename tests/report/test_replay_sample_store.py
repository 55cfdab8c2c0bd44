"""A replay reads what the run had archived, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rheostat.cli import main
from rheostat.config.loading import load_settings
from rheostat.journal.records import Record, SessionRecord
from rheostat.journal.store import JournalWriter, read_journal
from rheostat.learn.slow_records import Sample
from rheostat.loop.build import build_decision_settings, open_sample_store, open_store, sample_store_beside
from rheostat.loop.clock import ManualClock
from rheostat.loop.loop import Loop
from rheostat.report.replay import replay
from rheostat.sample_store import MemorySampleStore, ParquetSampleStore
from rheostat.testing.fakes import ToyJob

START = 1_764_324_000.0


def _run(folder: Path, rates: list[float], at: float) -> float:
    options = {"check_every": 30, "resamples": 10, "degree": 2}
    given = {"objective": "lag < 30s", "executors": [1, 6], "policy": "proactive", "policy_options": options}
    settings = load_settings({**given, "journal": str(folder)})
    job, clock, journal = ToyJob(executors=2), ManualClock(at), JournalWriter(folder)
    decision_settings = build_decision_settings(settings, open_sample_store(settings))
    loop = Loop(job, decision_settings, job, journal, clock, settings, store=open_store(settings), job="toy")
    for rate in rates:
        job.rate = rate
        loop.cycle()
        clock.at += settings.sample_s
    journal.close()
    return clock.at


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two runs of a job whose samples go to the sample store by twenties; the second begins with those of the first."""
    folder = tmp_path_factory.mktemp("runs") / "journal"
    rates = [*[100.0] * 10, *[300.0] * 20, *[150.0] * 10]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rheostat.policies.proactive.MOST_ROWS", 20)
        at = _run(folder, rates, START)
        _run(folder, rates, at + 15.0)
        yield folder


class _Asked(ParquetSampleStore):
    """Remembers which rows it was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ranges: list[tuple[int, int]] = []

    def held(self, first: int, end: int) -> list[Sample | None]:
        self.ranges.append((first, end))
        return super().held(first, end)


def _archived(session: Record) -> int:
    assert isinstance(session, SessionRecord)
    count: int = session.states["policy"]["data"]["archived"]
    return count


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_replay_of_the_second_run_alone_decides_with_the_samples_of_the_first(journal: Path) -> None:
    records = list(read_journal(journal))
    second = max(place for place, record in enumerate(records) if isinstance(record, SessionRecord))
    before, kept = _contents(journal / "samples"), _Asked(journal / "samples")

    replayed = replay(records[second:], kept=kept)
    assert [each.decision and each.decision.reason.text for each in replayed] == [
        each.record.decision.reason.text for each in replayed
    ]
    # at a check of its model: rows of the first run, which were in the sample store when the second began
    assert _archived(records[second]) == 20
    assert {first for first, _ in kept.ranges} == {0}
    assert _contents(journal / "samples") == before


def test_the_command_replays_both_runs(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(journal)]) == 0
    assert "identical: 80 of 80" in capsys.readouterr().out


def test_a_sample_store_is_beside_the_journal_or_the_state_and_made_with_the_first_samples(tmp_path: Path) -> None:
    objective = {"objective": "lag < 30s"}
    assert open_sample_store(load_settings(objective)) is None
    for given in ({"journal": str(tmp_path / "a"), "state": str(tmp_path / "b")}, {"state": str(tmp_path / "a")}):
        store = open_sample_store(load_settings({**objective, **given}))
        assert isinstance(store, ParquetSampleStore)
        assert store.folder == tmp_path / "a" / "samples"
    assert not (tmp_path / "a").exists()
    assert sample_store_beside(tmp_path / "a", print) is None


def test_a_policy_gets_the_sample_store() -> None:
    store = MemorySampleStore()
    decision_settings = build_decision_settings(load_settings({"objective": "lag < 30s", "policy": "proactive"}), store)
    assert decision_settings.policy.context.sample_store is store  # type: ignore[attr-defined]
