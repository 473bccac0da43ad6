"""Workers that are about to end: have what only they hold copied by others, until they may go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace

from .outbox import Outbox
from .state import State, TaskState, WorkerState
from .types import TaskId

__all__ = ["Retiring", "may_leave"]


class Retiring:
    """Keeps for each retiring worker the results that it alone holds, and who was asked to copy each.

    All tasks are looked at once, when a worker begins to retire; from then on what happens is followed.
    """

    __slots__ = ("_outbox", "_state")

    def __init__(self, state: State, outbox: Outbox) -> None:
        self._state = state
        self._outbox = outbox

    def begin(self, worker: WorkerState) -> None:
        """Give a worker nothing more, and have others copy what only it holds. Said again it changes nothing."""
        if worker.copying is None:
            worker.copying = {}
            if worker.held:
                self._add(self._state.tasks.values())
            self.ask()

    def made(self, worker: WorkerState, tasks: Sequence[TaskId]) -> None:
        """Note that a worker which may be retiring holds more results."""
        if worker.copying is not None:
            known = self._state.tasks
            self._add([known[task] for task in tasks if task in known])
            self.ask()

    def lost(self, held: Sequence[TaskState]) -> None:
        """Note that a worker is lost which held these results, and perhaps was to copy others: ask others for those."""
        self._add(held)
        self.ask()

    def _add(self, tasks: Iterable[TaskState]) -> None:
        for ts in tasks:
            if len(ts.who_has) == 1:
                copying = ts.who_has[0].copying
                if copying is not None and ts.id not in copying:
                    copying[ts.id] = None

    def ask(self) -> None:
        """Have copied what nobody was asked to copy, or one who is lost, spread over those with the least to hold.

        As long as others are in the worker's pool its results stay there.
        """
        workers = self._state.workers
        for worker in workers.values():
            if not worker.copying:
                continue
            targets = [(w.nbytes, n, w) for n, w in enumerate(workers.values()) if w.copying is None]
            if not targets:
                return
            pool = worker.capacity.pool
            targets = [target for target in targets if target[2].capacity.pool == pool] or targets
            heapify(targets)
            for task, target in worker.copying.items():
                if target is not None and workers.get(target.id) is target:
                    continue
                ts = self._state.tasks.get(task)
                if ts is None or ts.who_has != (worker,):
                    continue  # it need not be copied any more; may_leave() strikes it out
                load, n, chosen = targets[0]
                worker.copying[task] = chosen
                self._outbox.copy(chosen, ts)
                heapreplace(targets, (load + max(ts.nbytes, 1), n, chosen))


def may_leave(state: State, worker: WorkerState) -> bool:
    """Tell whether a retiring worker has nothing left to do, and others hold what is needed of its results.

    Where all workers retire nobody could hold them.
    """
    if any(worker.assigned.values()):
        return False
    if all(w.copying is not None for w in state.workers.values()):
        return True
    copying = worker.copying
    while copying:
        task = next(iter(copying))
        ts = state.tasks.get(task)
        if ts is not None and ts.who_has == (worker,):
            return False
        del copying[task]
    return True
