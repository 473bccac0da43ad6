"""The default policy, with second thoughts: what waits goes to who has nothing to do, if it is sooner there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetsched.core.costs import duration_of, is_known, transfer_seconds
from hetsched.core.state import TaskState, WorkerState

from .earliest_finish import EarliestFinish
from .given import Given, can_move

__all__ = ["Rebalancing"]


class Rebalancing(EarliestFinish):
    """Earliest finish time, corrected as the run shows that expectations were wrong.

    Two things differ from the default. A kind of task that was never measured is taken to last ``unknown`` seconds when
    workers' queues are looked at, so that the first of a kind are spread before the first has ended. And a worker with
    a free slot takes a task that waits elsewhere, if it would be done sooner by more than half of what it takes; the
    rule is that of dask.distributed's work stealing ("Work stealing" in its documentation). A task that is taken just
    as it begins runs twice.
    """

    name = "rebalancing"

    def __init__(self, unknown: float = 0.5) -> None:
        super().__init__()
        self._unknown = unknown
        self._given = Given()

    def expects(self, task: TaskState, worker: WorkerState) -> float:
        """Seconds the task is expected to run."""
        return duration_of(task) if is_known(task) else self._unknown

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick the worker that would finish the task first."""
        worker = super().choose(task, workers)
        self._given.add(task, worker)
        return worker

    def moves(self, workers: Sequence[WorkerState], now: float) -> Iterator[tuple[TaskState, WorkerState]]:
        """Give those with free slots what waits elsewhere, the longest queue first."""
        return self._given.moves(workers, self._take)

    def _take(self, thief: WorkerState, executor: str, workers: Sequence[WorkerState]) -> TaskState | None:
        busy = [w for w in workers if w.assigned.get(executor, 0) > w.capacity.executors.get(executor, 0) > 0]
        busy.sort(key=lambda w: w.assigned[executor] / w.capacity.executors[executor], reverse=True)
        for victim in busy:
            slots = victim.capacity.executors[executor]
            waiting = self._given.queued(victim, executor)
            for place in range(len(waiting) - 1, -1, -1):
                ts = waiting[place]
                lasts = self.expects(ts, thief)
                there = (1 + place // slots) * lasts / 2
                if transfer_seconds(ts, thief) + lasts / 2 < there + lasts and can_move(ts, thief):
                    return ts
        return None
