"""Policies and actuators are found by name, through entry points. The built-in ones use them too."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rheostat.errors import Fault, InputError, did_you_mean


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins of one kind.

    Attributes:
        kind: the setting that names one (``"policy"``).
        group: of their entry points.
        page: document that describes how to write one.
    """

    kind: str
    group: str
    page: str

    def names(self) -> tuple[str, ...]:
        """Registered names, sorted."""
        return tuple(sorted({entry.name for entry in entry_points(group=self.group)}))

    def faults(self, name: str) -> list[Fault]:
        """Why the name does not stand for one plugin; empty if it does. Nothing is imported."""
        return _name_faults(self, name, list(entry_points(group=self.group, name=name)))

    def load(self, name: str, parts: Iterable[str], class_parts: Iterable[str] = ()) -> Any:
        """Import the plugin of that name.

        Args:
            name: of its entry point.
            parts: attributes that it must have.
            class_parts: those that it must also have if it is a class with these.

        Raises:
            InputError: the name is unknown or registered twice, it cannot be imported, or it lacks a part.
        """
        found = list(entry_points(group=self.group, name=name))
        if faults := _name_faults(self, name, found):
            raise InputError(faults)
        entry = found[0]
        try:
            plugin = entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist is not None else "unknown"
            message = f"the {self.kind} of the package {package} cannot be loaded: {type(error).__name__}: {error}"
            raise InputError([Fault(self.kind, name, f"an importable {entry.value}", message)]) from error
        lacks = [part for part in parts if not hasattr(plugin, part)]
        if not lacks and inspect.isclass(plugin):
            lacks = [part for part in class_parts if not hasattr(plugin, part)]
        if lacks:
            article = "an" if self.kind[0] in "aeiou" else "a"
            message = f"{entry.value} is not {article} {self.kind}: it has no {', no '.join(lacks)}"
            raise InputError([Fault(self.kind, name, f"a class as {self.page} describes it", message)])
        return plugin


POLICIES = Plugins("policy", "rheostat.policies", "docs/policies.md")
ACTUATORS = Plugins("actuator", "rheostat.actuators", "CONTRIBUTING.md")


def unknown_name(field: str, given: str, known: Iterable[str], kind: str) -> Fault:
    """The fault for a name that is not among the known ones, with the closest of them."""
    allowed = tuple(known)
    return Fault(field, repr(given), " | ".join(allowed) or "(none)", f"no such {kind}{did_you_mean(given, allowed)}")


def _name_faults(plugins: Plugins, name: str, found: list[EntryPoint]) -> list[Fault]:
    if not found:
        fault = unknown_name(plugins.kind, name, plugins.names(), plugins.kind)
        end = "" if fault.message.endswith("?") else "."
        hint = (
            f"A new one is found after its entry point in `{plugins.group}` was added and its package installed again"
        )
        return [Fault(fault.field, fault.given, fault.allowed, f"{fault.message}{end} {hint}")]
    targets = sorted({entry.value for entry in found})
    if len(targets) > 1:
        message = f"registered more than once: {', '.join(targets)}"
        return [Fault(plugins.kind, name, "a name that is registered once", message)]
    return []
