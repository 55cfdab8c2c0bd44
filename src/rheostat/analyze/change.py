"""Whether a model still predicts: a score of its residuals, for abrupt and for gradual change.

S1 calls for "an online detector with a score and a threshold" and uses one limit on the residual, 0.08; gradual change
is its future work. Here the score is the greater of two, and a change point is a score of 1 or more:

* *abrupt*: the least of the last ``in_a_row`` residuals ÷ ``limit``. One in a row is the document's rule;
* *gradual*: a one-sided cumulative sum (E. S. Page, Continuous inspection schemes, Biometrika 41, 1954)::

      g ← max(0, g + min(r, 2 · limit) − allowance)          score = g ÷ (patience · limit)

  Residuals that stay above the allowance add up, however small they are; ``patience`` is how many times the limit may
  add up. Clipping at 2 · limit keeps one wild residual from deciding alone.

With a limit of 0.08, an allowance of a quarter of it and a patience of 5, residuals of 0.06 are found after 10 samples,
of 0.03 after 40, and those below 0.02 never.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Detector", "Watched", "Worsening"]

_CLIP = 2.0
_CHANGED = 1.0


@dataclass(frozen=True, slots=True)
class Watched:
    """What a detector remembers.

    Attributes:
        recent: the last residuals, as many as must be high in a row, at most.
        total: g, the cumulative sum.
        misses: residuals in a row that came from the forecast and not from the model.
    """

    recent: tuple[float, ...] = ()
    total: float = 0.0
    misses: int = 0


@dataclass(frozen=True, slots=True)
class Worsening:
    """What one residual says.

    Attributes:
        score: 1 or more is a change point.
        gradual: whether the cumulative sum made it, and not the residuals themselves.
    """

    score: float
    gradual: bool

    @property
    def changed(self) -> bool:
        """Whether the model no longer predicts.

        >>> Worsening(1.0, gradual=True).changed, Worsening(0.99, gradual=False).changed
        (True, False)
        """
        return self.score >= _CHANGED


@dataclass(frozen=True, slots=True)
class Detector:
    """The settings of a detector; its state goes in and comes out.

    Attributes:
        limit: residual that is too high, a share of slow records, > 0.
        in_a_row: how many residuals must be so.
        allowance: residual that a good model has; None: gradual change is not looked for.
        patience: limits that may add up.
    """

    limit: float = 0.08
    in_a_row: int = 1
    allowance: float | None = 0.02
    patience: float = 5.0

    def watch(self, residual: float, state: Watched) -> tuple[Worsening, Watched]:
        """The score with one more residual, a number ≥ 0.

        >>> detector, state = Detector(), Watched()
        >>> worsening, state = detector.watch(0.04, state)
        >>> worsening.score, round(state.total, 3)
        (0.5, 0.02)
        """
        recent = (*state.recent, residual)[-self.in_a_row :]
        abrupt = min(recent) / self.limit if len(recent) == self.in_a_row else 0.0
        total = state.total
        if self.allowance is not None:
            total = max(0.0, total + min(residual, _CLIP * self.limit) - self.allowance)
        slow = total / (self.patience * self.limit)
        return Worsening(max(abrupt, slow), gradual=slow > abrupt), Watched(recent, total, state.misses)

    def forecast_missed(self, residual: float, of_model: float) -> bool:
        """Whether a residual is high only because the workload was not the forecast one.

        Args:
            residual: measured − predicted for the forecast workload, absolute.
            of_model: measured − predicted for the measured workload, absolute.

        >>> Detector().forecast_missed(0.2, 0.01), Detector().forecast_missed(0.2, 0.19)
        (True, False)
        """
        return residual > self.limit >= of_model
