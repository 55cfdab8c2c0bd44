"""A comparison in words and tables, for terminals and pages alike. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rheostat.judge.columns import Table, table_of
from rheostat.judge.compare import Comparison, Entry
from rheostat.judge.defeat import Defeat
from rheostat.judge.matrix import Cells
from rheostat.judge.ranking import LEAST_MEAN_EXECUTORS, Ranking, shares
from rheostat.judge.work import Found
from rheostat.plan.words import several

__all__ = [
    "DEFEAT_READING",
    "OPTIMUM_RUN",
    "REACHED_RUN",
    "READING",
    "SHARES",
    "LoadTable",
    "defeat_rows",
    "load_tables",
    "matrix_rows",
    "ranking_rows",
    "share_rows",
    "simulate_verdict",
    "unready_notes",
    "verdict",
]

OPTIMUM_RUN = "(optimum's plan)"
"""The name of the optimum's plan in tables."""

REACHED_RUN = "(plan with margin)"
"""The name of the cheapest plan with a margin."""

SHARES = "What is paid for beyond the optimum, in percent of it, means over the ranked cases"
"""The heading of :func:`share_rows`."""

READING = (
    "Cost: executor-hours from request until gone, plus 60 executor-seconds for every change, plus w × the hours over "
    "the objective; w is the fewest executors that carry the peak. Every run starts at the number that carries the "
    "first load, goes on until the last record is committed, and pays for that.",
    "Optimum: what one would pay who knows the load, in a model that can only be cheaper than the simulated "
    f"job. {OPTIMUM_RUN}: its plan followed open loop in the simulated job, increases ahead by the median start-up; it "
    f"keeps the lag at its very limit, where the sawtooth of batches is often over it. {REACHED_RUN}: the cheaper of "
    "two plans made for a quarter of the lag, with all of the capacity and with 95 % of it, followed likewise: what "
    "one can reach who knows the load. No policy is judged by them.",
    "Rankings: at w by cost ÷ optimum, at 3 w and w/3 by cost ÷ the cheapest run; geometric means over the ranked "
    "cases. At w/3 only policies whose every run is over the objective for at most 1 % of the time.",
    f"A load whose optimum needs fewer than {LEAST_MEAN_EXECUTORS:g} executors on average is shown, not ranked.",
    "acc. over, under: executors above and below demand, averaged over the time; time over, under: the share of the "
    "time; excess time: how much longer than the load the run took, as a share of it. Less is better in every column.",
)


DEFEAT_READING = (
    "Cost ÷ the clairvoyant optimum under the worst load that was found. Loads go from 4 % to 80 % of what all "
    "executors carry. A search finds a lower bound: a policy may lose more under a load that was not tried.",
    "The load is played as it is: `rheostat simulate --as-is --shape '…' --policy …` repeats the run.",
)
"""How to read the worst loads."""


@dataclass(frozen=True, slots=True)
class LoadTable:
    """A load on a job, over all seeds."""

    title: str
    notes: tuple[str, ...]
    table: Table
    entries: tuple[Entry, ...]


def load_tables(comparison: Comparison, sort: str = "cost") -> list[LoadTable]:
    """A table for each load and job, means over the seeds.

    Raises:
        InputError: there is no such column to sort by.
    """
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in comparison.entries:
        groups.setdefault((entry.case.job_label, entry.case.load.name), []).append(entry)
    return [_load_table(job, load, entries, sort) for (job, load), entries in groups.items()]


def _load_table(job: str, load: str, entries: Sequence[Entry], sort: str) -> LoadTable:
    runs: dict[str, list[Found]] = {}
    for entry in entries:
        for run in entry.runs:
            runs.setdefault(run.score["policy"], []).append(run)
    beside = {OPTIMUM_RUN: [entry.executed.score for entry in entries]}
    reached = [entry.reached.score for entry in entries if entry.reached is not None]
    if reached:
        beside[REACHED_RUN] = reached
    scores = {policy: [run.score for run in found] for policy, found in runs.items()}
    table = table_of(scores, beside, sort)
    return LoadTable(f"{load} on {job}", tuple(_notes(entries)), table, tuple(entries))


def _notes(entries: Sequence[Entry]) -> Iterator[str]:
    bound, seeds = entries[0].bound, [entry.case.seed for entry in entries]
    yield from bound.said
    mean = "; means over seeds " + ", ".join(map(str, seeds)) if len(seeds) > 1 else f"; seed {seeds[0]}"
    exact = f"{bound.error / bound.cost:.2%}" if bound.cost else f"{bound.error:,.2f} executor-h"
    yield (
        f"optimum {bound.cost:,.2f} executor-h (exact to {exact}): {bound.executor_hours:,.2f} "
        f"h, {several(bound.changes, 'change')}, {60 * bound.violation_hours:,.1f} min over the objective; mean "
        f"{bound.mean_executors:.2f} executors; w = {bound.weight}{mean}"
    )
    if not all(entry.ranked for entry in entries):
        why = "needs too few executors to leave anything to decide" if bound.cost else "costs nothing"
        yield f"not ranked: the optimum {why}"
    yield from unready_notes(entries)


def unready_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """What policies never did in these runs, and what they would have needed: a sentence for each policy."""
    runs: dict[str, list[Found]] = {}
    for run in (run for entry in entries for run in entry.runs):
        runs.setdefault(run.score["policy"], []).append(run)
    for policy, every in runs.items():
        said = [run.unready for run in every if run.unready is not None]
        often = f" in {len(said)} of {len(every)} runs" if len(every) > 1 else ""
        if said:
            yield f"{policy}{often}: {said[0]}"


def ranking_rows(rankings: Sequence[Ranking]) -> list[list[str]]:
    """All rankings side by side, header row first, in the order of the first one."""
    if not rankings:
        return []
    titles = [f"{ranking.name}: place, ÷ {ranking.of.removeprefix('the ')}" for ranking in rankings]
    policies = [rank.policy for rank in rankings[0].ranks]
    told = [{rank.policy: rank for rank in ranking.ranks} for ranking in rankings]
    rows = [["policy", *titles]]
    for policy in policies:
        ranks = [ranks[policy] for ranks in told]
        cells = [f"{rank.place}.  {rank.ratio:.3f}" if rank.ratio is not None else f"–  {rank.why}" for rank in ranks]
        rows.append([policy, *cells])
    return rows


def share_rows(comparison: Comparison) -> list[list[str]]:
    """Where each policy's cost above the optimum comes from, in percent of the optimum, header row first."""
    found = sorted(shares(comparison.bills), key=lambda each: each.executors + each.changes + each.violations)
    rows = [["policy", "executors", "changes", "time over the objective", "together"]]
    for each in found:
        parts = (each.executors, each.changes, each.violations)
        rows.append([each.policy, *(f"{100 * part:+.1f}%" for part in (*parts, sum(parts)))])
    return rows if found else []


def defeat_rows(found: Sequence[Defeat]) -> list[list[str]]:
    """The worst load of each policy, header row first, the policy first that loses least."""
    rows = [["policy", "÷ optimum", "over objective", "loads tried", "the load"]]
    for each in sorted(found, key=lambda each: math.inf if each.ratio is None else each.ratio):
        ratio = "did not end" if each.ratio is None else f"{each.ratio:.3f}"
        violated = f"{each.entry.runs[0].score['violation_share']:.1%}"
        rows.append([each.policy, ratio, violated, str(each.tried), each.shape])
    return rows


def matrix_rows(cells: Cells) -> list[list[str]]:
    """Policies × jobs, header row first, the geometric mean last, the best policy first."""
    rows = [["policy", *cells.jobs, "geometric mean"]]
    for policy, overall in cells.overall.items():
        rows.append([policy, *map(_ratio, cells.ratios[policy]), _ratio(overall)])
    return rows


def verdict(comparison: Comparison) -> str:
    """One sentence: who is cheapest, by how much."""
    rankings = comparison.rankings
    placed = [rank for rank in rankings[0].ranks if rank.ratio is not None] if rankings else []
    if not placed:
        return "No policy could be ranked: see below why."
    best, cases = placed[0], rankings[0].cases
    where = "one case" if cases == 1 else f"{cases} cases"
    text = f"{best.policy} is cheapest over {where}, at {best.ratio:.3f} × the clairvoyant optimum"
    level = [rank.policy for rank in placed[1:] if _ratio(rank.ratio) == _ratio(best.ratio)]
    rest = placed[1 + len(level) :]
    if level:
        text += f", as {'is' if len(level) == 1 else 'are'} {' and '.join(level)}"
    if rest:
        text += f"; {rest[0].policy} follows at {_ratio(rest[0].ratio)}"
    if len(rest) > 1:
        text += f", {rest[-1].policy} is last at {_ratio(rest[-1].ratio)}"
    return text + "."


def simulate_verdict(entry: Entry) -> str:
    """One sentence on the first run of a case."""
    run, bound = entry.runs[0], entry.bound
    score = run.score
    if not score["valid"]:
        return f"{score['policy']}: the run does not count: {'; '.join(run.faults) or 'records are missing'}."
    used = f"{score['executor_hours']:,.2f} executor-hours with {several(score['reconfigurations'], 'change')}"
    violated = f"over the objective of {score['objective_s']:g} s for {score['violation_share']:.2%} of the time"
    times = f"{score['total_cost'] / bound.cost:.3f} × the clairvoyant optimum" if bound.cost else "the optimum is 0"
    return f"{score['policy']} used {used} and was {violated}: a cost of {score['total_cost']:,.2f}, {times}."


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
