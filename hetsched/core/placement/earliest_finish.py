"""The default policy: where the task can be expected to start earliest, its inputs brought there."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.core.costs import duration_of, transfer_seconds
from hetsched.core.state import TaskState, WorkerState

__all__ = ["EarliestFinish"]


class EarliestFinish:
    """Earliest finish time with locality.

    For each worker: the work it was given already, shared by its slots, plus the time to bring the inputs it lacks; the
    least wins, then the worker with fewer bytes, then the one that joined first. The greedy half of HEFT (Topcuoglu,
    Hariri, Wu 2002, section 4.2), the order of tasks being fixed before.
    """

    name = "earliest_finish"

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick the worker that would finish the task first."""
        best = workers[0]
        best_cost = (float("inf"), 0)
        lasts = duration_of(task)
        executor = task.needs.executor
        preferred = task.needs.workers or ()
        for worker in workers:
            slots = worker.capacity.executors[executor]
            queued = worker.assigned[executor]
            wait = worker.occupancy / slots if queued >= slots else 0.0
            seconds = wait + lasts + transfer_seconds(task, worker)
            if preferred and worker.id not in preferred:
                seconds += 1e9
            cost = (seconds, worker.nbytes)
            if cost < best_cost:
                best, best_cost = worker, cost
        return best
