"""The default policy: where the task can be expected to start earliest, its inputs brought there."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.core.costs import duration_of, is_known, measured_duration, transfer_seconds, wait_seconds
from hetsched.core.state import TaskState, WorkerState

from .levels import longest_first, upward

__all__ = ["LAST_TASKS", "RUN_SECONDS", "RUN_TASKS", "EarliestFinish"]

LAST_TASKS = 3
"""Of so many tasks for each slot, at the end of a graph, those of the longest way go first, whatever they hold."""

RUN_TASKS = 64
"""So many tasks without inputs in a row may go to one worker before another that has less to do."""

RUN_SECONDS = 0.02
"""At most so many seconds of work per slot may a worker be ahead of another for that reason."""


class EarliestFinish:
    """Earliest finish time with locality.

    For each worker: the work it was given already, shared by its slots, plus the time to bring the inputs it lacks; the
    least wins, then the worker with fewer kinds of resources (a GPU is one: it is spared for those who need it), then
    the one with fewer bytes, those expected of what it is to make included, then the one that joined first. Short tasks
    without inputs go to one worker for a while.
    The greedy half of HEFT (Topcuoglu, Hariri, Wu 2002, section 4.2), the order of tasks being fixed before: one that
    holds few results, and among the last tasks, where slots would run empty, that of the longest way to an end.
    """

    name = "earliest_finish"
    waits_for_data = True

    def __init__(self) -> None:
        self._last: WorkerState | None = None

    def last(self, tasks: Sequence[TaskState], workers: Sequence[WorkerState]) -> list[TaskState]:
        """The last :data:`LAST_TASKS` for each slot of their executor, the longest way to an end of the graph first.

        None where nothing is known of their durations; those of which nothing is count as the mean of the others.
        """
        found = tasks[_where_the_end_begins(tasks, workers) :]
        known = {ts: duration_of(ts) for ts in found if is_known(ts)}
        if not known:
            return []
        usual = sum(known.values()) / len(known)
        return longest_first(found, upward(found, lambda ts: known.get(ts, usual)))

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick the worker that would finish the task first."""
        if not task.dependencies and not task.needs.workers:
            return self._choose_for_source(task, workers)
        return self._earliest(task, workers)

    def _choose_for_source(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Keep to one worker for a while: short tasks that come one after another are likely to be read together."""
        last = self._last
        lasts = measured_duration(task)
        if last is not None and lasts is not None and last in workers:
            executor = task.needs.executor
            ahead = min(RUN_TASKS * lasts, RUN_SECONDS)
            least = min(w.occupancy / w.capacity.executors[executor] for w in workers)
            if last.occupancy / last.capacity.executors[executor] <= least + ahead:
                return last
        self._last = self._earliest(task, workers)
        return self._last

    def _earliest(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        best = workers[0]
        best_cost = (float("inf"), 0, 0)
        lasts = duration_of(task)
        preferred = task.needs.workers or ()
        for worker in workers:
            seconds = wait_seconds(worker, task.needs) + lasts + transfer_seconds(task, worker)
            if preferred and worker.id not in preferred:
                seconds += 1e9
            cost = (seconds, len(worker.capacity.resources), worker.nbytes + worker.coming)
            if cost < best_cost:
                best, best_cost = worker, cost
        return best


def _where_the_end_begins(tasks: Sequence[TaskState], workers: Sequence[WorkerState]) -> int:
    left: dict[str, int] = {}
    for worker in workers:
        for executor, slots in worker.capacity.executors.items():
            left[executor] = left.get(executor, 0) + LAST_TASKS * slots
    for place in range(len(tasks) - 1, -1, -1):
        executor = tasks[place].needs.executor
        left[executor] = left.get(executor, 0) - 1
        if left[executor] < 0:
            return place + 1
    return 0
