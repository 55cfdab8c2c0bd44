"""What executors cost, from real runs: their start-up, their cold first tasks, what they take from their neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rheostat.judge.estimates import Estimate, median_interval, median_of, not_told, told
from rheostat.judge.fit import Fit, Point
from rheostat.judge.measured import RealBatch, RealRun
from rheostat.sim.jobfile import JobFile

__all__ = ["SETTLED", "executor_costs", "reload_cost"]

SETTLED = 1
"""So many batches after a change the executors count as warm."""

_AFTER = 2
"""So many batches after the one that executors join are looked at for what is left of the cold."""

_LONGEST_COLD_S = 60.0

Pairs = Sequence[tuple[RealRun, RealBatch]]


def executor_costs(runs: Sequence[RealRun], pairs: Pairs, fit: Fit) -> list[Estimate]:
    """What the runs tell of start-ups, crowding, neighbours, cold slots. ``pairs``: the batches after the warm-up."""
    singles = [took for run in runs for took, together in run.start_ups if together == 1]
    every = [(took, together) for run in runs for took, together in run.start_ups]
    slows = _slows(pairs, fit)
    share = slows.value if slows.told else 0.0
    start_up = _start_up(singles, every)
    return [*start_up, slows, _cold(pairs, fit, share, start_up[-1].value)]


def _start_up(singles: Sequence[float], every: Sequence[tuple[float, int]]) -> list[Estimate]:
    used = list(singles) or [took for took, _ in every]
    median_key, p95_key = "executor.start_up.median_s", "executor.start_up.p95_s"
    if len(used) < 3:
        why = f"too few start-ups ({len(used)} seen)"
        default = JobFile.model_fields["executor"].default.start_up
        return [
            not_told(median_key, default.median_s, "s", len(used), why),
            not_told(p95_key, default.p95_s, "s", len(used), why),
            _crowding(singles, every),
        ]
    logs = np.log(used)
    p95 = float(np.exp(np.mean(logs) + 1.645 * np.std(logs, ddof=1)))
    median = float(np.median(used))
    why = "from the request to the registration, one executor asked for" if singles else "all start-ups"
    return [
        told(median_key, median, "s", len(used), why, interval=median_interval(used)),
        told(p95_key, max(median, p95), "s", len(used), f"{why}; log-normal"),
        _crowding(singles, every),
    ]


def _crowding(singles: Sequence[float], every: Sequence[tuple[float, int]]) -> Estimate:
    several = [(took, together) for took, together in every if together > 1]
    key = "executor.crowding"
    if not singles or not several:
        why = "executors were never asked for both singly and together"
        return not_told(key, 0.0, "", len(several), why)
    alone = float(np.median(singles))
    shares = [(took / alone - 1) / (together - 1) for took, together in several]
    value = max(0.0, float(np.median(shares)))
    return told(key, value, "", len(shares), "start-ups together ÷ start-ups alone", interval=median_interval(shares))


def _slows(pairs: Pairs, fit: Fit) -> Estimate:
    """Slow-down of a batch by executors that start meanwhile and register after it."""
    key, shares = "executor.slows_neighbours", []
    for run, batch in pairs:
        if batch.starting_s > 0.5 and not batch.joined and not batch.cold and batch.executors and not batch.shrunk:
            excess = fit.excess_s(run, batch)
            shares.append(excess / max(0.1, batch.starting_s - max(0.0, excess)))
    interval = median_interval(shares)
    if interval is None or interval[0] <= 0:
        why = f"batches with a start-up in them do not show it ({len(shares)} seen)"
        return not_told(key, 0.0, "", len(shares), why, interval=interval)
    return told(key, float(np.median(shares)), "", len(shares), "batches with a start-up in them", interval=interval)


def _cold(pairs: Pairs, fit: Fit, share: float, crowding: float) -> Estimate:
    """The extra time of a slot's first task that explains the batches after executors have come."""
    key = "executor.cold_task_s"
    found = [cold for episode in _episodes(pairs) if (cold := _cold_of(episode, fit, share, crowding)) is not None]
    if not found:
        default = JobFile.model_fields["executor"].default.cold_task_s
        return not_told(key, default, "s", 0, "no executor was seen to join a running query")
    why = "the batch that executors join, and the two after it, against warm ones"
    return median_of(key, found, "s", why)


Episode = list[tuple[RealRun, RealBatch]]


def _episodes(pairs: Pairs) -> list[Episode]:
    """Batches that executors joined or began cold in, each with the next two if nothing happened in them."""
    found: list[Episode] = []
    for run, batch in pairs:
        if (batch.joined or batch.cold) and batch.executors is not None and not batch.shrunk:
            found.append([(run, batch)])
        elif (
            found and len(found[-1]) <= _AFTER and found[-1][0][0] is run and not batch.starting_s and not batch.shrunk
        ):
            found[-1].append((run, batch))
    return found


def _cold_of(episode: Episode, fit: Fit, share: float, crowding: float) -> float | None:
    """The extra time with which the batches of an episode take together as long as they did; None: it has no effect."""
    if any(not batch.executors for _, batch in episode):
        return None
    measured = sum(batch.tasks_s - batch.starting_s * share / (1 + share) for _, batch in episode)

    def predicted(cold_s: float) -> float:
        total, fresh = 0.0, episode[0][1].cold * episode[0][0].setup.cores
        for run, batch in episode:
            task_s, after_s, count = fit.tasks(Point.of(run, batch))
            cores = run.setup.cores
            ready = [0.0] * fresh + [max(0.0, at - batch.planning_s) for at in batch.joined for _ in range(cores)]
            warm = [0.0] * ((batch.executors or 0) * cores - fresh)
            crowded = [cold_s * (1 + crowding * _beside(at, ready, cold_s, cores)) for at in ready]
            end, fresh = _placed(warm, list(zip(ready, crowded, strict=True)), [task_s] * count)
            total += end + after_s
        return total

    if predicted(_LONGEST_COLD_S) - predicted(0.0) < 1.0:
        return None
    return _root(predicted, measured, _LONGEST_COLD_S)


def _beside(at: float, ready: Sequence[float], cold_s: float, cores: int) -> int:
    """How many other executors are cold at about the same time, as the simulator has it."""
    return max(0, sum(abs(at - other) < cold_s for other in ready) // cores - 1)


def _placed(warm: Sequence[float], fresh: Sequence[tuple[float, float]], tasks: Sequence[float]) -> tuple[float, int]:
    """When the last task ends, and how many fresh slots ran none.

    Each task in turn goes to the slot that is free first.

    Args:
        warm: when each warm slot is free.
        fresh: the same for cold ones, and how much longer the first task there takes.
        tasks: seconds of each.
    """
    free = [(at, 0.0) for at in warm] + list(fresh)
    last = 0.0
    for seconds in tasks:
        at, cold_s = slot = min(free)
        free.remove(slot)
        end = at + seconds + cold_s
        free.append((end, 0.0))
        last = max(last, end)
    return last, sum(cold_s > 0 for _, cold_s in free)


def _root(rising: Callable[[float], float], wanted: float, most: float) -> float:
    """Where a function that never falls reaches a value, to 10 ms; the ends where it does not."""
    low, high = 0.0, most
    if rising(low) >= wanted:
        return low
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return high


def reload_cost(pairs: Pairs, fit: Fit) -> Estimate:
    """What a batch takes longer after executors were taken away."""
    found = [fit.excess_s(run, batch) for run, batch in pairs if batch.shrunk and batch.executors and not batch.joined]
    interval = median_interval(found)
    if interval is None or interval[0] <= 0:
        why = f"batches after a decrease do not show it ({len(found)} seen)"
        return not_told("state.reload_s", 0.0, "s", len(found), why, interval=interval)
    return told("state.reload_s", float(np.median(found)), "s", len(found), "after decreases", interval=interval)
