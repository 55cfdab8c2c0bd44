"""The settings, each with its meaning, its unit and why it has its default.

The meaning of a field and the reason for its default stand in the field itself: the reference page and the error
messages are made from them. All models are frozen and reject unknown keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from rheostat.config.fields import FrozenModel, documented, reject
from rheostat.config.guards import GuardSettings
from rheostat.config.metrics import MetricsSettings
from rheostat.config.policy_names import with_preset
from rheostat.config.profiles import with_profile
from rheostat.config.workers import WorkersSettings
from rheostat.errors import Fault, InputError
from rheostat.model import Bounds, Objective

__all__ = ["GuardSettings", "MetricsSettings", "Mode", "Settings", "WorkersSettings"]

Mode = Literal["act", "watch", "dry-run"]


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
    metrics: MetricsSettings = documented(
        "Our own metrics for Prometheus, see below and [prometheus.md](prometheus.md).",
        "see each key below",
        default=MetricsSettings(),
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

    @field_validator("queries")
    @classmethod
    def _somebody_is_looked_after(cls, given: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if given == ():
            raise reject([Fault("", "[]", "at least one name or id; or null: all", "no query would be looked after")])
        return given

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
    def _has_what_it_needs(self) -> Self:
        faults = []
        if self.executors is None and self.mode != "watch":
            message = f"mode {self.mode} needs bounds"
            faults.append(Fault("executors", "nothing", "[least, greatest], as in [1, 20]", message))
        if self.actuator == "workers" and not self.workers.nodes:
            message = "the actuator workers needs node servers"
            faults.append(Fault("workers.nodes", "none", "[http://HOST:PORT, …]", message))
        if faults:
            raise reject(faults)
        return self

    @property
    def parsed_objective(self) -> Objective:
        """The objective as a value."""
        return Objective.parse(self.objective)

    @property
    def bounds(self) -> Bounds | None:
        """The bounds as a value; None: watch only."""
        return None if self.executors is None else Bounds(*self.executors)
