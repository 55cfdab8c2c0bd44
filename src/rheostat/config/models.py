"""The settings, each with its meaning, its unit and why it has its default.

The meaning of a field and the reason for its default stand in the field itself: the reference page and the error
messages are made from them. All models are frozen and reject unknown keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from rheostat.config.fields import FrozenModel, documented, reject
from rheostat.config.policy_names import with_preset
from rheostat.config.profiles import with_profile
from rheostat.errors import Fault, InputError
from rheostat.model import Bounds, Objective

__all__ = ["GuardSettings", "Mode", "Settings", "WorkersSettings"]

Mode = Literal["act", "watch", "dry-run"]


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

    @model_validator(mode="after")
    def _back_off_grows(self) -> Self:
        if self.no_room_backoff_max_s < self.no_room_backoff_s:
            allowed = f"≥ no_room_backoff_s ({self.no_room_backoff_s:g})"
            message = "the back-off would start above its own end"
            raise reject([Fault("no_room_backoff_max_s", f"{self.no_room_backoff_max_s:g}", allowed, message)])
        return self


class WorkersSettings(FrozenModel):
    """The cluster layer, for the actuator ``workers``."""

    nodes: tuple[str, ...] = documented(
        "Addresses of the node servers, `http://HOST:PORT`; see [node.md](node.md).",
        "nobody knows where your machines are",
        default=(),
    )
    backup: int = documented(
        "Hot standby: Workers that are registered and not used, over all nodes.",
        "the standby of S1; an executor that is asked for starts at once on a Worker that is there",
        default=2,
        unit="Workers",
        ge=0,
        le=1000,
    )
    token_file: Path | None = documented(
        "File with the token that the node servers ask for; null: the variable RHEOSTAT_NODE_TOKEN, if it is set.",
        "a secret does not stand in a settings file, nor in the journal",
        default=None,
        strict=False,
    )
    timeout_s: float = documented(
        "A node server that has not answered by then is left alone for a while.",
        "an answer takes milliseconds, and an increase waits for it at most so long",
        default=2.0,
        unit="s",
        ge=0.1,
        le=60,
    )
    every_s: float = documented(
        "Time between two looks at the standby while the number of executors stays.",
        "a Worker that was lost is missed only at the next increase, and asking costs a request a node",
        default=15.0,
        unit="s",
        ge=1,
        le=3600,
    )

    @field_validator("nodes", mode="before")
    @classmethod
    def _list_is_a_tuple(cls, given: Any) -> Any:
        return tuple(given) if isinstance(given, list) else given

    @field_validator("nodes")
    @classmethod
    def _addresses_are_understood(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        allowed = "http://HOST:PORT or https://HOST:PORT, each once"
        wrong = [address for address in given if not _is_address(address) or given.count(address) > 1]
        if wrong:
            message = "this is no address of a node server, or it stands there twice"
            raise reject([Fault("", address, allowed, message) for address in wrong])
        return given


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return known and not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)


class Settings(FrozenModel):
    """Everything that can be set for one job.

    Built by :func:`rheostat.config.load_settings`, which reports every fault at once as an ``InputError``;
    building it directly raises pydantic's ``ValidationError``.
    """

    objective: str = Field(
        description="What is to hold: `lag < DURATION [for PERCENT%]`, percent of the time, 99 unless said.",
        json_schema_extra={"why": "nobody but you knows how late a result may be", "unit": ""},
    )
    executors: tuple[int, int] | None = documented(
        "Least and greatest number of executors, `[least, greatest]`; null: watch only.",
        "nothing is scaled unless somebody has said how far",
        default=None,
        unit="executors",
    )
    mode: Mode = documented(
        "act: scale; dry-run: decide and record, change nothing; watch: observe and assess only. "
        "Left out, it is act with bounds in `executors` and watch without.",
        "giving bounds means that they may be used",
        default="watch",
    )
    profile: Literal["default", "demo", "faithful"] = documented(
        "A named set of values for the other keys, which override it.",
        "meant for production; demo is for runs of minutes, faithful has the constants of S1 and no guard of ours",
        default="default",
    )
    sample_s: float = documented(
        "Time between two looks at the job; each look makes one decision.",
        "the check interval of S1 in exploration",
        default=15.0,
        unit="s",
        ge=0.2,
        le=3600,
    )
    rate_window_s: float = documented(
        "Time over which rates and the busy share are averaged.",
        "four sample periods: smooths single batches, follows a rise within a minute",
        default=60.0,
        unit="s",
        ge=1,
        le=86_400,
    )
    policy: str = documented(
        "Name of a registered policy, or `NAME:PRESET`: with the option `preset`, as in `hpa:faithful`.",
        "needs no history of the job; corrects a surplus or a violation within minutes",
        default="reactive",
        min_length=1,
    )
    policy_options: Mapping[str, Any] = documented(
        "Options of that policy, checked by the policy itself.",
        "every policy has defaults of its own",
        default={},
    )
    preset: Literal["default", "faithful"] = documented(
        "Which defaults the policy takes: ours, or those of the paper that it comes from.",
        "the corrections to the papers are there for a reason; faithful is for comparisons",
        default="default",
    )
    queries: tuple[str, ...] | None = documented(
        "Names or ids of the streaming queries to look after; null: all of the session.",
        "the queries of a session share its executors",
        default=None,
    )
    allow_redone_work: bool = documented(
        "Whether an executor may be removed although its running tasks or map output must then be computed again.",
        "a decrease is never urgent enough to throw work away unasked",
        default=False,
    )
    journal: Path | None = documented(
        "Folder of the journal; null: no journal is written.",
        "files are written only where somebody wants them",
        default=None,
        strict=False,
    )
    state: Path | None = documented(
        "Folder of the state that survives a restart of the driver; null: beside the journal, if there is one.",
        "one folder to keep for one job",
        default=None,
        strict=False,
    )
    actuator: Literal["executors", "workers"] = documented(
        "executors: change the executors of the application; workers: and with them the Workers of the cluster, "
        "through node servers, with some in hot standby.",
        "most clusters have Workers that stay",
        default="executors",
    )
    workers: WorkersSettings = documented(
        "The cluster layer, see below; for the actuator workers.",
        "see each key below",
        default=WorkersSettings(),
    )
    guard: GuardSettings = documented(
        "What shapes every recommendation, see below.",
        "see each key below",
        default=GuardSettings(),
    )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        """The values of the profile, overridden by what was given; then the mode that follows from the bounds."""
        if not isinstance(given, Mapping):
            return given
        values = with_profile(with_preset(given))
        if values.get("mode") is None:
            values["mode"] = "watch" if values.get("executors") is None else "act"
        return values

    @field_validator("objective")
    @classmethod
    def _objective_is_understood(cls, text: str) -> str:
        try:
            Objective.parse(text)
        except InputError as error:
            raise reject([Fault("", f.given, f.allowed, f.message) for f in error.faults]) from None
        return text

    @field_validator("executors", "queries", mode="before")
    @classmethod
    def _list_is_a_tuple(cls, given: Any) -> Any:
        return tuple(given) if isinstance(given, list) else given

    @field_validator("journal", "state")
    @classmethod
    def _path_can_exist(cls, given: Path | None) -> Path | None:
        if given is not None and "\0" in str(given):
            raise reject([Fault("", repr(str(given)), "a path without NUL characters", "no system has such a path")])
        return given

    @field_validator("executors")
    @classmethod
    def _bounds_hold(cls, given: tuple[int, int] | None) -> tuple[int, int] | None:
        try:
            if given is not None:
                Bounds(*given)
        except InputError as error:
            raise reject([Fault("", f.given, f.allowed, f.message) for f in error.faults]) from None
        return given

    @model_validator(mode="after")
    def _acting_needs_bounds(self) -> Self:
        if self.executors is None and self.mode != "watch":
            message = f"mode {self.mode} needs bounds"
            raise reject([Fault("executors", "nothing", "[least, greatest], as in [1, 20]", message)])
        return self

    @model_validator(mode="after")
    def _workers_need_nodes(self) -> Self:
        if self.actuator == "workers" and not self.workers.nodes:
            message = "the actuator workers needs node servers"
            raise reject([Fault("workers.nodes", "none", "[http://HOST:PORT, …]", message)])
        return self

    @property
    def parsed_objective(self) -> Objective:
        """The objective as a value."""
        return Objective.parse(self.objective)

    @property
    def bounds(self) -> Bounds | None:
        """The bounds as a value; None: watch only."""
        return None if self.executors is None else Bounds(*self.executors)
