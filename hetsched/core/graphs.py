"""Turn a submitted graph into task states, touching nothing else until it is known to be sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetsched.errors import ProtocolError

from .annotations import validate
from .events import GraphSubmitted
from .needs import Needs, rank_of
from .state import Graph, State, TaskPrefix, TaskState
from .types import Key, prefix_of

__all__ = ["build_graph"]


def build_graph(state: State, event: GraphSubmitted, now: float) -> Graph:
    """Make the states of a graph's tasks, WAITING and linked, not yet in the state's tables.

    Raises ProtocolError for a position that is out of range or not before its reader.
    """
    base = state.next_id
    graph = Graph(event.client, event.graph, base, event.wanted)
    states = graph.tasks
    needs_of: dict[int, Needs] = {}
    prefix_of_layer: dict[object, TaskPrefix] = {}
    lanes = event.lanes
    task = base
    for spec in event.tasks:
        annotations = spec.annotations
        needs = needs_of.get(id(annotations))
        fresh = needs is None
        if needs is None:
            needs = needs_of[id(annotations)] = _needs(state, annotations, lanes)
        key = spec.key
        layer = key[0] if type(key) is tuple and key else None
        prefix = prefix_of_layer.get(layer) if type(layer) is str else None
        if prefix is None:
            prefix = prefix_of_layer[layer] = _prefix(state, key)
        rank = rank_of(event.urgency, needs.priority, task) if needs.priority or event.urgency else task
        ts = TaskState(task, spec, graph, prefix, needs, rank)
        if fresh:
            graph.needs.setdefault(needs, ts)
        if spec.dependencies:
            _link(ts, states, task - base)
        states.append(ts)
        task += 1
    for position in graph.wanted:
        if not 0 <= position < len(states):
            raise ProtocolError(f"position {position} is wanted and the graph has {len(states)} tasks")
        states[position].wanted = True
        states[position].users += 1
    return graph


def _link(ts: TaskState, states: list[TaskState], position: int) -> None:
    inputs: list[TaskState] = []
    for d in ts.spec.dependencies:
        if not 0 <= d < position:
            raise ProtocolError(f"task {ts.key!r} at {position} depends on {d}, which is not before it")
        dep = states[d]
        inputs.append(dep)
        if dep.dependents:
            dep.dependents.append(ts)
        else:
            dep.dependents = [ts]
        dep.users += 1
    ts.dependencies = inputs
    ts.waiting_on = ts.unplaced = len(inputs)


def _needs(state: State, annotations: Mapping[str, Any] | None, lanes: Mapping[str, str] | None) -> Needs:
    if not annotations and not lanes:
        return state.undemanding
    needs = Needs(validate(annotations) if annotations else {}, lanes)
    return state.needs.setdefault(needs.key(), needs)


def _prefix(state: State, key: Key) -> TaskPrefix:
    name = prefix_of(key)
    prefix = state.prefixes.get(name)
    if prefix is None:
        prefix = state.prefixes[name] = TaskPrefix(name)
    return prefix
