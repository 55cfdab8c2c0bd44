"""Changes that are answered by failures: taken back, and not made again for a back-off that grows.

A decrease is answered by executors that die at two readings, a twentieth of them at least, or by tasks that fail, soon
after it: fewer share state and memory. An increase is answered by tasks that fail: what they write to does not take so
many. Tasks that failed before the change do not speak against it. What fails again at the number that a change was
taken back to leads to the number before the first of the changes that followed each other. After the back-off half of
the change is tried, so that the number at which failures begin is found.
"""

from __future__ import annotations

from typing import NamedTuple

from rheostat.decide.policy import FAILED_SHARE, tasks_fail
from rheostat.model import Assessment
from rheostat.text import percent, several

ANSWER_S = 1200.0
"""Deaths and failures so long after a decrease are its answer; after a shorter quiet time, it must come as soon."""

_UP_ANSWER_S = 300.0
"""What does not take so many connections refuses them at once."""

_FIRST_S, _MOST_S = 600.0, 21_600.0


class Watch(NamedTuple):
    """A change whose answer is waited for.

    Attributes:
        first: the number before the first of the changes that followed each other within ANSWER_S; ``after`` is on the
            same side of it as of ``before``.
        window_s: how long an answer is waited for.
        failing: whether tasks failed already before.
        deaths: readings at which executors had died since; one is chance.
        lost: how many had died then.
    """

    before: int
    after: int
    first: int
    at: float
    window_s: float = ANSWER_S
    failing: bool = False
    deaths: int = 0
    lost: int = 0

    @property
    def up(self) -> bool:
        return self.after > self.before

    def count_lost(self, at: float, lost: int) -> Watch:
        """The watch with executors that died; those after its window are no answer."""
        if not lost or not self.at < at <= self.at + self.window_s:
            return self
        return self._replace(deaths=self.deaths + 1, lost=self.lost + lost)


class Refused(NamedTuple):
    """A change that was answered by failures.

    Attributes:
        at: when they were seen.
        backoff_s: how long it is not made again.
        why: the failures, in words.
        undone: whether it has been taken back, or need not be any more.
    """

    before: int
    after: int
    first: int
    at: float
    backoff_s: float
    why: str
    undone: bool = False

    @property
    def up(self) -> bool:
        return self.after > self.before

    @property
    def until(self) -> float:
        return self.at + self.backoff_s

    def expired(self, at: float) -> Refused:
        """With a back-off that is over at this time."""
        return self._replace(at=min(self.at, at - self.backoff_s))

    @property
    def halfway(self) -> int:
        """What is tried when the back-off is over: half of the change, one at least."""
        half = max(1, abs(self.after - self.before) // 2)
        return self.before + half if self.up else self.before - half


def start_watch(
    before: int, after: int, at: float, past: Watch | None, *, failing: bool, lost_at: float | None
) -> Watch:
    """The watch of a change from ``before`` to ``after``; ``past``: the watch until then, which may go on.

    It does not where a part of a decrease is taken back after the lower number has stood well: what fails then has come
    with the increase.
    """
    follows = past is not None and past.after == before and at - past.at <= ANSWER_S and after != past.first
    stood = past is not None and not (failing or past.deaths) and at - past.at >= _UP_ANSWER_S
    follows = follows and not (stood and after > before)
    if past is not None and follows and (after > past.first) is past.up:
        goes_on = (after > before) is past.up
        return past._replace(before=before if goes_on else past.first, after=after, at=at)
    if after > before:
        return Watch(before, after, before, at, _UP_ANSWER_S, failing)
    return Watch(before, after, before, at, ANSWER_S if lost_at is None else min(ANSWER_S, at - lost_at), failing)


def watch_again(refused: Refused, at: float) -> Watch | None:
    """The watch of a number that a change was taken back to; None where that was the first one."""
    if refused.before == refused.first:
        return None
    window_s = _UP_ANSWER_S if refused.up else ANSWER_S
    return Watch(refused.first, refused.before, refused.first, at, window_s, deaths=1)


def find_answer(watch: Watch, assessment: Assessment, failure_window_s: float) -> str | None:
    """The failures that answer a change, in words; None: none so far. Failed tasks must all be of after the change."""
    died = watch.deaths > 1 and watch.lost >= FAILED_SHARE * watch.after
    if not watch.up and assessment.lost_executors and died and assessment.at - watch.at <= watch.window_s:
        return "executors died again and again"
    if watch.failing or not failure_window_s or assessment.at - watch.at < failure_window_s:
        return None
    if not tasks_fail(assessment):
        return None
    ended, failed = assessment.ended_tasks, assessment.failed_tasks or 0
    return f"{percent(failed / ended)} of the tasks failed" if ended else f"{several(failed, 'task')} failed"


def refuse(watch: Watch, at: float, why: str, past: Refused | None) -> Refused:
    """The change as one that is not made again for a while: twice as long as the last time, if that one was over."""
    backoff_s = _FIRST_S
    if past is not None:
        backoff_s = past.backoff_s if at <= past.until else min(2 * past.backoff_s, _MOST_S)
    return Refused(watch.before, watch.after, watch.first, at, backoff_s, why)


def stand(refused: Refused | None, watch: Watch) -> Refused | None:
    """What is left of a refused change when this one has had no answer: the rest of it, or nothing."""
    if refused is None or (watch.after >= refused.after if watch.up else watch.after <= refused.after):
        return None
    lies_between = watch.after > refused.before if watch.up else watch.after < refused.before
    return refused._replace(before=watch.after, undone=True) if lies_between else refused


def describe(refused: Refused) -> str:
    """The change and its answer.

    >>> describe(Refused(6, 5, 6, 0.0, 600.0, "executors died again and again"))
    '6 → 5 was answered by failures (executors died again and again)'
    """
    return f"{refused.before} → {refused.after} was answered by failures ({refused.why})"
