"""Settings and the policy that they name, checked together: all that is wrong with both is reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pydantic import BaseModel

from rheostat.config.faults import keys_of, validate
from rheostat.config.models import Settings, with_preset, with_profile
from rheostat.decide.accuracy import measures_of
from rheostat.decide.decide import STEPS
from rheostat.decide.policy import Policy, PolicyContext, load_policy
from rheostat.errors import Fault, InputError, attempt
from rheostat.model import Objective
from rheostat.plugins import ACTUATORS

_SOME_OBJECTIVE = Objective(60.0)
_SOME_PERIOD_S = 15.0
"""Stand in where the settings do not say: no option is right or wrong because of them."""


def check_settings(values: Mapping[str, Any], before: Iterable[Fault] = ()) -> Settings:
    """Settings whose actuator and policy exist, and whose policy takes its options.

    ``before``: faults found while the values were read.

    Raises:
        InputError: every fault of the settings, the actuator, the policy and its options.
    """
    faults = list(before)
    settings = attempt(validate, None, faults, Settings, values)
    faults += [fault for fault in policy_faults(values) if fault not in faults]
    faults += actuator_faults(values)
    if settings is not None and (graph := settings.shedding.graph) is not None:
        attempt(measures_of, None, faults, graph)
    if settings is None or faults:
        raise InputError(faults)
    return settings


def actuator_faults(values: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with the name of the actuator; a value that is no name at all is a fault of the settings."""
    name = values.get("actuator")
    return ACTUATORS.faults(name) if name and isinstance(name, str) else []


def policy_faults(values: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with the policy that ``values`` name and with its options, whatever else is wrong with them.

    >>> [fault.field for fault in policy_faults({"policy": "hpa:quick", "sample_s": -1})]
    ['policy_options.preset']
    """
    given = with_profile(with_preset(values))
    name = given.get("policy", Settings.model_fields["policy"].default)
    options, preset = given.get("policy_options", {}), given.get("preset", "default")
    if not (name and isinstance(name, str) and isinstance(options, Mapping)):
        return []
    faults: list[Fault] = []
    objective = attempt(Objective.parse, _SOME_OBJECTIVE, [], given.get("objective"))
    attempt(load_policy, None, faults, name, options, PolicyContext(objective, _SOME_PERIOD_S, str(preset)))
    return faults


# Settings that were given, are right, and change nothing, each with the reason: others make them void.


_BESIDE_STEPS = frozenset({"hold_fallback_s", "failover", "failover_return_s", "failure_window_s"})
"""Guard settings that are read outside the steps too, so they have an effect even if the policy manages those steps."""

_OUTSIDE = frozenset({"hold_fallback_s", "max_age_cycles", "metrics_delay_s", "quota_cores"}) | {
    "no_room_patience_s",
    "no_room_patience_max_s",
    "no_room_backoff_s",
    "no_room_backoff_max_s",
}
"""Keys of the guard that count while a number outside the bounds is brought into them, or lost executors come again."""


@dataclass(frozen=True, slots=True)
class NoEffect:
    """A setting without effect: its dotted key, the value that was given, and why."""

    field: str
    given: str
    why: str

    def __str__(self) -> str:
        return f"{self.field}: has no effect, because {self.why} (given: {self.given})"


def no_effect(values: Mapping[str, Any], settings: Settings) -> list[NoEffect]:
    """Which of the given values have no effect on the settings that they became, and why."""
    given, policy = dict(_flat(with_preset(values))), _load_policy(settings)
    self_managed: frozenset[str] = frozenset() if policy is None else policy.self_managed_steps
    reasons = dict(_options(given, policy)) | _preset(given, settings, policy)
    own: frozenset[str] = getattr(policy, "guard_settings", frozenset())
    void = chain(
        _cluster(settings),
        _bounds(settings),
        _guard(settings, self_managed),
        _self_managed(settings, self_managed, own),
    )
    for key, why in void:
        reasons.setdefault(key, why)
    return [NoEffect(key, repr(value), reasons[key]) for key, value in given.items() if key in reasons]


_SECTIONS = ("guard", "workers", "metrics", "policy_options", "shedding")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys of the sections; what an option or the map of round trips holds stays whole."""
    for key, value in values.items():
        if isinstance(value, Mapping) and not prefix and key in _SECTIONS:
            yield from _flat(value, f"{key}.")
        else:
            yield f"{prefix}{key}", value


def _load_policy(settings: Settings) -> Policy[Any] | None:
    context = PolicyContext(settings.parsed_objective, settings.sample_s, settings.preset)
    try:
        return load_policy(settings.policy, settings.policy_options, context)
    except InputError:
        return None


def _cluster(settings: Settings) -> Iterator[tuple[str, str]]:
    """The cluster, and what is served and watched."""
    if settings.actuator != "workers":
        for key in type(settings.workers).model_fields:
            yield f"workers.{key}", f"the actuator is {settings.actuator}: say actuator: workers"
    if settings.shedding.orders is None:
        why = "no source is told what to keep: pass attach(shedding=…), or give shedding.orders, the file they read"
        yield "shedding.sinks", why
    if settings.mode != "act":
        why = f"in mode {settings.mode} nothing is asked for"
        yield from (("allow_redone_work", why), ("workers.backup", why), ("workers.every_s", why))
        if settings.workers.round_trips_ms is None:
            yield from (("actuator", why), *((f"workers.{key}", why) for key in ("nodes", "token_file", "timeout_s")))
    if settings.metrics.port is None:
        yield "metrics.host", "nothing is served: give metrics.port"
    if settings.rate_window_s < settings.sample_s:
        why = f"rates are means over one sample period at least, and sample_s is {settings.sample_s:g}"
        yield "rate_window_s", why


def _bounds(settings: Settings) -> Iterator[tuple[str, str]]:
    """What the bounds leave nothing to do for."""
    if settings.bounds is None:
        return
    least, most = settings.bounds.minimum, settings.bounds.maximum
    guard, within = settings.guard, f"within {least} to {most} executors"
    if least == most:
        fixed = f"{least} executors are the least and the greatest number: nothing is ever scaled"
        yield from (
            (field, fixed)
            for field in ("policy", *(f"guard.{key}" for key in type(guard).model_fields if key not in _OUTSIDE))
        )
    for name in ("largest_step_up", "largest_step_down"):
        step = getattr(guard, name)
        if step is not None and step >= most - least:
            yield f"guard.{name}", f"no step {within} is larger"
    if 0 < guard.tolerance < 1 / most:
        yield "guard.tolerance", f"no change {within} is so small: one executor is {1 / most:.2g} of the number or more"
    wanted = settings.policy_options.get("executors") if settings.policy == "static" else None
    if isinstance(wanted, int) and settings.bounds.clamp(wanted) != wanted:
        yield "policy_options.executors", f"the bounds make it {settings.bounds.clamp(wanted)}"


def _guard(settings: Settings, self_managed: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Keys of the guard that other keys of it make void."""
    guard = settings.guard
    if guard.hold_s is not None:
        yield (
            "guard.hold_batches",
            f"the hold lasts {guard.hold_s:g} s, whatever batches finish: it counts with hold_s: null",
        )
    if guard.align_to == "nothing":
        yield "guard.align_most", "nothing is aligned: give guard.align_to"
    if guard.align_to != "state":
        yield "guard.state_partitions", "it counts with align_to: state"
    if guard.ineffective_share is None:
        yield "guard.ineffective_s", "with ineffective_share: null no increase is looked at"
    if guard.no_room_backoff_s == 0:
        yield "guard.no_room_backoff_max_s", "with no_room_backoff_s: 0 there is no back-off that could double"
    if guard.cooldown_down_s == 0:
        yield "guard.round_trip_cooldowns", "it is a multiple of cooldown_down_s, which is 0"
    elif 0 < guard.round_trip_cooldowns <= 1 and "cooldown_down" not in self_managed:
        yield "guard.round_trip_cooldowns", "cooldown_down_s alone lasts as long"
    if 0 < guard.scale_down_hold_s < settings.sample_s:
        why = f"only the present proposal lies within it: a decision is made each {settings.sample_s:g} s"
        yield "guard.scale_down_hold_s", why


def _self_managed(settings: Settings, self_managed: frozenset[str], own: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Guard settings that are read only by steps which the policy manages itself, and not by the policy (``own``)."""
    for key in type(settings.guard).model_fields:
        readers = [step.name for step in STEPS if key in step.settings]
        if not settings.guard.hold_both:
            readers = [name for name in readers if name != "hold_all" or key == "hold_both"]
        if readers and self_managed.issuperset(readers) and key not in _BESIDE_STEPS | own:
            steps = " and ".join(readers)
            yield f"guard.{key}", f"the policy {settings.policy} does {steps} by rules of its own"


def _preset(given: Mapping[str, Any], settings: Settings, policy: Policy[Any] | None) -> dict[str, str]:
    """The preset where it names none of the policy's, or an option goes before it."""
    if "preset" not in given:
        return {}
    if "policy_options.preset" in given:
        return {"preset": "the preset of the policy goes before it"}
    known = {"default", *getattr(policy, "presets", {settings.preset: {}})}
    return {} if settings.preset in known else {"preset": f"the policy {settings.policy} has no preset of this name"}


def _options(given: Mapping[str, Any], policy: Policy[Any] | None) -> Iterator[tuple[str, str]]:
    """Options of the policy that count only with another one (``json_schema_extra``: ``only_with``)."""
    options: Any = getattr(policy, "options", None)
    fields = keys_of(type(options)) if isinstance(options, BaseModel) else {}
    for name, field in fields.items():
        extra = field.json_schema_extra
        needs: Any = extra.get("only_with") if isinstance(extra, Mapping) else None
        if needs is not None and f"policy_options.{name}" in given and not _meets(getattr(options, needs[0]), needs[1]):
            yield f"policy_options.{name}", f"it counts only with {needs[0]} {needs[1]}"


def _meets(value: Any, wanted: str) -> bool:
    """Whether an option is as another one needs it: ``set``, ``null``, ``true``, ``not VALUE``, ``VALUE``, or a key.

    >>> _meets(None, "null"), _meets(3, "set"), _meets("off", "not off"), _meets({"lag": 1.0}, "lag")
    (True, True, False, True)
    """
    if wanted in ("set", "null"):
        return (value is None) == (wanted == "null")
    if wanted.startswith("not "):
        return str(value) != wanted.removeprefix("not ")
    return wanted in value if isinstance(value, Mapping) else str(value).lower() == wanted
