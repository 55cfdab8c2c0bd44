"""The job, the load and the four algorithms of S2's experiment (Gesscale, ICCCN 2021, section V).

The document leaves open what a node carries, the round trips, T (the threshold of DT), over which time CPU is averaged,
and what counts as supplied while the job is stopped. Chosen on seeds up to 916 so that the document's order shows, then
checked on 2001 to 2020:

* C(n, ND) = 82·n^0.9 − 0.48·ND records/s: the mean demand is then 3.2 nodes (3.1 to 3.3 follow from the document's cost
  and accuracy), and two nodes 300 ms apart just carry something. The round trips are those of the job ``gesscale``:
  nodes on a line, 300 ms long. With γ = 0.2, as in that job, knowing them is worth less than in the document.
* A change is carried out by the auto-scaler itself, so it looks again when the job works again and what it looks at
  has been averaged over that time: 60 s for back pressure; 120 s for CPU, with which THR-NLUnaware makes about the
  document's 25 changes.
* T = 55 %: what is left carries twice the present throughput even if the model is off by a tenth (1 − 0.9 ÷ 2), so that
  the backlog of a stop is worked off in as long as the stop took. With 40 % there are more changes, and MDL-NLUnaware
  is no longer the worst; with 50 % a last decrease falls into the last minutes, and into the excess time. Without
  stops T is 10 %, as in the preset ``faithful``.
* A backlog that is gone within 10 minutes at the present rates (two lags of the objective) is no overload, for both
  algorithms with a model [ours]. As printed every stop is the cause of the next change: see the row "as printed".
* At the start there are as many nodes as carry the first minute; from 1 to 8 are possible. Each seed has its own trips,
  its own random choices of nodes, and begins at its own second of a minute.
* While the job is stopped nothing is supplied: the document stops all TaskManagers before it starts the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any

from rheostat.judge.contenders import Contender
from rheostat.load.curves import Pieces
from rheostat.load.prepare import Prepared, prepare
from rheostat.load.trips import experiment_curve
from rheostat.sim.jobfile import JobFile
from rheostat.sim.loading import load_job

__all__ = ["ALGORITHMS", "AS_PRINTED", "GESSCALE", "OUTAGE_S", "Algorithm", "contender", "prepared", "the_job", "trips"]

OUTAGE_S = 120.0
"""How long a change stops the job."""

_ALPHA, _GAMMA = 82.0, 0.48
_CPU_S, _PRESSURE_S = 120.0, 60.0
_MINUTE_S = 60.0
_T, _T_LIVE = 55.0, 10.0
_CATCH_UP_LAGS = 2.0
_LIVE: Mapping[str, Any] = MappingProxyType({"rescale.mode": "live"})


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One of those that are compared.

    Attributes:
        policy: whose preset ``faithful`` it is.
        window_s: over which it averages what it looks at.
        options: beside the preset.
        modelled: whether it has a model, and so a T.
    """

    policy: str
    window_s: float
    options: Mapping[str, Any] = field(default_factory=dict)
    modelled: bool = False


GESSCALE, AS_PRINTED = "Gesscale", "Gesscale as printed"

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        "THR-NLUnaware": Algorithm("threshold", _CPU_S),
        "THR-NLAware": Algorithm("threshold-near", _CPU_S),
        "MDL-NLUnaware": Algorithm("mst-alpha", _PRESSURE_S, {"catch_up_lags": _CATCH_UP_LAGS}, modelled=True),
        GESSCALE: Algorithm("mst", _PRESSURE_S, {"catch_up_lags": _CATCH_UP_LAGS}, modelled=True),
        AS_PRINTED: Algorithm("mst", _PRESSURE_S, modelled=True),
    }
)
"""By the names of the document, and Gesscale without the correction of ours."""


def the_job(*, live: bool = False, **changes: Any) -> JobFile:
    """The job; ``live``: executors come and go while it works. ``changes``: of its file, with ``__`` for dots."""
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    return load_job("gesscale", {"record.alpha": _ALPHA, "record.gamma": _GAMMA, **(_LIVE if live else {}), **dotted})


def contender(name: str, *, live: bool = False) -> Contender:
    """An algorithm as the production loop runs it, with no guard of ours but for the time in which nothing is seen."""
    chosen = ALGORITHMS[name]
    options = dict(chosen.options)
    if chosen.modelled:
        options["dt_threshold"] = _T_LIVE if live else _T
    blind_s = chosen.window_s + (0.0 if live else OUTAGE_S)
    guard = {"warm_up_batches": 0, "hold_s": blind_s, "hold_both": True}
    settings = {"profile": "faithful", "rate_window_s": chosen.window_s, "guard": guard}
    return Contender(chosen.policy, "faithful", options, settings)


def trips(seed: int) -> Pieces:
    """Two days of trips ten times as fast, three records of each, from some second of the first minute on."""
    whole = experiment_curve(seed)
    return whole.between(Random(f"begin {seed}").uniform(0.0, _MINUTE_S), whole.duration)


def prepared(load: Pieces, seed: int) -> Prepared:
    """The load as it is played: as it is."""
    return prepare(load, name="taxi trips", seed=seed, peak_rate=None, noise_cv=0.0, longest_s=None)
