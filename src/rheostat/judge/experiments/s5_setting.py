"""The jobs, the loads and the contenders of S5's experiments; the talk gives their titles and no figure.

From the talk: a decision each minute on figures that are two minutes old, lag healthy under five minutes. The rest was
chosen once, on seeds 1 and 2: the job ``base`` (micro-batches of 10 s, up to 20 executors) and the loads below.
Policies have their defaults, but for what counts decisions and means time: a surplus of a minute is one decision for
``router`` (default: four, 15 s apart), one of two and a half minutes is three for ``reactive`` (default: ten).
``router`` also rides spikes out, as the talk wants. All know the delay (``guard.metrics_delay_s``). Spikes are as high
as the change that stays, so nothing but its lasting tells it from them.

Incidents are runs of the job ``base`` as it is: a decision each 15 s, no delay, a lag of 60 s, all defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from rheostat.judge.contenders import Contender
from rheostat.judge.experiments.s5_runs import Failover
from rheostat.load.curves import Pieces, staircase
from rheostat.load.prepare import Prepared, peak_mean, prepare
from rheostat.load.shapes import parse_shape
from rheostat.sim.capacity import capacity
from rheostat.sim.jobfile import JobFile
from rheostat.sim.loading import load_job

__all__ = [
    "FAILOVER",
    "FLEET",
    "INCIDENTS",
    "LASTING_S",
    "POLICIES",
    "SICK",
    "SLOW",
    "Scene",
    "contender",
    "day",
    "fleet_job",
    "incident",
    "sine",
    "spike_times",
    "spikes",
]

_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0
_TALK: Mapping[str, Any] = MappingProxyType({"objective": "lag < 5m", "decide_every_s": 60.0, "metrics.delay_s": 120.0})
_KNOWN: Mapping[str, Any] = MappingProxyType({"guard": {"metrics_delay_s": 120.0}})
_OPTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"router": {"samples_to_shrink": 1, "ride_out": True}, "reactive": {"samples_to_shrink": 3}}
)
_PEAK = 0.8
"""Of a load ÷ what the greatest number of executors carries, as in ``rheostat compare``."""

POLICIES = ("router", "router:faithful", "reactive", "hpa", "flink")

LASTING_S = 3.4 * _HOUR_S
"""From when on the load of the spikes is another one."""

_SPIKES_S, _HIGHER = 4 * _HOUR_S, 1.4

FLEET = 16
"""Jobs of the fleet."""

INCIDENTS = ("slow", "sink", "failover", "failover untold", "17", "31", "97")

SLOW = SICK = (1800.0, 3600.0)
"""When an executor is slow, and when the sink is sick, s."""

FAILOVER = Failover(3600.0, 7200.0)


class Scene(NamedTuple):
    """What a policy is run on."""

    job: JobFile
    load: Prepared


def contender(policy: str) -> Contender:
    """One of :data:`POLICIES` as it runs in the talk's experiments."""
    name, _, preset = policy.partition(":")
    return Contender(name, preset or None, {} if preset else _OPTIONS.get(name, {}), _KNOWN)


def sine(seed: int, seconds: float = 4 * _HOUR_S) -> Scene:
    """Two waves of two hours, the crest four times the trough."""
    job = load_job("base", _TALK)
    return Scene(job, _ready(job, parse_shape(f"sine:1..4@{seconds:g},period=7200").pieces(), "sine", seed, _PEAK))


def spike_times(seed: int) -> tuple[float, ...]:
    """When a minute of the load is a spike, s: one in each half hour from the second to the sixth."""
    random = Random(f"spikes {seed}")
    return tuple(1800.0 * number + _MINUTE_S * random.randrange(5, 20) for number in range(1, 6))


def spikes(seed: int, *, among: bool = True) -> Scene:
    """A line from 1 to 3 within four hours with minutes of 1.4 times as much; from 3.4 hours on that for good.

    Args:
        seed: of the moments of the spikes and of the noise.
        among: whether the spikes are there; the load is the same without them.
    """
    job, there = load_job("base", _TALK), spike_times(seed) if among else ()
    levels = []
    for number in range(int(_SPIKES_S / _MINUTE_S)):
        at = number * _MINUTE_S
        factor = _HIGHER if at in there or at >= LASTING_S else 1.0
        levels.append((_MINUTE_S, factor * (1 + 2 * at / _SPIKES_S)))
    return Scene(job, _ready(job, staircase(levels), "spikes", seed, _PEAK))


def day(seed: int) -> Scene:
    """A day with noise of 10 %, three campaigns of 20 minutes (a quarter more), and a dip of 15 minutes to a half."""
    job, random = load_job("base", _TALK), Random(f"day {seed}")
    whole = parse_shape(f"daily:1..4@{_DAY_S:g}")
    campaigns = [_MINUTE_S * random.randrange(480 * number, 480 * number + 460) for number in range(3)]
    dip_at = _MINUTE_S * random.randrange(600, 1200)
    levels = []
    for number in range(int(_DAY_S / _MINUTE_S)):
        at = number * _MINUTE_S
        factor = 1.25 if any(0 <= at - begin < 1200 for begin in campaigns) else 1.0
        factor *= 0.5 if 0 <= at - dip_at < 900 else 1.0
        levels.append((_MINUTE_S, factor * whole.rate(at + _MINUTE_S / 2)))
    return Scene(job, _ready(job, staircase(levels), "day", seed, _PEAK, 0.10))


def fleet_job(seed: int, number: int) -> Scene:
    """A job of the fleet, with its day: size, peak, time of the peak, trough, partitions and cost of a record vary."""
    random = Random(f"fleet {seed} {number}")
    most, trough = random.randrange(4, 25), random.uniform(0.15, 0.5)
    own = {
        "executors": [1, most],
        "partitions": random.choice((12, 17, 24, 31, 48, 97)),
        "stages.1.cost_ms": round(random.uniform(0.25, 1.0), 3),
    }
    job, phase_s = load_job("base", {**_TALK, **own}), random.uniform(0.0, _DAY_S)
    whole = parse_shape(f"daily:{trough:.3f}..1@{2 * _DAY_S:g}").pieces().between(phase_s, phase_s + _DAY_S)
    return Scene(job, _ready(job, whole, f"fleet {number}", seed, random.uniform(0.4, 0.8)))


def incident(name: str, seed: int) -> Scene:
    """One of :data:`INCIDENTS`: a number is that of the partitions."""
    events: list[dict[str, Any]] = []
    load = parse_shape("constant:1@7200").pieces()
    share, more = 0.5, {}
    if name == "slow":
        events = [{"kind": "slow", "at_s": SLOW[0], "for_s": SLOW[1] - SLOW[0], "executor": 0, "factor": 4.0}]
    elif name == "sink":
        rate = 0.4 * share * capacity(load_job("base"), 20)
        events = [{"kind": "sink", "at_s": SICK[0], "for_s": SICK[1] - SICK[0], "records_per_s": round(rate)}]
    elif name.startswith("failover"):
        away = FAILOVER.end - FAILOVER.begin
        load = staircase([(FAILOVER.begin, 1.0), (away, 0.4), (3600.0, 1.0)])
    else:
        load, share, more = parse_shape("sine:1..4@14400,period=7200").pieces(), _PEAK, {"partitions": int(name)}
    job = load_job("base", {"events": events, **more})
    return Scene(job, _ready(job, load, name, seed, share))


def _ready(job: JobFile, curve: Pieces, name: str, seed: int, share: float, noise_cv: float = 0.05) -> Prepared:
    """The load with noise between steps of 10 s; its peak is that share of what all executors carry."""
    scaled = share * capacity(job, job.n_max) / peak_mean(curve)
    points = [(at, rate * scaled) for at, rate in curve.points]
    return prepare(
        Pieces(points), name=name, seed=seed, peak_rate=None, noise_cv=noise_cv, bin_s=60.0, step_s=10.0, longest_s=None
    )
