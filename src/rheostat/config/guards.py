"""The settings of the guard pipeline, each with its meaning, its unit and why it has its default."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from rheostat.config.fields import FrozenModel, documented, reject
from rheostat.errors import Fault

__all__ = ["AlignTo", "GuardSettings"]

AlignTo = Literal["nothing", "waves", "partitions", "state"]


class GuardSettings(FrozenModel):
    """What shapes every recommendation, whichever policy made it."""

    max_age_cycles: float = documented(
        "Figures older than this many sample periods are stale: the number of executors is held.",
        "one late reading is normal, two in a row mean that we no longer see the job",
        default=2.0,
        unit="sample periods",
        ge=1,
        le=1000,
    )
    metrics_delay_s: float = documented(
        "How old figures are known to be, all of them; max_age_cycles counts beyond it.",
        "Spark's driver is asked directly; figures that come through a metrics system may be minutes old",
        default=0.0,
        unit="s",
        ge=0,
        le=3600,
    )
    warm_up_s: float = documented(
        "No decrease until a query has run this long.",
        "batches tell how warm a job is better than seconds do, see warm_up_batches",
        default=0.0,
        unit="s",
        ge=0,
        le=86_400,
    )
    warm_up_batches: int = documented(
        "No decrease until this many batches have finished since the query started or the number of executors changed.",
        "the first batch on new executors is cold and says little about their capacity",
        default=2,
        unit="batches",
        ge=0,
        le=1000,
    )
    hold_s: float | None = documented(
        "Hold after a change of executors; null: hold until hold_batches have finished.",
        "the job itself shows when it has recovered; S1 waits a fixed 240 s",
        default=None,
        unit="s",
        ge=0,
        le=86_400,
    )
    hold_batches: int = documented(
        "With hold_s null: hold until this many batches that began at the new number have finished.",
        "one cold batch is what a change costs when executors join a running query",
        default=1,
        unit="batches",
        ge=0,
        le=1000,
    )
    hold_fallback_s: float = documented(
        "With hold_s null: the hold ends after this time even if no batch has finished.",
        "the hold of S1, so that ours never lasts longer than the published one",
        default=240.0,
        unit="s",
        ge=0,
        le=86_400,
    )
    hold_both: bool = documented(
        "Whether the hold blocks increases too. False: it blocks decreases only.",
        "a surge must get through; S1 makes no decision at all during its hold",
        default=False,
    )
    largest_step_up: int | None = documented(
        "The largest increase by one decision; null: no limit.",
        "a surge that needs five executors needs them now, and the bounds limit the cost",
        default=None,
        unit="executors",
        ge=1,
        le=100_000,
    )
    largest_step_down: int | None = documented(
        "The largest decrease by one decision; null: no limit.",
        "one at a time, as in S1: a wrong decrease costs little before it is noticed",
        default=1,
        unit="executors",
        ge=1,
        le=100_000,
    )
    cooldown_up_s: float = documented(
        "Least time between a change and the next increase.",
        "none, as in S1: waiting under a rising load only builds backlog",
        default=0.0,
        unit="s",
        ge=0,
        le=86_400,
    )
    cooldown_down_s: float = documented(
        "Least time between a change and the next decrease.",
        "four sample periods: the effect of a change is seen before an executor is given back",
        default=60.0,
        unit="s",
        ge=0,
        le=86_400,
    )
    failure_window_s: float = documented(
        "No decrease while tasks have failed within this time; 0: failures are not looked at.",
        "four sample periods: retried tasks distort rates and batch times for about as long",
        default=60.0,
        unit="s",
        ge=0,
        le=86_400,
    )
    catching_up: bool = documented(
        "Whether decreases are blocked while there is more backlog than a healthy job has.",
        "the executors that work off a backlog are needed until it is gone",
        default=True,
    )
    no_room_backoff_s: float = documented(
        "After a request that the cluster did not grant: time without increases; it doubles with each one in a row.",
        "a full cluster rarely frees up within seconds, and asking costs nothing but log lines",
        default=60.0,
        unit="s",
        ge=0,
        le=86_400,
    )
    no_room_backoff_max_s: float = documented(
        "Where the doubling of no_room_backoff_s ends.",
        "ten minutes: room that has appeared is not left unused for longer",
        default=600.0,
        unit="s",
        ge=0,
        le=86_400,
    )

    failover: bool = documented(
        "Whether a region's traffic is away: no decrease until it is back. Also a switch of a running job.",
        "only people, or their tools, know of a failover; increases go on",
        default=False,
    )
    failover_return_s: float = documented(
        "No decrease for this long after `failover` was switched off.",
        "traffic comes back over minutes, and the executors are there for it",
        default=300.0,
        unit="s",
        ge=0,
        le=86_400,
    )
    tolerance: float = documented(
        "A change of at most this share of the number in force is not made; 0: every change is.",
        "one executor in twenty is worth having; the Horizontal Pod Autoscaler has 0.1 on its metric, and brings it",
        default=0.0,
        unit="share",
        ge=0,
        le=1,
    )
    align_to: AlignTo = documented(
        "What the number is aligned to: waves of tasks over the partitions, an even share of the partitions, or of the "
        "state's partitions.",
        "the read stage is not always the one that counts; worth trying where it is, or where state is large",
        default="nothing",
    )
    align_most: float = documented(
        "The most that alignment adds, as a share of the number wanted; where it would take more, nothing is added.",
        "3 executors go to 4 where that takes each slot from two partitions to one; 51 never go to 100",
        default=0.34,
        unit="share",
        ge=0,
        le=1,
    )
    state_partitions: int = documented(
        "With align_to state: the number of state partitions, `spark.sql.shuffle.partitions` of the first start.",
        "the default of Spark",
        default=200,
        unit="partitions",
        ge=1,
        le=1_000_000,
    )
    most_partitions: float | None = documented(
        "No decrease to where a slot has more partitions than this; null: no limit.",
        "memory grows with the partitions of an executor, but how much is known by nobody but you",
        default=None,
        unit="partitions",
        gt=0,
        le=1_000_000,
    )
    batch_cap: bool = documented(
        "Whether increases are blocked while the batch cap (maxOffsetsPerTrigger), not the executors, limits the rate.",
        "full batches that end before their trigger are no faster with more executors",
        default=True,
    )
    sick_sink: bool = documented(
        "Whether increases are blocked while batches wait for their sink.",
        "executors that wait for the sink cost money and help nobody; the reason says what to look at",
        default=True,
    )
    replace_slow: bool = documented(
        "Whether a slow executor is replaced: one more comes, and then the slow one goes.",
        "slow is a suspicion from outside, and where nodes are not known a new executor may come to the same slow one",
        default=False,
    )
    scale_down_hold_s: float = documented(
        "A decrease goes no lower than the most that was proposed within this time; 0: not looked at.",
        "the policies that need it bring it; it would delay each decrease of the others",
        default=0.0,
        unit="s",
        ge=0,
        le=86_400,
    )
    round_trip_cooldowns: float = documented(
        "Least time between an increase and the next decrease, as a multiple of cooldown_down_s.",
        "up and down again within two cooldowns pays for two changes and wins nothing",
        default=2.0,
        unit="cooldowns",
        ge=0,
        le=1000,
    )
    quota_cores: int | None = documented(
        "Most cores of all executors together; null: no quota.",
        "the bounds are in executors; a quota is in cores, and often somebody else's",
        default=None,
        unit="cores",
        ge=1,
        le=10_000_000,
    )
    ineffective_share: float | None = documented(
        "Least share of the rate that an increase promised, (after ÷ before − 1) of the rate before; one that brought "
        "less is undone once, and none is made for ineffective_s; null: not looked at.",
        "beyond noise and sublinear scaling: something else than executors limits the job",
        default=0.3,
        unit="share",
        gt=0,
        le=1,
    )
    ineffective_s: float = documented(
        "How long an increase that brought nothing is remembered.",
        "ten minutes: what limits the job may have changed, and trying costs one change",
        default=600.0,
        unit="s",
        ge=0,
        le=604_800,
    )
    rescale_catch_up_lags: float | None = documented(
        "Time to work off what a change itself adds to the lag, which is part of the size and of whether to wait; "
        "null: the cost of a change is not looked at.",
        "as the policy reactive has; a change that is measured as cheap changes nothing",
        default=2.0,
        unit="lags of the objective",
        gt=0,
        le=10_000,
    )

    @model_validator(mode="after")
    def _back_off_grows(self) -> Self:
        if self.no_room_backoff_max_s < self.no_room_backoff_s:
            allowed = f"≥ no_room_backoff_s ({self.no_room_backoff_s:g})"
            message = "the back-off would start above its own end"
            raise reject([Fault("no_room_backoff_max_s", f"{self.no_room_backoff_max_s:g}", allowed, message)])
        return self
