"""The plots of judged runs: load and capacity, executors and demand, lag and objective; why, under the pointer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rheostat.judge.recorder import Act
from rheostat.judge.tracks import Points, Tracks
from rheostat.judge.work import Scene
from rheostat.report.parts import COLORS, LIGHT, Figure, line, wrapped

__all__ = ["draw"]

_TITLES = ("Load, and what the ready executors carry, records/s", "Executors", "Lag against the objective, s")
_UP, _DOWN = "triangle-up", "triangle-down"


def draw(scene: Scene, runs: Sequence[tuple[str, Tracks]], objective_s: float, *, with_script: bool) -> str:
    """One figure for the runs of a case; all but the first two are hidden until their name is clicked.

    Raises:
        InputError: plotly is not installed.
    """
    figure = Figure(_TITLES, "seconds since the start of the load", height=950)
    figure.add(1, _line("load", scene.load, LIGHT))
    figure.add(2, _line("demand", scene.demand, LIGHT, shape="hv"))
    for place, (name, tracks) in enumerate(runs):
        for row, drawn in _run(name, tracks, COLORS[place % len(COLORS)], shown=place < 2):
            figure.add(row, drawn)
    figure.limit(3, objective_s)
    return figure.html(with_script=with_script)


def _run(name: str, tracks: Tracks, color: str, *, shown: bool) -> list[tuple[int, dict[str, Any]]]:
    """The lines of a run; they are shown and hidden together."""
    group: dict[str, Any] = {"legendgroup": name, "visible": True if shown else "legendonly"}
    return [
        (1, _line(name, tracks.capacity, color, shape="hv", dash="dot", showlegend=False, **group)),
        (2, _line(name, tracks.paid, color, shape="hv", **group)),
        (2, {**_marks(name, tracks.acts, color), "showlegend": False, **group}),
        (3, _line(name, tracks.lag, color, showlegend=False, **group)),
    ]


def _line(name: str, points: Points, color: str, **more: Any) -> dict[str, Any]:
    return line(name, [round(at, 1) for at, _ in points], [_short(value) for _, value in points], color, **more)


def _marks(name: str, acts: Sequence[Act], color: str) -> dict[str, Any]:
    return {
        "name": name,
        "mode": "markers",
        "x": [round(act.at, 1) for act in acts],
        "y": [act.after for act in acts],
        "marker": {"size": 8, "color": color, "symbol": [_UP if _rises(act) else _DOWN for act in acts]},
        "text": [wrapped(f"{act.before} → {act.after}, {act.code}: {act.text}") for act in acts],
        "hovertemplate": "%{text}",
    }


def _rises(act: Act) -> bool:
    return act.before is None or act.after >= act.before


def _short(value: float) -> float:
    """Five digits are more than a plot shows."""
    return float(f"{value:.5g}")
