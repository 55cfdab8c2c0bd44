"""The capacity model and the small rules that several policies share.

**Capacity** (S1 Algorithm 1). As printed (``learn_from="arrival"``) it is one figure, ``w_max``: the running mean of
arrival ÷ n over overloaded samples. With a true capacity of 1000/s and a load of 5000/s it reads 2604 after four
violations.

Corrected (``learn_from="processed"``), the *speed* is learned, the records of a batch ÷ its executors' part, for each
number of executors, once for each batch. The driver's part f, in which a batch is planned and committed, is the same on
any number (:class:`Frame`). Tasks have a fixed part too, so the speed of a batch shorter than τ is a lower bound.
Where f is unknown it counts as 0, and the speed is the *busy rate* (:func:`busy_rate`). What n executors carry is what
their speed s(n) does in the rest of τ::

    C(n) = s(n) × (τ − f) ÷ τ           where a full batch is shorter than τ: cap ÷ (f + cap ÷ s(n))

* A sample above the limit *measures* the current target if the batch is long (τ ÷ 2 or more, or as large as the batch
  cap allows) and the slots are in use (busy ratio 0.5 or more, or unknown): a stall is not a lack of executors. A
  higher rate replaces the figure, a lower one enters the mean, in which the past weighs at most ``memory`` samples.
  So does the last batch if it was healthy, where the running one shows first that the objective may be missed.
* Of two healthy batches in a row the lesser rate is a *lower bound*; a measurement is raised only if three agree within
  a tenth. It raises a figure and never lowers it. So does any sample above the limit where nothing is known. A bound
  says that so many executors are enough, never that they are not (:meth:`Learned.limit`). The first batch of all gives
  one, too: executors that load their code and start Python show no capacity. By a bound alone an increase at most
  doubles the number (:meth:`Learned.enough_above`).
* A new figure C at n removes the figures at n' that cannot be true beside it: n' > n carries C to 2 C × n' ÷ n, n' < n
  carries C × n' ÷ n ÷ 2 to C (waves of tasks explain the factor of two). A lower bound for n' < n must be C × n' ÷ n,
  otherwise C says more about n' than the bound does. A new lower bound removes only figures that are too low.
  (These are rules on speeds.)
* A new figure that is more than 1.5 times, or less than two thirds, of what was expected at its number removes all
  figures that are older than an hour [ours]; those of an earlier run are doubtful (:mod:`rheostat.decide.trust`).

The speed is linear between two figures, and in proportion to n beyond them. Nothing is learned before the current
target has settled, nor where the batch cap limits the rate, nor while an executor is named slow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict

from rheostat.analyze.assess import IN_USE
from rheostat.analyze.batches import DRIVEN
from rheostat.config.models import FrozenModel
from rheostat.decide.policy import PolicyContext, cap_limits, current_target, has_finished, is_warm
from rheostat.decide.rates import busy_rate, last_batch_s
from rheostat.decide.trust import Trust, drop_old, is_jump
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.text import seconds

Measure = Literal["tasks", "batches"]

NOISE = 1.1
"""Rates whose ratio is at most this count as equal."""
NEAR = 0.9
"""A lag of this share of the objective is about to miss it."""
ROUNDING = 1e-9
MOST_EXECUTORS = 1_000_000

_IN_A_ROW = 3
_FOR_A_BOUND = 2
_LONG = 0.5
_WAVES = 2.0
_KEPT = 5
_TRIGGERS = 3
"""Trigger intervals in a row that are low before a decrease, however many samples they are."""
_FRAMES = 5
_MOST_DRIVEN = 0.98
"""Share of a batch that the driver's part counts for at most: what is left of it must show a speed."""
_SPIKE_S, _SPIKE_TIMES = 300.0, 3.0
"""How long a spike is remembered at least, s, and in times to catch up."""
_STARTS_S = 60.0
"""A backlog so soon after a new run has begun is what waited for it, s."""


class PolicyOptions(FrozenModel):
    """Options of a policy; the text below each one describes it."""

    model_config = ConfigDict(use_attribute_docstrings=True)


OptionsT = TypeVar("OptionsT", bound=BaseModel)
StateT = TypeVar("StateT")


class BuiltInPolicy(Generic[OptionsT, StateT]):
    """Base of the built-in policies: no guard step of its own, no presets, an empty first state, no capacity model.

    The types of its options and of its state are the parameters of the class.
    """

    self_managed_steps: ClassVar[frozenset[str]] = frozenset()
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    options_type: ClassVar[type[BaseModel]]
    state_type: type[StateT]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in vars(cls).get("__orig_bases__", ()):
            if get_origin(base) is BuiltInPolicy:
                cls.options_type, cls.state_type = get_args(base)

    def __init__(self, options: OptionsT, context: PolicyContext) -> None:
        self.options = options
        self.context = context

    def initial(self) -> StateT:
        return self.state_type()

    def capacity(self, executors: int, state: StateT) -> float | None:  # noqa: ARG002
        return None


# ---------------------------------------------------------------------------------- samples, intervals, counts


def valid_target(assessment: Assessment) -> int | None:
    """The current target; None where it is unknown, or a figure of the sample is missing or invalid."""
    return None if assessment.missing or assessment.invalid else current_target(assessment) or None


def propose_nothing(assessment: Assessment, needed: str) -> Recommendation:
    """No proposal, because the sample is not complete; ``needed`` is what the policy itself requires."""
    names = assessment.missing or assessment.invalid or (needed,)
    return Recommendation(None, Reason(ReasonCode.METRICS_MISSING, f"no proposal without: {', '.join(names)}"))


def due_in_s(at: float, last: float | None, every_s: float | None, early_s: float = 1e-6) -> float:
    """Time until an action that is due every ``every_s`` is due again, s; 0 where it is due now.

    It is always due with ``every_s`` None, or if it was never done (``last``); up to ``early_s`` too early it is due.

    >>> due_in_s(50.0, 0.0, 60.0), due_in_s(55.0, 0.0, 60.0, early_s=7.5), due_in_s(5.0, None, 60.0)
    (10.0, 0.0, 0.0)
    """
    if every_s is None or last is None:
        return 0.0
    left_s = last + every_s - at
    return 0.0 if left_s <= early_s else left_s


def count_surplus(streak: int, since: float, assessment: Assessment, required: int) -> tuple[int, float, bool]:
    """Samples in a row with a surplus, this one included, since when, and whether they are as many as ``required``.

    Ten samples within one trigger interval of 300 s are one low interval, not ten.

    >>> count_surplus(9, 0.0, Assessment(at=135.0, trigger_s=10.0), 10)
    (10, 0.0, True)
    >>> count_surplus(9, 0.0, Assessment(at=135.0, trigger_s=300.0), 10)
    (10, 0.0, False)
    """
    since = since if streak else assessment.at
    streak, waited_s = min(streak + 1, required), assessment.at - since
    lasts = required == 1 or waited_s >= _TRIGGERS * (assessment.trigger_s or 0.0)
    return streak, since, streak == required and lasts


def add_in_a_row(
    recent: tuple[float, ...], rate: float, noise: float = NOISE
) -> tuple[tuple[float, ...], float | None]:
    """The last three rates with a new one, and the least of the three if they agree within ``noise``; None: not yet.

    >>> add_in_a_row((100.0, 105.0), 102.0), add_in_a_row((100.0, 105.0, 102.0), 140.0)
    (((100.0, 105.0, 102.0), 100.0), ((105.0, 102.0, 140.0), None))
    """
    recent = (*recent, rate)[-_IN_A_ROW:]
    agree = len(recent) == _IN_A_ROW and max(recent) <= noise * min(recent)
    return recent, min(recent) if agree else None


def mean_with(mean: float, samples: int, new: float, memory: int | None) -> float:
    """The running mean with a new value, in which the past weighs at most ``memory`` samples; None: all."""
    weight = samples if memory is None else min(samples, memory - 1)
    return (mean * weight + new) / (weight + 1)


def round_up(number: float) -> int:
    """The smallest whole number ≥ 1 that is no less than ``number``, up to rounding errors; at most 1 000 000.

    >>> round_up(5.0000000001), round_up(5.001), round_up(0.0)
    (5, 6, 1)
    """
    return MOST_EXECUTORS if number >= MOST_EXECUTORS else max(1, math.ceil(number - ROUNDING))


# ------------------------------------------------------------------------------------------ the capacity model


@dataclass(frozen=True, slots=True)
class Frame:
    """What a batch consists of beside the work of the executors.

    Beyond four times what arrives the speed is of no use, as the driver takes three quarters of the batch then.

    Attributes:
        driver_s: f, time in which the driver plans and commits a batch, s.
        period_s: τ, time that a batch may take, s.
        cap: records of a full batch; None: no batch was full.
    """

    driver_s: float = 0.0
    period_s: float = 0.0
    cap: int | None = None

    def carried(self, speed: float) -> float:
        """Records/s that arrive and are worked off in time by executors of so many records/s.

        14 s of tasks on 4 executors are 7 s on 8, and the driver takes 6 s of either batch, of 14 000 records:

        >>> frame = Frame(driver_s=6.0, period_s=30.0, cap=14_000)
        >>> frame.carried(1000.0), round(14_000 / frame.carried(2000.0), 3)
        (700.0, 13.0)
        >>> Frame(driver_s=6.0, period_s=30.0).carried(1000.0), Frame(driver_s=35.0, period_s=30.0).carried(1000.0)
        (800.0, 250.0)
        """
        if not self.driver_s or not speed:
            return speed
        rate = speed * (1 - self.driver_s / self.period_s)
        if self.cap is not None:
            rate = min(rate, self.cap / (self.driver_s + self.cap / speed))
        return max(rate, (1 - DRIVEN) * speed)

    def speed_for(self, rate: float) -> float:
        """The least speed that carries this rate, records/s.

        >>> round(Frame(driver_s=6.0, period_s=30.0).speed_for(800.0)), Frame().speed_for(800.0)
        (1000, 800.0)
        """
        if not self.driver_s or rate <= 0:
            return rate
        rest = 1 - self.driver_s / self.period_s
        if self.cap is not None:
            rest = min(rest, 1 - rate * self.driver_s / self.cap)
        return rate / max(rest, 1 - DRIVEN)


@dataclass(frozen=True, slots=True)
class Figure:
    """The speed of so many executors together, records/s, learned last at a time (``at``).

    ``samples`` are the measurements in it; 0: it is a lower bound.
    """

    executors: int
    rate: float
    samples: int
    at: float


@dataclass(frozen=True, slots=True)
class Learned:
    """The capacity model.

    Attributes:
        w_max: mean of arrival ÷ n over ``samples`` overloaded samples, records/s; only as printed.
        figures: by ascending number of executors; empty: the capacity is unknown.
        recent: speeds of the last healthy batches in a row, at most three.
        batch_id: the batch that was learned from last.
        trust: which of the figures count. What they say is said by all of them: take ``trusted`` or ``best``.
        frame: of the last batches.
    """

    w_max: float | None = None
    samples: int = 0
    figures: tuple[Figure, ...] = ()
    recent: tuple[float, ...] = ()
    batch_id: int | None = None
    trust: Trust = field(default_factory=Trust)
    frame: Frame = field(default_factory=Frame)

    def carried(self, executors: int) -> float | None:
        """Capacity of a number of executors, records/s; None without figures.

        >>> Learned(figures=(Figure(2, 200.0, 1, 0.0), Figure(6, 480.0, 1, 0.0))).carried(4)
        340.0
        """
        speed = self.speed(executors)
        return None if speed is None else self.frame.carried(speed)

    def speed(self, executors: int) -> float | None:
        """Speed of a number of executors, records/s, on the line through the figures; None without figures."""
        n, rate = 0, 0.0
        for figure in self.figures:
            if executors <= figure.executors:
                return rate + (figure.rate - rate) * (executors - n) / (figure.executors - n)
            n, rate = figure.executors, figure.rate
        return rate * executors / n if self.figures else None

    def enough(self, rate: float) -> int | None:
        """The smallest n ≥ 1 that carries ``rate``; None without figures.

        >>> Learned(figures=(Figure(2, 200.0, 1, 0.0), Figure(6, 480.0, 1, 0.0))).enough(340.0)
        4
        """
        if not self.figures or rate <= 0:
            return 1 if self.figures else None
        rate = self.frame.speed_for(rate)
        n, below = 0, 0.0
        for figure in self.figures:
            if below < rate <= figure.rate:
                share = (rate - below) / (figure.rate - below)
                return max(1, math.ceil(n + share * (figure.executors - n) - ROUNDING))
            n, below = figure.executors, figure.rate
        return max(n, needed(rate, below / n))

    @property
    def trusted(self) -> Learned:
        """The model that justifies a decrease: without its doubtful figures."""
        return self if self.trust.since is None else replace(self, figures=self.trust.trusted(self.figures))

    @property
    def best(self) -> Learned:
        """The model that sizes an increase: with doubtful figures, while there are no others."""
        return self if self.trust.since is None else replace(self, figures=self.trust.best(self.figures))

    @property
    def measured(self) -> Learned:
        """The model without its lower bounds."""
        return replace(self, figures=tuple([each for each in self.figures if each.samples]))

    def limit(self, executors: int) -> float | None:
        """What a number of executors carries at most, records/s; None: only lower bounds are known.

        >>> Learned(figures=(Figure(2, 200.0, 0, 0.0),)).limit(2), Learned(figures=(Figure(2, 200.0, 1, 0.0),)).limit(2)
        (None, 200.0)
        """
        measured = self.measured.carried(executors)
        return None if measured is None else max(measured, self.carried(executors) or 0.0)

    def enough_above(self, rate: float, executors: int) -> int | None:
        """The number for an increase from ``executors``: by measurements, or at most twice as many by bounds alone.

        >>> bound, measured = Figure(2, 200.0, 0, 0.0), Figure(4, 400.0, 1, 0.0)
        >>> Learned(figures=(bound,)).enough_above(900.0, 2), Learned(figures=(bound, measured)).enough_above(900.0, 2)
        (4, 9)
        """
        enough = self.enough(rate)
        if enough is None:
            return None
        measured = self.measured.enough(rate)
        return min(enough, 2 * executors if measured is None else measured)

    def figure(self, executors: int) -> Figure | None:
        return next((each for each in self.figures if each.executors == executors), None)


def learn_arrival(assessment: Assessment, learned: Learned, memory: int | None) -> Learned:
    """Learn from an overloaded sample, Algorithm 1 as printed: an arrival rate w with n executors says w ÷ n."""
    if not assessment.arrival_rate or not assessment.executors:
        return learned
    each = assessment.arrival_rate / assessment.executors
    w_max = mean_with(learned.w_max or 0.0, learned.samples, each, memory)
    return replace(learned, w_max=w_max, samples=learned.samples + 1)


def learn_overload(assessment: Assessment, learned: Learned, memory: int | None) -> Learned:
    """Learn from an overloaded sample, Algorithm 1 corrected: a measurement, or a first lower bound."""
    was_healthy, learned, n = bool(learned.recent), replace(learned, recent=()), assessment.executors
    rate = _speed_to_learn(assessment, learned.frame)
    counted = _is_known(assessment, learned.batch_id) and not was_healthy
    skipped = cap_limits(assessment) or bool(assessment.slow_executors) or counted
    if not rate or not n or skipped:
        return learned
    learned = replace(learned, batch_id=assessment.last_batch_id, frame=follow_frame(learned.frame, assessment))
    if not learned.figures and assessment.batches > 0 and not is_warm(assessment):
        return _raise_bound(learned, n, rate, assessment)
    if not (in_use(assessment) and _is_long(assessment)):
        stalls = assessment.last_batch_records is None and not in_use(assessment)
        return learned if learned.figures or stalls else _raise_bound(learned, n, rate, assessment)
    before = learned.trusted.figure(n)
    count = 0 if before is None else before.samples
    mean = rate if before is None or rate >= before.rate else mean_with(before.rate, count, rate, memory)
    return _insert(learned, Figure(n, mean, count + 1, assessment.at))


def learn_healthy(assessment: Assessment, learned: Learned) -> Learned:
    """Learn from a healthy sample: a lower bound, from the last batches in a row."""
    n = assessment.executors
    if not n or assessment.slow_executors:
        return replace(learned, recent=())
    before = learned.trusted.figure(n)
    measured = before.rate if before is not None and before.samples else None
    rate = _speed_to_learn(assessment, learned.frame)
    recent, batch_id, bound = add_healthy(assessment, rate, learned.recent, learned.batch_id, measured=measured)
    frame = learned.frame if batch_id == learned.batch_id else follow_frame(learned.frame, assessment)
    learned = replace(learned, recent=recent, batch_id=batch_id, frame=frame)
    return learned if bound is None else _raise_bound(learned, n, bound, assessment)


def add_healthy(
    assessment: Assessment,
    rate: float | None,
    recent: tuple[float, ...],
    batch_id: int | None,
    *,
    measured: float | None,
) -> tuple[tuple[float, ...], int | None, float | None]:
    """The rates of the last healthy batches in a row, the batch added last, and a lower bound; None: none.

    Each batch counts once. A rate over a window counts only without an excess, as it belongs to no batch of its own.
    ``measured``: the figure of the present number, if it is a measurement: three rates that agree raise it, or those of
    two batches that are a jump, as after a cold one.
    """
    if not rate or (assessment.last_batch_records is None and assessment.backlog_excess):
        return (), batch_id, None
    if _is_known(assessment, batch_id):
        return recent, batch_id, None
    recent, agreed = add_in_a_row(recent, rate)
    least = min(recent) if len(recent) >= _FOR_A_BOUND else None
    jumps = assessment.last_batch_records is not None and least is not None and is_jump(least, measured)
    if measured is not None and not (jumps and (least or 0.0) > measured):
        return recent, assessment.last_batch_id, agreed
    return recent, assessment.last_batch_id, least


def _is_known(assessment: Assessment, batch_id: int | None) -> bool:
    """Whether the last batch has been learned from already: a batch counts once, however many samples show it."""
    return assessment.last_batch_id is not None and assessment.last_batch_id == batch_id


def in_use(assessment: Assessment) -> bool:
    """Whether the slots are busy for half of the executors' part of the time or more, as far as is known."""
    busy, driver_s, batch_s = assessment.busy_ratio, driver_part_s(assessment), assessment.last_batch_s
    return busy is None or busy >= IN_USE * (1 - driver_s / batch_s if batch_s else 1.0)


def _is_long(assessment: Assessment) -> bool:
    batch_s = last_batch_s(assessment)
    return bool(assessment.capped) or (batch_s is not None and batch_s >= _LONG * (assessment.period_s or math.inf))


def _raise_bound(learned: Learned, executors: int, rate: float, assessment: Assessment) -> Learned:
    before = learned.trusted.figure(executors)
    if rate <= (learned.trusted.speed(executors) or 0.0):
        return learned
    return _insert(learned, Figure(executors, rate, 0 if before is None else before.samples, assessment.at))


def _insert(learned: Learned, new: Figure) -> Learned:
    learned = weigh_figures(learned, new)
    kept = [each for each in learned.figures if _are_compatible(each, new)]
    return replace(learned, figures=tuple(sorted([*kept, new], key=lambda each: each.executors)))


def follow_run(learned: Learned, assessment: Assessment) -> Learned:
    """The model in the runs of this sample."""
    trust = learned.trust.follow(assessment)
    return learned if trust is learned.trust else replace(learned, trust=trust, recent=(), batch_id=None)


def weigh_figures(learned: Learned, new: Figure) -> Learned:
    """The model with the figures that stand beside a new one: what it says of doubtful ones, and of old ones."""
    trust, figures = learned.trust, learned.figures
    doubtful = replace(learned, figures=trust.doubtful(figures))
    confirmed = trust.confirms(new.rate, doubtful.speed(new.executors), measured=bool(new.samples))
    if confirmed is not None:
        learned = replace(learned, figures=figures if confirmed else trust.trusted(figures), trust=trust.settled())
    if is_jump(new.rate, learned.trusted.speed(new.executors)):
        return replace(learned, figures=drop_old(learned.figures, new.at))
    return learned


def _are_compatible(other: Figure, new: Figure) -> bool:
    """Whether both can be true.

    More executors carry no less, and each of them no more, up to waves of tasks; a lower bound yields to a better one.
    """
    share, ratio = other.executors / new.executors, other.rate / new.rate
    if share == 1:
        return False
    waves = _WAVES if other.samples else 1.0
    least, most = (1 / NOISE, share * _WAVES) if share > 1 else (share / waves, NOISE)
    return ratio >= least and (ratio <= most or not new.samples)


def needed(rate: float, capacity: float) -> int:
    """The smallest n ≥ 1 with n × capacity ≥ rate, up to rounding errors.

    >>> needed(5000, 1000), needed(5001, 1000), needed(0, 1000)
    (5, 6, 1)
    """
    return MOST_EXECUTORS if rate >= capacity * MOST_EXECUTORS else round_up(rate / capacity)


# ----------------------------------------------------------------------------------------- figures of a sample


def driver_part_s(assessment: Assessment) -> float:
    """The driver's part f of the last batch, s; 0: unknown, or of another batch than the records."""
    driver_s, batch_s = assessment.driver_s, assessment.last_batch_s
    if driver_s is None or not batch_s or assessment.last_batch_records is None:
        return 0.0
    return min(driver_s, _MOST_DRIVEN * batch_s)


def speed_shown(assessment: Assessment) -> float | None:
    """Records of the last batch ÷ its executors' part; None: unknown.

    >>> speed_shown(Assessment(at=0.0, last_batch_records=14_000, last_batch_s=20.0, driver_s=6.0))
    1000.0
    """
    rate, driver_s = busy_rate(assessment), driver_part_s(assessment)
    if not rate or not driver_s or not assessment.last_batch_s:
        return rate
    return rate * assessment.last_batch_s / (assessment.last_batch_s - driver_s)


def _speed_to_learn(assessment: Assessment, frame: Frame) -> float | None:
    """The speed shown; a rate over a window contains the driver's part already."""
    rate = speed_shown(assessment)
    return rate if rate is None or assessment.last_batch_records is not None else frame.speed_for(rate)


def follow_frame(past: Frame, assessment: Assessment) -> Frame:
    """The frame with one more batch: f is a mean in which the past weighs four batches, τ and cap are its own."""
    records, period_s = assessment.last_batch_records, assessment.period_s
    if records is None or not period_s:
        return past
    if assessment.driver_s is None and past.driver_s:
        return replace(past, period_s=period_s)
    driver_s = driver_part_s(assessment)
    if past.driver_s:
        driver_s = mean_with(past.driver_s, _FRAMES, driver_s, _FRAMES)
    cap = None if past.cap is None or records > past.cap else past.cap
    return Frame(driver_s, period_s, records if assessment.capped else cap)


def capacity_shown(assessment: Assessment) -> float | None:
    """Records/s that the executors carry by the last batch; None: unknown.

    >>> capacity_shown(Assessment(0.0, last_batch_records=14_000, last_batch_s=20.0, driver_s=6.0, period_s=30.0))
    800.0
    """
    speed = speed_shown(assessment)
    return speed if speed is None else follow_frame(Frame(), assessment).carried(speed)


def batch_speed(assessment: Assessment) -> float | None:
    """Records/s that batches process; None: unknown.

    Those of batches of τ, the driver's part of each included: where batches run back to back, the records ÷ duration of
    a shorter one are what has arrived. Only where they are clearly less do batches grow, and the last one counts.
    """
    shown, arrival = _find_speed(assessment, busy_rate(assessment), Frame()), assessment.arrival_rate
    if shown is None or (arrival and shown * NOISE < arrival):
        return shown
    return _find_speed(assessment, capacity_shown(assessment), follow_frame(Frame(), assessment))


def _find_speed(assessment: Assessment, speed: float | None, frame: Frame) -> float | None:
    """The speed that the last batch has shown, if it was not too short for that; None: unknown.

    A short batch is mostly its fixed part: one record in 0.7 s does not mean that a thousand take 700 s. A batch with
    fewer records than arrived while it ran, but no fewer than by chance, is as fast as they arrive. A running batch
    that is already long shows a speed of no more than its records ÷ its age, unless no task runs in it now.

    >>> short = Assessment(at=0.0, arrival_rate=10.0, last_batch_records=9, last_batch_s=1.2, period_s=2.0)
    >>> short = replace(short, trigger_s=1.0, spread=11.4)
    >>> batch_speed(short), batch_speed(replace(short, arrival_rate=30.0))
    (10.0, 7.5)
    """
    records, last_s, batch_s = assessment.last_batch_records, assessment.last_batch_s, assessment.batch_s
    period_s = assessment.period_s or math.inf
    # half of τ, or back to back with what is a fair part of it
    shows_s = min(_LONG * period_s, max(assessment.trigger_s or 0.0, _LONG * _LONG * period_s))
    if records is not None and last_s and last_s < shows_s and not assessment.capped:
        speed = None
    arrived = (assessment.arrival_rate or 0.0) * (last_s or 0.0)
    if speed is not None and records is not None and records < arrived <= records + assessment.spread:
        speed = max(speed, assessment.arrival_rate or 0.0)
    works = assessment.running and assessment.active_tasks != 0
    runs_s = batch_s if works and batch_s and batch_s > (last_s or 0.0) else 0.0
    if assessment.in_flight and runs_s and runs_s >= shows_s and runs_s > frame.driver_s:
        return min(frame.carried(assessment.in_flight / (runs_s - frame.driver_s)), speed or math.inf)
    return speed


def expected_wait(assessment: Assessment) -> float | None:
    """Time to process the backlog in batches like the last ones, s; None: unknown.

    >>> expected_wait(Assessment(at=0.0, backlog=3000, processed_rate=200.0, batch_s=1.0, trigger_s=2.0))
    7.5
    >>> expected_wait(Assessment(at=0.0, backlog=12_500, last_batch_records=100_000, last_batch_s=40.0))
    5.0
    """
    backlog, speed = assessment.backlog, _find_speed(assessment, busy_rate(assessment), Frame())
    if speed is None and (backlog or 0) <= (assessment.last_batch_records or 0):
        speed = busy_rate(assessment)
    return None if backlog is None or not speed else backlog / speed


def may_miss(assessment: Assessment, lag_s: float, ahead_s: float) -> bool:
    """Whether the objective, a lag, is missed or nearly so within ``ahead_s`` if everything goes on as it is.

    The greater of lag and expected wait counts, with arrival ÷ speed − 1 more for each second ahead. A backlog that is
    gone in time is no reason for more executors, however large a share it is of what arrives. An excess that nobody
    knows the speed for may miss it.

    >>> spike = Assessment(at=0.0, arrival_rate=5e3, backlog=300_000, last_batch_records=300_000, last_batch_s=40.0)
    >>> may_miss(replace(spike, lag_s=6.0, period_s=30.0), 60.0, 120.0)
    False
    """
    if busy_rate(assessment) is None and assessment.backlog_excess:
        return True
    arrival, speed, wait_s = assessment.arrival_rate, batch_speed(assessment), expected_wait(assessment)
    growth = max(0.0, arrival / speed - 1) if arrival and speed else 0.0
    return max(_waited(assessment) or 0.0, wait_s or 0.0) + growth * ahead_s >= NEAR * lag_s


def find_miss(assessment: Assessment, lag_s: float) -> str | None:
    """That the worst partition has missed the objective, a lag, and lags behind still, in words."""
    lag = _waited(assessment)
    if lag is None or lag < lag_s or not assessment.backlog:
        return None
    return f"lag {seconds(lag)} ≥ {seconds(lag_s)}"


def _waited(assessment: Assessment) -> float | None:
    return assessment.lag_s if assessment.waited_s is None else assessment.waited_s


def is_at_limit(assessment: Assessment, lag_s: float, ahead_s: float) -> bool:
    """Whether batches as long as they are mean that the job is at its limit: one long batch alone does not.

    That is so where the speed is unknown, where nearly as much arrives as is processed at that speed, or where the
    objective may be missed.
    """
    arrival, speed = assessment.arrival_rate or 0.0, batch_speed(assessment)
    return speed is None or arrival >= NEAR * speed or may_miss(assessment, lag_s, ahead_s)


class Spike(NamedTuple):
    """The largest backlog beyond a healthy one that was worked off in time, and when; 0: none.

    ``overloaded``: the present backlog is that of an overload.
    """

    at: float
    backlog: int
    overloaded: bool = False


def follow_spike(assessment: Assessment, past: Spike | None, ahead_s: float) -> Spike | None:
    """The spike to be ready for: load that comes in bursts comes again, so a decrease must carry the next one too.

    What an overload, or the time before a new run, has piled up says nothing about the load: only a backlog beside a
    speed well above the arrival rate begins a spike; an overload ends it, and none begins until that backlog is gone. A
    spike is remembered for three times ``ahead_s``, the time to catch up, and for no less than five minutes: to be
    ready for longer costs more than to be late once.

    >>> burst = Assessment(at=0.0, backlog=900, backlog_excess=800.0, last_batch_records=400, period_s=15.0)
    >>> spike = follow_spike(replace(burst, arrival_rate=10.0, last_batch_s=10.0), None, 120.0)
    >>> spike, [follow_spike(Assessment(at=at, backlog=0), spike, 120.0) is None for at in (360.0, 361.0)]
    (Spike(at=0.0, backlog=900, overloaded=False), [False, True])
    >>> overload = follow_spike(replace(burst, arrival_rate=60.0, last_batch_s=10.0), None, 120.0)
    >>> follow_spike(replace(burst, arrival_rate=10.0, last_batch_s=10.0), overload, 120.0)
    Spike(at=0.0, backlog=0, overloaded=True)
    """
    remembered_s = max(_SPIKE_S, _SPIKE_TIMES * ahead_s)
    known = 0 if past is None or assessment.at - past.at > remembered_s else past.backlog
    backlog, beyond = assessment.backlog or 0, bool(assessment.backlog_excess)
    arrival, speed = assessment.arrival_rate or 0.0, batch_speed(assessment)
    at_limit = speed is not None and arrival >= NEAR * speed
    ran_s = math.inf if assessment.run_since is None else assessment.at - assessment.run_since
    starts = ran_s <= max(_STARTS_S, _TRIGGERS * (assessment.trigger_s or 0.0))
    if beyond and (at_limit or starts or (past is not None and past.overloaded)):
        return Spike(assessment.at, 0, overloaded=True)
    begins = beyond and speed is not None and arrival < speed / _WAVES
    if backlog >= known / NOISE if known else begins:
        return Spike(assessment.at, max(backlog, known))
    return past if known else None


def spike_rate(past: Spike | None, lag_s: float, trigger_s: float | None) -> float:
    """Records/s that work the spike off before the objective, a lag, is nearly missed; 0 without one.

    Its first records wait for up to a trigger interval before they are planned.

    >>> spike_rate(Spike(0.0, 8800), 60.0, 10.0)
    200.0
    """
    return 0.0 if past is None else past.backlog / max(NEAR * lag_s - (trigger_s or 0.0), lag_s / 2)


def slow_records(excess: float, arrival_rate: float, interval_s: float) -> float:
    """Late records as a share of those that arrive in T: excess ÷ (arrival rate × T).

    >>> slow_records(300, 200, 15), slow_records(0, 0, 15), slow_records(1, 0, 15)
    (0.1, 0.0, inf)
    """
    if excess <= 0:
        return 0.0
    arrived = arrival_rate * interval_s
    return excess / arrived if arrived > 0 else math.inf


def usage(assessment: Assessment) -> float | None:
    """The greater of occupancy and busy ratio.

    Where the busy ratio is unknown, batch ÷ trigger stands for it: slots are busy only while a batch runs. None where
    neither is known, or the occupancy is not: with short triggers the busy ratio alone stays low under full load.
    """
    slots = assessment.busy_ratio
    if slots is None and assessment.trigger_s and assessment.batch_s is not None:
        slots = assessment.batch_s / assessment.trigger_s
    return None if slots is None or assessment.occupancy is None else max(slots, assessment.occupancy)


def busy_share(assessment: Assessment, measure: Measure) -> float | None:
    """Busy time ÷ time, in [0, 1]; None: unknown.

    ``tasks``: the share of slot time in tasks, over the rate window: what a record-at-a-time engine calls busy. A
    micro-batch job does not reach 1: while the driver plans and commits, or the last wave is thin, slots are free that
    no record could use. ``batches``: batch ÷ max(trigger, batch), of the last batch. At 1 the next batch cannot start
    in time.

    >>> assessment = Assessment(at=0.0, busy_ratio=0.5, batch_s=6.0, trigger_s=10.0)
    >>> busy_share(assessment, "tasks"), busy_share(assessment, "batches")
    (0.5, 0.6)
    """
    if measure == "tasks":
        return assessment.busy_ratio
    if not assessment.batch_s:
        return 0.0 if assessment.idle else None
    return assessment.batch_s / max(assessment.trigger_s or 0.0, assessment.batch_s)


# ------------------------------------------------------------------------------------- how long a change takes


@dataclass(frozen=True, slots=True)
class Recovery:
    """Progress of the last change.

    Attributes:
        executors: the current target, since a time; None: no sample yet.
        grew: whether it is more than the target before it.
        ready: whether it was ready once.
        recovered: whether the job has recovered from the change, or the wait for that has expired.
        took_s: how long the last increases took until they were ready, the latest last; at most five.
    """

    executors: int | None = None
    since: float = 0.0
    grew: bool = False
    ready: bool = False
    recovered: bool = False
    took_s: tuple[float, ...] = ()


def ready(assessment: Assessment, executors: int) -> bool:
    """Whether so many executors are registered, and have finished a batch where there is one to expect."""
    return assessment.executors == executors and has_finished(assessment, 1)


def follow_recovery(assessment: Assessment, executors: int, past: Recovery, hold_s: float) -> Recovery:
    """The recovery with one more complete sample; ``hold_s`` is the longest wait for a recovery."""
    if executors != past.executors:
        grew = past.executors is not None and executors > past.executors
        past = Recovery(executors=executors, since=assessment.at, grew=grew, took_s=past.took_s)
    if past.recovered:
        return past
    is_ready = ready(assessment, executors)
    if is_ready and not past.ready:
        took_s = (*past.took_s, assessment.at - past.since)[-_KEPT:] if past.grew else past.took_s
        past = replace(past, ready=True, took_s=took_s)
    calm = past.ready and is_ready and assessment.backlog_excess == 0
    return replace(past, recovered=calm or assessment.at - past.since >= hold_s)


def rescale_s(past: Recovery) -> float:
    """The longest of the last increases, s; 0 before the first."""
    return max(past.took_s, default=0.0)
