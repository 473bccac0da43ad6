"""Turn a submitted graph into task states, touching nothing else until it is known to be sound."""

from __future__ import annotations

from hetsched.errors import ProtocolError

from .annotations import validate
from .events import GraphSubmitted
from .needs import Needs, rank_of
from .state import Graph, State, TaskPrefix, TaskState
from .types import prefix_of

__all__ = ["build_graph"]


def build_graph(state: State, event: GraphSubmitted, now: float) -> Graph:
    """Make the states of a graph's tasks, WAITING and linked, not yet in the state's tables.

    Raises ProtocolError for a position that is out of range or not before its reader.
    """
    base = state.next_id
    graph = Graph(event.client, event.graph, base, event.wanted)
    states = graph.tasks
    by_annotations: dict[int, Needs] = {}
    prefixes = state.prefixes
    lanes = event.lanes
    task = base
    for spec in event.tasks:
        annotations = spec.annotations
        needs = by_annotations.get(id(annotations))
        if needs is None:
            fresh = Needs(validate(annotations) if annotations else {}, lanes)
            needs = by_annotations[id(annotations)] = state.needs.setdefault(fresh.key(), fresh)
        name = prefix_of(spec.key)
        prefix = prefixes.get(name)
        if prefix is None:
            prefix = prefixes[name] = TaskPrefix(name)
        if needs.priority or event.urgency:
            rank = rank_of(event.urgency, needs.priority, task)
        else:
            rank = task
        ts = TaskState(task, spec, graph, prefix, needs, rank)
        dependencies = spec.dependencies
        if dependencies:
            inputs = ts.dependencies
            position = task - base
            for d in dependencies:
                if not 0 <= d < position:
                    raise ProtocolError(f"task {spec.key!r} at {position} depends on {d}, which is not before it")
                dep = states[d]
                inputs.append(dep)
                dep.dependents.append(ts)
                dep.users += 1
            ts.waiting_on = ts.unplaced = len(inputs)
        states.append(ts)
        task += 1
    for position in graph.wanted:
        if not 0 <= position < len(states):
            raise ProtocolError(f"position {position} is wanted and the graph has {len(states)} tasks")
        states[position].wanted = True
        states[position].users += 1
    return graph
