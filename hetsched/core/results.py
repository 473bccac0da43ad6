"""Take note of tasks that have run: the busiest path of the scheduler, a few microseconds a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .costs import learn
from .events import TasksFinished
from .needs import Needs
from .state import Phase, State, TaskPrefix, TaskState, WorkerState

__all__ = ["Collected", "collect"]

_WAITING: Final = Phase.WAITING
_MEMORY: Final = Phase.MEMORY


class Collected:
    """What follows: results nobody needs any more, tasks whose inputs are complete, results a client wants.

    ``finished`` are all that are there now, ``on_device`` those whose result is on a device. ``untrue`` are tasks said
    to have run without inputs: whatever they were made of, they have to be made again.
    """

    __slots__ = ("finished", "on_device", "ready", "released", "untrue", "wanted")

    def __init__(self) -> None:
        self.finished: list[TaskState] = []
        self.on_device: list[TaskState] = []
        self.released: list[TaskState] = []
        self.ready: list[TaskState] = []
        self.wanted: list[TaskState] = []
        self.untrue: list[TaskState] = []


def collect(state: State, worker: WorkerState, event: TasksFinished, now: float) -> Collected:  # noqa: C901 - hot
    """Move what a worker finished to MEMORY, learn from it, and say what follows.

    An outcome of a task that was cancelled or given to another since is passed over: it crossed the order on its way.
    """
    got = Collected()
    tasks = state.tasks
    finished = got.finished
    assigned, alone = worker.assigned, worker.alone
    prefix: TaskPrefix | None = None
    needs: Needs | None = None
    count = total = nbytes_held = of_needs = 0
    seconds = 0.0
    outcomes: Sequence[tuple[Any, int, float, float, int, int]] = event.outcomes  # ids as the objects they are
    for task, attempt, start, stop, nbytes, cuda_nbytes in outcomes:
        ts = tasks.get(task)
        if ts is None or ts.processing_on is not worker or ts.attempt != attempt:
            continue
        if ts.waiting_on:
            got.untrue.append(ts)
            continue
        finished.append(ts)
        ts.processing_on = None
        ts.who_has = alone
        ts.nbytes = nbytes
        ts.cuda_nbytes = cuda_nbytes
        if cuda_nbytes:
            got.on_device.append(ts)
        if ts.needs is not needs:
            if needs is not None:
                assigned[needs.executor] -= of_needs
            needs = ts.needs
            of_needs = 0
        of_needs += 1
        worker.occupancy -= ts.estimate
        nbytes_held += nbytes
        if ts.prefix is not prefix:
            if prefix is not None:
                learn(prefix, event.executor, count, seconds, total)
            prefix = ts.prefix
            count = total = 0
            seconds = 0.0
        count += 1
        seconds += stop - start
        total += nbytes
        for d in ts.dependents:
            d.waiting_on -= 1
            if not d.waiting_on and d.phase is _WAITING:
                got.ready.append(d)
        for d in ts.dependencies:
            d.users -= 1
            if not d.users:
                got.released.append(d)
        if ts.wanted:
            got.wanted.append(ts)
    if prefix is not None:
        learn(prefix, event.executor, count, seconds, total)
    if needs is not None:
        assigned[needs.executor] -= of_needs
    worker.nbytes += nbytes_held
    worker.held += len(finished)
    if not any(assigned.values()):
        worker.occupancy = 0.0
    state.move(finished, _MEMORY, worker.id, now)
    return got
