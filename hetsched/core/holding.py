"""Keep ready tasks back for the workers that hold their large inputs, where that takes less time than moving those."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from .costs import duration_of, is_large, transfer_seconds, wait_seconds
from .state import Phase, State, TaskState, WorkerState
from .types import TaskId

__all__ = ["Holding"]

_READY: Final = Phase.READY
_NONE: Final[Sequence[WorkerState]] = ()


class Holding:
    """Ready tasks that wait, although some worker has room, for one that has none and holds large inputs of theirs.

    A task waits where its turn is expected to come sooner than its inputs could be brought to the best worker that has
    room, and at most for as long as bringing them would take, whatever becomes of the expectation. So waiting costs at
    most as much again as moving, which is the bound of the ski rental problem (Karlin, Manasse, Rudolph, Sleator 1988);
    that a short wait for the data pays is what delay scheduling found (Zaharia and others 2010).
    """

    __slots__ = ("_seconds", "_state", "_timed", "_until")

    def __init__(self, state: State) -> None:
        self._state = state
        self._seconds: dict[tuple[WorkerState, str], float] = {}
        """Of each queue, how long its tasks are expected to run."""
        self._until: list[tuple[float, TaskId]] = []
        """A heap: when a task has waited as long as it may."""
        self._timed: set[TaskId] = set()

    @property
    def due(self) -> float | None:
        """When the first of the tasks has waited as long as it may (seconds on the scheduler's clock), if any waits."""
        return self._until[0][0] if self._until else None

    def keep(self, ts: TaskState, worker: WorkerState, now: float) -> bool:
        """Keep a ready task back if it should not go to ``worker``, the best that has room; tell whether it was kept.

        Of the other workers it looks at those alone that hold large inputs which ``worker`` has not got.
        """
        holders = _holders(ts, worker)
        if not holders or 0.0 < ts.waits_until <= now or ts.needs.workers is not None:
            return False
        executor = ts.needs.executor
        moving = transfer_seconds(ts, worker)
        least = wait_seconds(worker, ts.needs) + moving
        found: tuple[WorkerState, str] | None = None
        for holder in holders:
            if holder.room_for(executor) > 0 or not _takes(holder, executor):
                continue
            if not ts.needs.met_by(holder.id, holder.capacity):
                continue
            kept = self._seconds.get((holder, executor), 0.0)
            seconds = wait_seconds(holder, ts.needs, kept) + transfer_seconds(ts, holder)
            if seconds < least:
                found, least = (holder, executor), seconds
        if found is None:
            return False
        if ts.waits_until <= 0.0 or ts.waits_until > now + moving:
            ts.waits_until = now + moving
        if ts.id not in self._timed:
            self._timed.add(ts.id)
            heappush(self._until, (ts.waits_until, ts.id))
        lasts = duration_of(ts)
        heappush(self._state.held.setdefault(found, []), (ts.rank, ts.id, lasts))
        self._seconds[found] = self._seconds.get(found, 0.0) + lasts
        return True

    def give_back(self, now: float) -> list[TaskState]:
        """Take those whose worker has room, or takes them no longer, and those that have waited as long as they may."""
        found: list[TaskState] = []
        held = self._state.held
        for place in list(held):
            worker, executor = place
            heap = held[place]
            there = self._state.workers.get(worker.id) is worker and _takes(worker, executor)
            room = worker.room_for(executor) if there else len(heap)
            while heap and (room > 0 or self._waiting(heap[0][1]) is None):
                _, task, lasts = heappop(heap)
                self._seconds[place] -= lasts
                ts = self._waiting(task)
                if ts is not None:
                    found.append(ts)
                    room -= 1
            if not heap:
                del held[place]
                del self._seconds[place]
        until = self._until
        while until and (until[0][0] <= now or self._waiting(until[0][1]) is None):
            task = heappop(until)[1]
            self._timed.discard(task)
            ts = self._waiting(task)
            if ts is not None:
                found.append(ts)
        if not held:
            until.clear()
            self._timed.clear()
        return found

    def _waiting(self, task: TaskId) -> TaskState | None:
        ts = self._state.tasks.get(task)
        return ts if ts is not None and ts.phase is _READY else None


def _takes(worker: WorkerState, executor: str) -> bool:
    """Whether a worker will take tasks again once it has room."""
    return worker.copying is None and worker.capacity.executors.get(executor, 0) > 0


def _holders(ts: TaskState, worker: WorkerState) -> Sequence[WorkerState]:
    """Those that hold large inputs of a task which ``worker`` has not got."""
    found: dict[WorkerState, None] | None = None
    for d in ts.dependencies:
        if not worker.gets(d) and is_large(d, worker):
            if found is None:
                found = {}
            for w in d.who_has:
                found[w] = None
    return _NONE if found is None else list(found)
