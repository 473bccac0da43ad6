"""What a worker is told to run: a task that was assigned to it, as an order."""

from __future__ import annotations

from .commands import RunTask
from .costs import nearest
from .state import TaskState, WorkerState

__all__ = ["order_of"]

def order_of(ts: TaskState, worker: WorkerState) -> RunTask:
    """What a worker is told of a task; it may forget the result by itself where all readers are its own."""
    needs = ts.needs
    res = needs.resources
    uses = 0
    if ts.dependents and not ts.wanted and not ts.graph.open and needs.copies <= 1:
        for d in ts.dependents:
            if d.processing_on is not worker:
                break
        else:
            ts.forgets = True
            uses = len(ts.dependents)
    kind = ts.prefix.bound if needs.bound else ts.prefix.kind
    if not ts.dependencies:
        return _make(RunTask, (ts.id, ts.rank, ts.spec, kind, needs.executor, (), uses, ts.attempt, res, ()))
    holders: list[tuple[int, tuple[str, ...]]] = []
    inputs = []
    for d in ts.dependencies:
        inputs.append(d.id)
        if d.who_has and worker not in d.who_has:
            holders.append((d.id, _nearest_first(d, worker)))
    return _make(
        RunTask,
        (ts.id, ts.rank, ts.spec, kind, needs.executor, inputs, uses, ts.attempt, res, holders),
    )


def _nearest_first(ts: TaskState, worker: WorkerState) -> tuple[str, ...]:
    """Those that hold a result, the one from which it is soonest brought to a worker before the others."""
    holders = ts.who_has
    if worker.links is not None and len(holders) > 1:
        first = nearest(ts, worker, worker.links)
        if first is not None and first is not holders[0]:
            return (first.id, *[w.id for w in holders if w is not first])
    return tuple(w.id for w in holders)


_make = tuple.__new__  # a NamedTuple's own constructor takes three times as long
