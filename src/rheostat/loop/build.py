"""From settings to the parts of a loop; the same way for a live loop and for a replay."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rheostat import __version__
from rheostat.config.loading import load_settings
from rheostat.config.models import Settings
from rheostat.decide.decide import DecisionSettings
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.errors import Fault, InputError, to_install
from rheostat.journal.records import Header
from rheostat.journal.store import Journal, JournalWriter, MemoryJournal, StateStore
from rheostat.model import Bounds
from rheostat.ports import SampleStore
from rheostat.sample_store import ParquetSampleStore

_SAMPLES = "samples"
"""Folder of the sample store, in that of the journal or of the state."""

WATCH_BOUNDS = Bounds(1, 100_000)
"""A job that is watched without bounds is decided on without any: the record shows what would have been asked for."""


def build_decision_settings(
    settings: Settings, store: SampleStore | None = None, seed: int | None = None
) -> DecisionSettings:
    """What the decisions of a run depend on; ``store`` and ``seed`` as in `PolicyContext` and `DecisionSettings`.

    Raises:
        InputError: the policy or its options are wrong.
    """
    objective = settings.parsed_objective
    context = PolicyContext(
        objective, settings.sample_s, settings.preset, store, settings.rate_window_s, settings.guard
    )
    policy = load_policy(settings.policy, settings.policy_options, context)
    return DecisionSettings(
        policy=policy,
        bounds=settings.bounds or WATCH_BOUNDS,
        guard=settings.guard,
        objective=objective,
        sample_s=settings.sample_s,
        seed=seed,
        mode=settings.mode,
        rate_window_s=settings.rate_window_s,
        shedding=settings.shedding.graph,
    )


def open_journal(settings: Settings) -> Journal:
    """The journal that the settings ask for; without one, the last records are kept in memory.

    Raises:
        InputError: its folder cannot be written, or another process writes it.
    """
    return MemoryJournal(keep=1000) if settings.journal is None else JournalWriter(settings.journal)


def open_store(settings: Settings) -> StateStore | None:
    """Where the state survives a restart; None: nowhere."""
    folder = settings.state or settings.journal
    options = json.dumps(dict(settings.policy_options), sort_keys=True, default=str)
    kind = f"{settings.policy} ({settings.preset}) {options}"
    return None if folder is None else StateStore(Path(folder) / "state.json", kind)


def open_sample_store(settings: Settings) -> SampleStore | None:
    """Where samples survive that are too many for the state; None: nowhere, for want of a folder or of pyarrow."""
    folder = settings.journal or settings.state
    return None if folder is None else sample_store_in(Path(folder))


def sample_store_in(folder: Path) -> SampleStore | None:
    """The sample store of the journal in a folder, to be written; None for want of pyarrow."""
    return ParquetSampleStore(folder / _SAMPLES) if importlib.util.find_spec("pyarrow") is not None else None


def sample_store_beside(journal: Path, report: Callable[[str], None]) -> ParquetSampleStore | None:
    """The sample store of a recorded run, a folder or one of its files; None where it has none.

    ``report`` gets what is wrong with a file of the store.

    Raises:
        InputError: there is one, and pyarrow is not installed.
    """
    folder = (journal if journal.is_dir() else journal.parent) / _SAMPLES
    if not folder.is_dir():
        return None
    if importlib.util.find_spec("pyarrow") is None:
        message = f"the run's samples are needed, and reading them needs pyarrow; {to_install('spark')}"
        raise InputError([Fault("journal", str(folder), "with pyarrow installed", message)])
    return ParquetSampleStore(folder, report)


def header_of(settings: Settings, job: str | None = None, seed: int | None = None) -> Header:
    return Header(__version__, settings.model_dump(mode="json"), seed, job)


def settings_of(header: Header, overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a recorded run, with some of them changed (dotted keys). Another policy has its own options.

    Raises:
        InputError: a changed key is unknown or its value is wrong.
    """
    values: dict[str, Any] = dict(header.settings)
    faults = []
    if overrides and overrides.get("policy", values["policy"]) != values["policy"]:
        values["policy_options"] = {}
    for dotted, value in (overrides or {}).items():
        section, _, key = dotted.rpartition(".")
        inside = values.get(section) or {}
        if not section:
            values[key] = value
        elif isinstance(inside, Mapping):
            values[section] = {**inside, key: value}
        else:
            message = f"{section} has no keys of its own"
            faults.append(Fault(dotted, repr(value), f"{section} as a whole, as in {section}={inside}", message))
    try:
        settings = load_settings(values)
    except InputError as error:
        raise InputError([*faults, *error.faults]) from None
    if faults:
        raise InputError(faults)
    return settings
