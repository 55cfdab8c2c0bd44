"""What the observations mean: rates, backlog, lag, occupancy. Pure: the past comes in as a state and goes out again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rheostat.analyze.assess import NEEDED, analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState

if TYPE_CHECKING:
    from rheostat.config import Settings

__all__ = ["NEEDED", "AnalysisSettings", "AnalysisState", "analysis_settings", "analyze"]


def analysis_settings(settings: Settings) -> AnalysisSettings:
    """What of a job's settings the analysis has to know."""
    return AnalysisSettings(
        objective_lag_s=settings.parsed_objective.lag_s,
        rate_window_s=settings.rate_window_s,
        failure_window_s=settings.guard.failure_window_s,
    )
