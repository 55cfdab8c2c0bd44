"""The plot of ``bench rivals`` as SVG, for pages that show pictures but run no script."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rheostat.report.html import BLUE, COLORS, GREEN, GREY, LIGHT, ORANGE, RED

Points = Sequence[tuple[float, float]]
"""Seconds and values."""

_COLORS = {"static": GREY, "dynamic-allocation": ORANGE, "reactive": BLUE, "rheostat": GREEN}
_WIDTH, _LEFT, _RIGHT, _PANEL, _GAP, _TOP = 860, 52, 12, 190, 46, 58
_HEIGHT = _TOP + 2 * _PANEL + _GAP + 40


@dataclass(frozen=True, slots=True)
class Curve:
    """A run over time: registered executors, and the lag in seconds."""

    executors: Points
    lag: Points


def draw_rivals(curves: Mapping[str, Curve], title: str, objective_s: float) -> str:
    """Two panels one above the other, executors and lag, with a line for each run."""
    seconds = max((at for curve in curves.values() for at, _ in [*curve.executors, *curve.lag]), default=1.0) or 1.0
    upper = _Panel(_TOP, seconds, _most([each.executors for each in curves.values()], 1.0))
    lower = _Panel(_TOP + _PANEL + _GAP, seconds, _most([each.lag for each in curves.values()], 1.2 * objective_s))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="system-ui,sans-serif" '
        'font-size="12" fill="#1e293b">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="15">{html.escape(title)}</text>',
        *upper.frame("executors"),
        *lower.frame("lag, s"),
        lower.path([(0.0, objective_s), (seconds, objective_s)], RED, 'stroke-dasharray="5 4"'),
    ]
    for number, (name, curve) in enumerate(curves.items()):
        color = _COLORS.get(name, COLORS[number % len(COLORS)])
        parts += [upper.path(as_steps(curve.executors), color), lower.path(curve.lag, color)]
        x = _LEFT + 190 * number
        parts.append(f'<path d="M{x} 38h22" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 28}" y="42">{html.escape(name)}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">seconds of the load</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def as_steps(points: Points) -> list[tuple[float, float]]:
    """Each value holds until the next one.

    >>> as_steps([(0.0, 1.0), (2.0, 3.0)])
    [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)]
    """
    corners = [(later, value) for (_, value), (later, _) in pairwise(points)]
    return [each for pair in zip(points, corners, strict=False) for each in pair] + list(points[-1:])


def _most(lines: Sequence[Points], least: float) -> float:
    return max([least, *(value for line in lines for _, value in line)])


@dataclass(frozen=True, slots=True)
class _Panel:
    """A plot from 0 to ``seconds`` and from 0 to ``most``; ``top`` is its upper edge."""

    top: int
    seconds: float
    most: float

    def _place(self, at: float, value: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * at / self.seconds
        return round(x, 1), round(self.top + _PANEL * (1 - value / (1.05 * self.most)), 1)

    def path(self, points: Points, color: str, more: str = "") -> str:
        places = (self._place(at, value) for at, value in points)
        line = "L".join(f"{x:g} {y:g}" for x, y in places)
        return f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.8" {more}/>' if line else ""

    def frame(self, name: str) -> list[str]:
        parts = []
        for value in _ticks(self.most):
            y = self._place(0.0, value)[1]
            parts.append(f'<path d="M{_LEFT} {y:g}H{_WIDTH - _RIGHT}" stroke="{LIGHT}" stroke-width="0.7"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:g}" text-anchor="end">{value:g}</text>')
        for second in _ticks(self.seconds):
            x = self._place(second, 0.0)[0]
            parts.append(f'<text x="{x:g}" y="{self.top + _PANEL + 15}" text-anchor="middle">{second:g}</text>')
        middle = self.top + _PANEL // 2
        parts.append(f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{name}</text>')
        return parts


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 to ``most``, at most eight."""
    step = next(step for power in range(9) for step in (10**power, 2 * 10**power, 5 * 10**power) if most / step <= 7)
    return [float(step * number) for number in range(int(most // step) + 1)]
