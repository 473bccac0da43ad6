"""Turn a submitted graph into task states, touching nothing else until it is known to be sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsched.errors import ProtocolError

from .annotations import validate
from .events import GraphExtended, GraphSubmitted
from .kinds import kind_of, take_makers
from .needs import Needs, rank_of
from .prefixes import TaskPrefix
from .state import LIVE, Graph, Phase, State, TaskState
from .types import ClientId, Key, TaskSpec, prefix_of

__all__ = ["MOST_TASKS", "build_graph", "extend_graph", "link_externals", "unlink_graph"]

MOST_TASKS = 1 << 30
"""The most tasks a graph may have: it is given that many ids at once, and they have to fit into messages."""


def build_graph(state: State, event: GraphSubmitted, now: float) -> Graph:
    """Make the states of a graph's tasks, WAITING and linked, not yet in the state's tables.

    Raises ProtocolError for a position that is out of range or not before its reader, or an external nobody wants;
    AnnotationError for a bad annotation.
    """
    total = len(event.tasks) if event.total is None else event.total
    if total > MOST_TASKS:
        raise ProtocolError(f"the graph is said to have {total} tasks; {MOST_TASKS} are allowed")
    if total < len(event.tasks):
        raise ProtocolError(f"the graph is said to have {total} tasks and comes with {len(event.tasks)}")
    externals = [_external(state, event.client, number, position) for number, position in event.externals]
    graph = Graph(event.client, event.graph, state.next_id, event.wanted, total, event.urgency)
    near = take_makers(graph, event.makers, event.made_by, len(event.tasks))
    _add(state, graph, event.tasks, externals, event.lanes, event.made_by, near, now)
    _want(graph, event.wanted)
    return graph


def extend_graph(state: State, graph: Graph, event: GraphExtended, now: float) -> list[TaskState]:
    """Make the states of a graph's next tasks; raises as :func:`build_graph`, with nothing changed."""
    tasks, wanted = event.tasks, event.wanted
    first = len(graph.tasks)
    if first + len(tasks) > graph.total:
        raise ProtocolError(f"the graph has {graph.total} tasks and {first + len(tasks)} came")
    for position in wanted:
        if not first <= position < first + len(tasks):
            raise ProtocolError(f"position {position} is wanted and not among the tasks from {first} on")
    for position, spec in enumerate(tasks, first):
        for d in spec.dependencies:
            if not 0 <= d < position:
                raise ProtocolError(f"task {spec.key!r} at {position} depends on {d}, which is not before it")
    near = take_makers(graph, event.makers, event.made_by, len(tasks))
    _add(state, graph, tasks, (), None, event.made_by, near, now)
    graph.wanted.update(dict.fromkeys(wanted))
    _want(graph, wanted)
    return graph.tasks[first:]


def unlink_graph(graph: Graph) -> dict[TaskState, None]:
    """Have the graphs it reads from forget it; return what it has read of them."""
    if not graph.reads:
        return {}
    for other in graph.reads:
        del other.readers[graph]
    graph.reads = {}
    read = {d: None for ts in graph.tasks for d in ts.dependencies if d.graph is not graph}
    for dep in read:
        dep.users -= sum(d.phase in LIVE for d in dep.dependents if d.graph is graph)
        dep.dependents = [d for d in dep.dependents if d.graph is not graph]
    return read


def _external(state: State, client: ClientId, number: int, position: int) -> TaskState:
    graph = state.graphs.get((client, number))
    if graph is None or graph.left or position not in graph.wanted or not 0 <= position < len(graph.tasks):
        raise ProtocolError(f"position {position} of graph {number} is needed, and this client does not hold it")
    return graph.tasks[position]


def _add(
    state: State,
    graph: Graph,
    tasks: Sequence[TaskSpec],
    externals: Sequence[TaskState],
    lanes: Mapping[str, str] | None,
    made_by: Sequence[int],
    near: frozenset[int],
    now: float,
) -> None:
    met: list[TaskPrefix] = []
    try:
        _make(state, graph, tasks, externals, lanes, made_by, near, now, met)
    finally:
        for prefix in met:  # which live on, and the graph need not
            prefix.met = prefix.met_in = prefix.met_as = None


def _make(
    state: State,
    graph: Graph,
    tasks: Sequence[TaskSpec],
    externals: Sequence[TaskState],
    lanes: Mapping[str, str] | None,
    made_by: Sequence[int],
    near: frozenset[int],
    now: float,
    met: list[TaskPrefix],
) -> None:
    base = graph.base
    states = graph.tasks
    urgency = graph.urgency
    # More tasks may come to read any result, so until the last has come each counts as having a user.
    held = len(states) + len(tasks) < graph.total
    needs_of = _needs_of(state, tasks, lanes)
    last: Needs | None = None
    prefix_of_layer: dict[str, TaskPrefix] = {}
    task = base + len(states)
    kinds = graph.kinds
    column: list[Any] = made_by if isinstance(made_by, list) else list(made_by)
    n = 0
    place: Any = -1
    for spec in tasks:
        needs = needs_of[id(spec.annotations)]
        key = spec.key
        layer = key[0] if type(key) is tuple and key else None
        if type(layer) is str:
            prefix = prefix_of_layer.get(layer)
            if prefix is None:
                prefix = prefix_of_layer[layer] = _prefix(state, key)
        else:
            prefix = _prefix(state, key)  # a key that came over the wire need not be one that can be hashed
        if column:
            place = column[n]
            n += 1
            kind = prefix.met if prefix.met_in is kinds and prefix.met_as is place else None
            prefix = kind or _meet(state, graph, place, prefix, now, met)
        if prefix.gpu or (near and place in near):
            needs = _needs_of_gpu_task(state, graph, needs, task - base, place in near)
        rank = rank_of(urgency, needs.priority, task) if needs.priority or urgency else task
        ts = TaskState(task, spec, graph, prefix, needs, rank)
        if needs is not last:
            graph.needs.setdefault(needs, ts)
            last = needs
        if spec.dependencies:
            _link(ts, states, task - base, externals)
        ts.users += held
        states.append(ts)
        task += 1


def _meet(state: State, graph: Graph, place: Any, prefix: TaskPrefix, now: float, met: list[TaskPrefix]) -> TaskPrefix:
    """The kind of tasks with this prefix that the function at this place makes, noted down for the next of them."""
    kinds = graph.kinds
    if prefix.met_in is not kinds:
        met.append(prefix)
    kind = prefix.met = kinds[place].get(prefix) or kind_of(state, graph, place, prefix, now)
    prefix.met_in, prefix.met_as = kinds, place
    return kind


def _needs_of_gpu_task(state: State, graph: Graph, needs: Needs, position: int, near: bool) -> Needs:
    if near:
        graph.near.add(position)
    return state.on_gpu(needs) if needs.free else needs


def _want(graph: Graph, wanted: Sequence[int]) -> None:
    states = graph.tasks
    for position in wanted:
        if not 0 <= position < len(states):
            raise ProtocolError(f"position {position} is wanted and the graph has {len(states)} tasks")
        if not states[position].wanted:
            states[position].wanted = True
            states[position].users += 1


def _link(ts: TaskState, states: list[TaskState], position: int, externals: Sequence[TaskState]) -> None:
    """Link a task to its inputs, those of its own graph alone: see :func:`link_externals` for the others."""
    inputs: list[TaskState] = []
    for d in ts.spec.dependencies:
        if 0 <= d < position:
            dep = states[d]
            if dep.dependents:
                dep.dependents.append(ts)
            else:
                dep.dependents = [ts]
            dep.users += 1
        elif d < 0 and -1 - d < len(externals):
            dep = externals[-1 - d]
        else:
            raise ProtocolError(f"task {ts.key!r} at {position} depends on {d}, which is not before it")
        inputs.append(dep)
    ts.dependencies = inputs
    ts.waiting_on = ts.unplaced = len(inputs)


def link_externals(graph: Graph) -> None:
    """Link the tasks that read results of other graphs to those, once the graph is known to be sound."""
    for ts in graph.tasks:
        for dep in ts.dependencies:
            if dep.graph is graph:
                continue
            if dep.dependents:
                dep.dependents.append(ts)
            else:
                dep.dependents = [ts]
            dep.users += 1
            dep.forgets = False
            graph.reads[dep.graph] = None
            dep.graph.readers[graph] = None
            if dep.phase is Phase.MEMORY:
                ts.waiting_on -= 1
                ts.unplaced -= 1
            elif dep.phase is Phase.ASSIGNED:
                ts.unplaced -= 1


def _needs_of(state: State, tasks: Sequence[TaskSpec], lanes: Mapping[str, str] | None) -> dict[int, Needs]:
    """What tasks demand, by the identity of their annotations, which many share. Raises AnnotationError."""
    found: dict[int, Needs] = {}
    for spec in tasks:
        annotations = spec.annotations
        if id(annotations) not in found:
            found[id(annotations)] = _needs(state, annotations, lanes)
    return found


def _needs(state: State, annotations: Mapping[str, Any] | None, lanes: Mapping[str, str] | None) -> Needs:
    if not annotations and not lanes:
        return state.undemanding
    needs = Needs(validate(annotations) if annotations else {}, lanes)
    key = needs.key()
    known = state.needs.get(key)
    if known is None:
        known = state.needs[key] = needs
    return known


def _prefix(state: State, key: Key) -> TaskPrefix:
    name = prefix_of(key)
    prefix = state.prefixes.get(name)
    if prefix is None:
        prefix = state.prefixes[name] = TaskPrefix(name)
    return prefix
