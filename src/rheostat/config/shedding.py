"""What may be dropped, declared: sinks with their priorities and accuracies, and the edges that lead to them [S3].

The graph is that of Stream Economics: outside sources, tasks, sinks, and the edges between them, at each of which
records may be dropped. It says nothing about what the tasks do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from rheostat.errors import Fault, InputError, did_you_mean

WHOLE = 1_000_000
"""The non-drop probability 1, as an integer."""

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_LOWEST, _HIGHEST = -(2**31), 2**31 - 1


class Edge(NamedTuple):
    """Where records go from one task, or from a source, to the next task or sink."""

    start: str
    end: str

    def __str__(self) -> str:
        return f"{self.start}>{self.end}"


def parse_edge(text: str) -> Edge:
    """The inverse of ``str(edge)``.

    >>> parse_edge("parse>report")
    Edge(start='parse', end='report')
    """
    start, _, end = text.partition(">")
    return Edge(start, end)


@dataclass(frozen=True, slots=True)
class Sink:
    """Where results leave.

    Attributes:
        priority: an integer of any sign; what sinks with a smaller one need is dropped first.
        minimum_accuracy: share of the records offered that must reach it, in [0, 1]; 0: it may get none.
        measure: what else the accuracy is: ``join-recall``, ``aggregate-error``, ``weight``, or another package's.
        measure_options: of it.
    """

    name: str
    priority: int = 0
    minimum_accuracy: float = 0.0
    measure: str = "records"
    measure_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SheddingGraph:
    """A declared graph, checked.

    Attributes:
        sources: outside sources, and where each leads.
        tasks: likewise, in topological order.
        sinks: by name.
        by_key: edges that keep or drop whole keys.
        by_value: edges that keep the records of greater value first.
    """

    sources: Mapping[str, tuple[str, ...]]
    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    by_key: frozenset[Edge] = frozenset()
    by_value: frozenset[Edge] = frozenset()

    def drops_itself(self, edge: Edge) -> bool:
        """Whether an edge chooses what it drops, so that nothing may be dropped at random before it."""
        return edge in self.by_key or edge in self.by_value

    @cached_property
    def by_priority(self) -> tuple[Sink, ...]:
        """The sinks, the greatest priority first."""
        return tuple(sorted(self.sinks.values(), key=lambda sink: (-sink.priority, sink.name)))

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, those of sources first, in topological order."""
        starts = [*self.sources.items(), *self.tasks.items()]
        return tuple(Edge(start, end) for start, ends in starts for end in ends)

    def reachable(self, start: str) -> frozenset[str]:
        """Q(t): the sinks that are reached from a source, a task, or a sink itself."""
        if start in self.sinks:
            return frozenset({start})
        ends = self.sources.get(start) or self.tasks.get(start, ())
        return frozenset().union(*(self.reachable(end) for end in ends))

    def edge(self, start: str, end: str) -> Edge:
        """A declared edge.

        Raises:
            InputError: it is not declared.
        """
        edge = Edge(start, end)
        if edge not in self.edges:
            known = [str(each) for each in self.edges]
            message = f"this edge is not declared{did_you_mean(str(edge), known)}"
            raise InputError([Fault("edge", str(edge), ", ".join(known), message)])
        return edge

    def edges_from(self, start: str) -> tuple[Edge, ...]:
        """The edges that records of a source, a task or a sink can pass, in topological order."""
        passed = {start}
        found = []
        for each in self.edges:
            if each.start in passed:
                found.append(each)
                passed.add(each.end)
        return tuple(found)


def _as_lists(ends: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """A single name is a list of one."""
    return {name: _listed(given) for name, given in ends.items()}


def _listed(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _edge_of(given: tuple[str, str] | str) -> Edge:
    return parse_edge(given) if isinstance(given, str) else Edge(*given)


def declare_shedding(
    sinks: Sequence[Sink],
    sources: Mapping[str, Iterable[str]] | None = None,
    tasks: Mapping[str, Iterable[str]] | None = None,
    *,
    by_key: Iterable[tuple[str, str] | str] = (),
    by_value: Iterable[tuple[str, str] | str] = (),
) -> SheddingGraph:
    """Declare what may be dropped.

    Args:
        sinks: at least one.
        sources: outside sources (topics), and to which tasks or sinks each leads; None: one, ``source``, that leads to
            all sinks.
        tasks: likewise; None: there are none between sources and sinks.
        by_key: edges, each as (start, end) or ``"start>end"``, that keep or drop all records of a key together.
        by_value: edges that keep the records of greater value first.

    Raises:
        InputError: every fault: names that are used twice or not declared, an accuracy out of range, a circle, a source
            or a task that leads nowhere, a sink that nothing leads to, an edge that is not declared or drops both ways.

    >>> graph = declare_shedding([Sink("alerts", 5, 0.7), Sink("report")], {"clicks": ["parse"]},
    ...                          {"parse": ["alerts", "report"]})
    >>> [str(edge) for edge in graph.edges]
    ['clicks>parse', 'parse>alerts', 'parse>report']
    """
    by_key, by_value = _listed(by_key), _listed(by_value)
    _check_types(sinks, sources=sources, tasks=tasks, by_key=by_key, by_value=by_value)
    given_sources = _as_lists({"source": [sink.name for sink in sinks]} if sources is None else sources)
    given_tasks = _as_lists(tasks or {})
    ends = {**given_sources, **given_tasks}
    faults = [*_check_sinks(sinks), *_check_names(given_sources, given_tasks, sinks)]
    known = {*given_tasks, *(sink.name for sink in sinks)}
    faults += _check_ends(ends, known, given_sources)
    order = _sort_tasks(given_tasks, faults)
    faults += _check_reached(ends, known)
    keyed, valued = [_edge_of(edge) for edge in by_key], [_edge_of(edge) for edge in by_value]
    faults += _check_edges(ends, keyed, valued)
    if faults:
        raise InputError(faults)
    return SheddingGraph(
        sources={name: ends[name] for name in given_sources},
        tasks={name: ends[name] for name in order},
        sinks={sink.name: sink for sink in sinks},
        by_key=frozenset(keyed),
        by_value=frozenset(valued),
    )


def _check_types(sinks: Any, **given: Any) -> None:
    """Raise InputError for what is no graph at all."""
    faults = [
        Fault("sinks", repr(each), "Sink(name, priority, minimum_accuracy)", "this is no sink")
        for each in (sinks if isinstance(sinks, Sequence) and not isinstance(sinks, str) else [sinks])
        if not isinstance(each, Sink) or not isinstance(each.name, str)
    ]
    for name in ("sources", "tasks"):
        if given[name] is not None and not isinstance(given[name], Mapping):
            allowed = "names, each with those that it leads to"
            faults.append(Fault(name, repr(given[name]), allowed, "this says not where anything leads"))
    for name in ("by_key", "by_value"):
        wrong = [each for each in given[name] if not isinstance(each, str) and len(tuple(each)) != len(Edge._fields)]
        faults += [Fault(name, repr(each), "(start, end) or 'start>end'", "this is no edge") for each in wrong]
    if faults:
        raise InputError(faults)


def join_graphs(graphs: Sequence[SheddingGraph]) -> SheddingGraph:
    """One graph for the pipelines of one application, each with its own sources, tasks and sinks.

    Raises:
        InputError: a name is declared by two of them.
    """
    starts = Counter(name for graph in graphs for name in (*graph.sources, *graph.tasks))
    if twice := [name for name, number in starts.items() if number > 1]:
        raise InputError([Fault("name", name, "each name once", f"{name} is declared twice") for name in twice])
    return declare_shedding(
        [sink for graph in graphs for sink in graph.sinks.values()],
        {name: ends for graph in graphs for name, ends in graph.sources.items()},
        {name: ends for graph in graphs for name, ends in graph.tasks.items()},
        by_key=[edge for graph in graphs for edge in graph.by_key],
        by_value=[edge for graph in graphs for edge in graph.by_value],
    )


def _check_sinks(sinks: Sequence[Sink]) -> Iterator[Fault]:
    if not sinks:
        yield Fault("sinks", "none", "at least one", "say where results leave")
    for sink in sinks:
        priority: Any = sink.priority
        accuracy: Any = sink.minimum_accuracy
        measure: Any = sink.measure
        options: Any = sink.measure_options
        at = f"sinks.{sink.name}"
        if type(priority) is not int or not _LOWEST <= priority <= _HIGHEST:
            allowed = f"an integer from {_LOWEST} to {_HIGHEST}"
            yield Fault(f"{at}.priority", repr(priority), allowed, "the priority is not understood")
        if type(accuracy) not in (int, float) or not 0 <= accuracy <= 1:
            message = "the accuracy is a share of the records"
            yield Fault(f"{at}.minimum_accuracy", repr(accuracy), "a number from 0 to 1", message)
        if not isinstance(measure, str):
            yield Fault(f"{at}.measure", repr(measure), "the name of a measure", "this is no name")
        if not isinstance(options, Mapping):
            yield Fault(f"{at}.measure_options", repr(options), "options by name", "these are no options")


def _check_names(
    sources: Mapping[str, Iterable[str]], tasks: Mapping[str, Iterable[str]], sinks: Sequence[Sink]
) -> Iterator[Fault]:
    if not sources:
        yield Fault("sources", "none", "at least one", "say where records come from")
    names = [*sources, *tasks, *(sink.name for sink in sinks)]
    for name in dict.fromkeys(names):
        if not _NAME.fullmatch(str(name)):
            yield Fault("name", repr(name), "letters, digits, _ . -", "edges are named after what they join")
        elif names.count(name) > 1:
            yield Fault("name", name, "each name once", f"{name} is declared {names.count(name)} times")


def _check_ends(
    ends: Mapping[str, Sequence[str]], known: Iterable[str], sources: Mapping[str, Iterable[str]]
) -> Iterator[Fault]:
    allowed = ", ".join(sorted(known)) or "a task or a sink"
    for name, targets in ends.items():
        group = "sources" if name in sources else "tasks"
        if not targets:
            others = ", ".join(sorted({*known} - {name})) or "a task or a sink"
            yield Fault(f"{group}.{name}", "nothing", others, "it leads nowhere")
        for target in targets:
            if target not in known:
                message = f"there is no such task or sink{did_you_mean(target, known)}"
                yield Fault(f"{group}.{name}", target, allowed, message)
        for target in {each for each in targets if list(targets).count(each) > 1}:
            yield Fault(f"{group}.{name}", target, "each once", f"it leads to {target} more than once")


def _check_edges(ends: Mapping[str, Sequence[str]], keyed: Sequence[Edge], valued: Sequence[Edge]) -> Iterator[Fault]:
    known = [str(Edge(start, end)) for start, targets in ends.items() for end in targets]
    for name, edges in (("by_key", keyed), ("by_value", valued)):
        for edge in edges:
            if str(edge) not in known:
                message = f"this edge is not declared{did_you_mean(str(edge), known)}"
                yield Fault(name, str(edge), ", ".join(known), message)
    for edge in sorted(set(keyed) & set(valued)):
        message = "a key is kept whole, whatever its records are worth"
        yield Fault("by_value", str(edge), "one of by_key and by_value", message)


def _check_reached(ends: Mapping[str, Sequence[str]], known: Iterable[str]) -> Iterator[Fault]:
    reached = {target for targets in ends.values() for target in targets}
    for name in sorted(set(known) - reached):
        yield Fault(name, "nothing leads to it", "an edge from a source or a task", "no record could reach it")


def _sort_tasks(tasks: Mapping[str, Iterable[str]], faults: list[Fault]) -> list[str]:
    """The tasks, each after those that lead to it."""
    left, order = {name: set(targets) for name, targets in tasks.items()}, list[str]()
    while left:
        free = [name for name in left if not any(name in targets for targets in left.values())]
        if not free:
            circle = ">".join(_find_circle(left))
            faults.append(Fault("tasks", circle, "no circle", "records would go round and round"))
            return [*order, *left]
        for name in free:
            order.append(name)
            del left[name]
    return order


def _find_circle(tasks: Mapping[str, set[str]]) -> list[str]:
    """A way from a task back to it; each of these tasks is led to by another.

    >>> _find_circle({"x": {"y"}, "y": {"x", "z"}, "z": {"s"}})
    ['y', 'x', 'y']
    """
    way = [max(tasks)]
    while way[0] not in way[1:]:
        way.insert(0, min(name for name, targets in tasks.items() if way[0] in targets))
    return way[: way.index(way[0], 1) + 1]
