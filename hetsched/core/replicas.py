"""Have results kept by as many workers as their tasks ask for (the annotation ``replicate``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .outbox import Outbox
from .state import Phase, State, TaskState, WorkerState
from .types import TaskId

__all__ = ["Replicas"]


class Replicas:
    """Orders copies when a result is made, and again from the truth when workers come or go.

    Copies go to the workers with the least to hold, within the pools and the workers that the task names; one that is
    to leave neither gets any nor counts. What does not come about is ordered again at the next change of workers.
    """

    def __init__(self, state: State, outbox: Outbox) -> None:
        self._state = state
        self._outbox = outbox
        self._some = False
        """Whether there ever was a task that asked for copies."""
        self._asked: dict[TaskId, dict[WorkerState, None]] = {}
        """The workers that were told to get a copy and have not said that they have."""

    def made(self, tasks: Iterable[TaskState]) -> None:
        """Order the copies of new results."""
        workers: list[WorkerState] | None = None
        more: dict[WorkerState, int] = {}
        for ts in tasks:
            if ts.needs.copies > 1:
                self._some = True
                if workers is None:
                    workers = self._workers()
                self._spread(ts, workers, more)

    def came(self, worker: WorkerState, tasks: Sequence[TaskId]) -> None:
        """Note that a worker has got copies."""
        for task in tasks if self._asked else ():
            asked = self._asked.get(task)
            if asked is not None:
                asked.pop(worker, None)
                if not asked:
                    del self._asked[task]

    def review(self) -> None:
        """Look at all results: other workers are there than before."""
        if not self._some:
            return
        before, self._asked = self._asked, {}
        workers = self._workers()
        more: dict[WorkerState, int] = {}
        for ts in self._state.tasks.values():
            if ts.needs.copies > 1:
                self._spread(ts, workers, more, before.get(ts.id))

    def _workers(self) -> list[WorkerState]:
        return [w for w in self._state.workers.values() if w.copying is None]

    def _spread(
        self,
        ts: TaskState,
        workers: list[WorkerState],
        more: dict[WorkerState, int],
        asked: dict[WorkerState, None] | None = None,
    ) -> None:
        if ts.phase is not Phase.MEMORY:
            return
        able = [w for w in workers if ts.needs.may_hold(w.id, w.capacity)]
        others = [w for w in able if w not in ts.who_has]
        short = ts.needs.copies - (len(able) - len(others))
        if short <= 0 or not others:
            return
        # Those that were asked before are asked again: what is under way is not fetched twice.
        others.sort(key=lambda w: (asked is None or w not in asked, w.nbytes + more.get(w, 0), w.id))
        for w in others[:short]:
            self._asked.setdefault(ts.id, {})[w] = None
            more[w] = more.get(w, 0) + max(ts.nbytes, 1)
            self._outbox.copy(w, ts)
