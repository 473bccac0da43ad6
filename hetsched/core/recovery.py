"""After a loss: plan again from who holds what.

Losing a worker is rare, so nothing is patched: one pass from the wanted results back finds what must be made, one
pass forward finds which standing assignments still make sense, and every count is computed anew. The cost is that of
looking at each task once.
"""

from __future__ import annotations

from collections.abc import Sequence

from .kinds import place_of
from .shares import claim
from .state import LIVE, Graph, Phase, State, TaskState, WorkerState

__all__ = ["Replan", "forget_holders", "leave_worker", "replan", "unassign"]


class Replan:
    """What a new plan asks for: assignments to revoke, results to free (by worker), tasks that can
    run, tasks that no longer can, and those that never can since an input has failed (they come in order)."""

    __slots__ = ("doomed", "free", "ready", "revoke", "wait")

    def __init__(self) -> None:
        self.revoke: dict[WorkerState, list[TaskState]] = {}
        self.free: dict[WorkerState, list[TaskState]] = {}
        self.ready: list[TaskState] = []
        self.wait: list[TaskState] = []
        self.doomed: list[TaskState] = []


def forget_holders(state: State, tasks: list[TaskState], holders: list[WorkerState], cause: str, now: float) -> None:
    """Take note that these workers do not hold these results; a result nobody holds is to be made again."""
    lost = []
    for ts in tasks:
        gone = [w for w in ts.who_has if w in holders]
        for w in gone:
            w.nbytes -= ts.nbytes
            w.held -= 1
        left = tuple(w for w in ts.who_has if w not in holders)
        if gone and not left:
            lost.append(ts)
        ts.who_has = left
    for ts in lost:
        ts.forgets = False
        ts.attempt += 1
        for d in ts.dependencies:
            d.forgets = False
    _wait(state, lost, cause, now)


def unassign(state: State, tasks: list[TaskState], cause: str, now: float) -> None:
    """Put assigned tasks back to WAITING; their counts are for :func:`replan` to mend."""
    for ts in tasks:
        leave_worker(ts)
        ts.attempt += 1
        ts.forgets = False
        for d in ts.dependencies:
            d.forgets = False  # the worker counts its readers no more, and waits to be told
    _wait(state, tasks, cause, now)


def _wait(state: State, tasks: list[TaskState], cause: str, now: float) -> None:
    """Have tasks wait to be run, perhaps again. Some may have been found GPU tasks, or none, since they were placed."""
    state.move(tasks, Phase.WAITING, cause, now)
    for ts in tasks if state.suspects else ():
        ts.needs = place_of(state, ts)
        ts.graph.needs.setdefault(ts.needs, ts)


def replan(state: State, graphs: Sequence[Graph], cause: str, now: float) -> Replan:
    """Recompute, for these graphs and those they read from, what must run, what may be freed, and all counts."""
    plan = Replan()
    graphs = _with_sources(graphs)
    needed: set[int] = set()
    for graph in reversed(graphs):
        _need(graph, graphs, needed)
    for graph in graphs:
        _release_and_revive(state, graph, needed, plan, cause, now)
        _revoke(state, graph, plan, cause, now)
    for graph in graphs:
        _recount(graph, plan)
    return plan


def _with_sources(graphs: Sequence[Graph]) -> list[Graph]:
    """Add the graphs that these read from, near or far; each comes after those it reads from."""
    found = dict.fromkeys(graphs)
    stack = list(found)
    while stack:
        for source in stack.pop().reads:
            if source not in found:
                found[source] = None
                stack.append(source)
    return sorted(found, key=lambda graph: graph.base)


def _need(graph: Graph, graphs: Sequence[Graph], needed: set[int]) -> None:
    """Add the tasks of a graph whose results somebody will still read, from the outputs back.

    What reads them must have been looked at before: a reader counts if it is needed and its own result is not there,
    or, in a graph that is not among ``graphs``, if it is to run.
    """
    planned = set(graphs)
    open_end = graph.open
    for ts in reversed(graph.tasks):
        if ts.phase is Phase.FAILED:
            continue
        if ts.wanted or open_end:
            needed.add(ts.id)
            continue
        for d in ts.dependents:
            if d.phase in LIVE if d.graph not in planned else d.id in needed and d.phase is not Phase.MEMORY:
                needed.add(ts.id)
                break


def _release_and_revive(state: State, graph: Graph, needed: set[int], plan: Replan, cause: str, now: float) -> None:
    release, revive, drop = [], [], []
    for ts in graph.tasks:
        if ts.id in needed:
            if ts.phase is Phase.RELEASED:
                revive.append(ts)
        elif ts.phase is Phase.MEMORY:
            for w in ts.who_has:
                plan.free.setdefault(w, []).append(ts)
                w.nbytes -= ts.nbytes
                w.held -= 1
            ts.who_has = ()
            release.append(ts)
        elif ts.phase is Phase.ASSIGNED:
            assert ts.processing_on is not None
            plan.revoke.setdefault(ts.processing_on, []).append(ts)
            drop.append(ts)
        elif ts.phase in (Phase.WAITING, Phase.READY):
            release.append(ts)
    unassign(state, drop, cause, now)
    state.move(release, Phase.RELEASED, cause, now)
    state.move(drop, Phase.RELEASED, cause, now)
    for ts in revive:
        ts.forgets = False
        ts.attempt += 1
        for d in ts.dependencies:
            d.forgets = False
    _wait(state, revive, cause, now)


def _revoke(state: State, graph: Graph, plan: Replan, cause: str, now: float) -> None:
    """Take back, in order, each assignment that counts on an input which is no longer coming to that worker."""
    for ts in graph.tasks:
        if ts.phase is not Phase.ASSIGNED:
            continue
        worker = ts.processing_on
        assert worker is not None
        if all(d.phase is Phase.MEMORY or d.processing_on is worker for d in ts.dependencies):
            continue
        plan.revoke.setdefault(worker, []).append(ts)
        unassign(state, [ts], cause, now)


def _recount(graph: Graph, plan: Replan) -> None:
    back = []
    for ts in graph.tasks:
        if ts.phase is Phase.FAILED:
            continue
        ts.users = ts.wanted + graph.open + sum(d.phase in LIVE for d in ts.dependents)
        if ts.phase not in LIVE:
            continue
        ts.waiting_on = sum(d.phase is not Phase.MEMORY for d in ts.dependencies)
        ts.unplaced = sum(d.phase not in (Phase.MEMORY, Phase.ASSIGNED) for d in ts.dependencies)
        if ts.phase is Phase.READY and ts.waiting_on:
            back.append(ts)
        if ts.waiting_on and any(d.phase is Phase.FAILED for d in ts.dependencies):
            plan.doomed.append(ts)
        elif ts.phase is Phase.WAITING and not ts.waiting_on:
            plan.ready.append(ts)
    plan.wait.extend(back)


def leave_worker(ts: TaskState) -> None:
    """Strike an assigned task off its worker's books."""
    worker = ts.processing_on
    assert worker is not None
    worker.assigned[ts.needs.executor] -= 1
    worker.occupancy = worker.occupancy - ts.estimate if any(worker.assigned.values()) else 0.0
    worker.coming -= ts.expected
    if ts.needs.resources:
        claim(worker, ts.needs, -1)
    worker.drop_plans_for(ts)
    ts.processing_on = None
    ts.estimate = 0.0
    ts.expected = 0
