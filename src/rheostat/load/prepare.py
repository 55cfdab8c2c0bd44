"""A load as the simulator plays it: cut to its busiest week, refined where it is coarse, scaled to the job.

The peak of a load is its largest mean over 30 seconds: jobs are not sized for shorter spikes, and a longer window would
hide spikes that they are sized for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import Fault, InputError
from rheostat.load.curves import Pieces, RateCurve, levels

PEAK_WINDOW_S = 30.0
"""Seconds over which the rate is averaged for the peak."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A load ready to be played.

    Attributes:
        peak: largest mean over 30 s of ``curve``, records/s.
        scale: factor of the rates.
        cut: begin and end of ``curve`` in the given load, seconds; None if all of it is there.
        noise_cv: coefficient of variation of the added noise; 0 without noise.
        bin_s: width of the bins of the given load, in seconds; None if it has none.
        said: each preparation step in a sentence.
    """

    curve: Pieces
    name: str
    seed: int
    peak: float
    scale: float
    cut: tuple[float, float] | None
    noise_cv: float
    bin_s: float | None
    said: tuple[str, ...]


def prepare(
    curve: RateCurve,
    *,
    name: str,
    seed: int,
    peak_rate: float | None,
    noise_cv: float = 0.10,
    bin_s: float | None = None,
    longest_s: float | None = 7 * 86_400,
    step_s: float = 5.0,
    always_noisy: bool = False,
) -> Prepared:
    """Cut, refine and scale a load.

    1. A load longer than ``longest_s`` is cut to that length around its peak, as far as the ends allow.
    2. A load whose bins are wider than ``step_s`` is averaged over steps of that length, and each step is multiplied by
       a gamma variable of mean 1 and coefficient of variation ``noise_cv``: an hour's mean says nothing of its seconds,
       and Poisson noise alone vanishes at high rates. Finer bins have noise of their own; a shape has no bins: both are
       treated so only if the load is to be ``always_noisy``.
    3. Rates are multiplied so that the peak of the result is ``peak_rate`` (records/s); None: they stay as they are.

    The name seeds the noise together with ``seed``, so that two traces do not share theirs. ``bin_s`` defaults to that
    of the curve (a :class:`~rheostat.load.files.Trace` has one).

    Raises:
        InputError: with every number that is out of range; or for a load without a single record.
    """
    _check(peak_rate=peak_rate, noise_cv=noise_cv, bin_s=bin_s, longest_s=longest_s, step_s=step_s)
    bins = getattr(curve, "bin_s", None) if bin_s is None else bin_s
    played, cut = _cut_around_peak(curve.pieces(), longest_s)
    said = []
    if cut is not None:
        said.append(f"cut to {cut[0]:.0f} .. {cut[1]:.0f} s of {curve.duration:.0f} s, around the peak")
    refined = always_noisy or (bins is not None and bins > step_s)
    if refined:
        played = _add_noise(played, step_s, noise_cv, Random(f"{seed} noise of {name}"))
        given = "the shape" if bins is None else f"bins of {bins:g} s"
        said.append(f"{given} put onto steps of {step_s:g} s, noise {noise_cv:.0%} (seed {seed})")
    own_peak = peak_mean(played)
    if own_peak <= 0:
        raise InputError([Fault("load", name, "a load with records", "it offers nothing at all")])
    peak, scale = (own_peak, 1.0) if peak_rate is None else (peak_rate, peak_rate / own_peak)
    if scale != 1:
        played = Pieces([(t, rate * scale) for t, rate in played.points])
    said.append(f"rates × {scale:.6g}: the largest mean over {PEAK_WINDOW_S:g} s is {peak:.6g} records/s")
    return Prepared(
        curve=played,
        name=name,
        seed=seed,
        peak=peak,
        scale=scale,
        cut=cut,
        noise_cv=noise_cv if refined else 0.0,
        bin_s=bins,
        said=tuple(said),
    )


def peak_mean(curve: RateCurve, window_s: float = PEAK_WINDOW_S) -> float:
    """The largest mean rate over any ``window_s`` seconds, records/s; over the whole load if that is shorter.

    ``max over t of (A(t + w) − A(t)) / w`` with A the integral of the rate; exact for straight lines: the maximum lies
    where the window begins or ends at a point, or between two such places where both of its ends have the same rate.

    >>> peak_mean(Pieces([(0, 0), (60, 600), (120, 0)]))
    525.0
    """
    return _find_peak(curve.pieces(), window_s)[0]


def _check(**numbers: float | None) -> None:
    faults = [
        Fault(name, f"{value:g}", f"a number {'≥' if name == 'noise_cv' else '>'} 0", "it is out of range")
        for name, value in numbers.items()
        if value is not None and not (0 < value < math.inf or (name == "noise_cv" and value == 0))
    ]
    if faults:
        raise InputError(faults)


def _cut_around_peak(curve: Pieces, longest_s: float | None) -> tuple[Pieces, tuple[float, float] | None]:
    if longest_s is None or curve.duration <= longest_s:
        return curve, None
    middle = _find_peak(curve, PEAK_WINDOW_S)[1] + PEAK_WINDOW_S / 2
    begin = min(max(0.0, middle - longest_s / 2), curve.duration - longest_s)
    return curve.between(begin, begin + longest_s), (begin, begin + longest_s)


def _add_noise(curve: Pieces, step_s: float, noise_cv: float, random: Random) -> Pieces:
    """Levels of ``step_s`` seconds, each the mean of the curve over it, times a gamma variable of mean 1."""
    grid = np.append(np.arange(0.0, curve.duration, step_s), curve.duration)
    means = np.diff(PiecesArray(curve).cumulative(grid)) / np.diff(grid)
    if noise_cv > 0:
        shape = 1 / noise_cv**2
        means *= np.array([random.gammavariate(shape, 1 / shape) for _ in means])
    return levels(grid.tolist(), means.tolist())


def _find_peak(curve: Pieces, window_s: float) -> tuple[float, float]:
    """The largest mean over a window, and the second at which that window begins."""
    window = min(window_s, curve.duration)
    lines = PiecesArray(curve)
    edges = np.unique(np.clip(np.concatenate([lines.times, lines.times - window]), 0.0, curve.duration - window))
    begins, ends = edges[:-1], edges[1:]
    first = lines.rate(begins + window, "right") - lines.rate(begins, "right")
    last = lines.rate(ends + window, "left") - lines.rate(ends, "left")
    top = (first > 0) & (last < 0)
    inner = begins[top] + (ends - begins)[top] * first[top] / (first - last)[top]
    places = np.concatenate([edges, inner])
    means = (lines.cumulative(places + window) - lines.cumulative(places)) / window
    best = int(np.argmax(means))
    return float(means[best]), float(places[best])


class PiecesArray:
    """:class:`Pieces` evaluated at many seconds at once."""

    def __init__(self, curve: Pieces) -> None:
        points = np.array(curve.points)
        self.times: _Floats = points[:, 0]
        self._rates: _Floats = points[:, 1]
        areas = np.diff(self.times) * (self._rates[:-1] + self._rates[1:]) / 2
        self._sums = np.concatenate([[0.0], np.cumsum(areas)])

    def rate(self, t: _Floats, side: Literal["left", "right"]) -> _Floats:
        """Records/s just before t (left) or from t on (right)."""
        piece = self._find_piece(t, side)
        width = self.times[piece + 1] - self.times[piece]
        share = np.divide(t - self.times[piece], width, out=np.ones_like(t), where=width > 0)
        return self._rates[piece] + np.clip(share, 0.0, 1.0) * (self._rates[piece + 1] - self._rates[piece])

    def cumulative(self, t: _Floats) -> _Floats:
        """Records offered by then; as :meth:`Pieces.cumulative` before second 0 and after the end."""
        t = np.clip(t, 0.0, self.times[-1])
        piece = self._find_piece(t, "right")
        return self._sums[piece] + (t - self.times[piece]) * (self._rates[piece] + self.rate(t, "right")) / 2

    def _find_piece(self, t: _Floats, side: Literal["left", "right"]) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.times, t, side=side) - 1, 0, len(self.times) - 2)
