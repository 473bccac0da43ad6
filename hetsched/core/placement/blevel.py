"""The longest way to the end first, each task where it can start first."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.core.costs import transfer_seconds, wait_seconds
from hetsched.core.state import TaskState, WorkerState

from .expected import seconds_on, stand_ins, typical_seconds
from .levels import longest_first, upward

__all__ = ["BLevel"]


class BLevel:
    """List scheduling by b-level.

    Tasks go by the longest way from them to an end of the graph, transfers not counted; a worker with room takes each,
    the one that can start it first. "Highest level first with estimated times" of T. L. Adam, K. M. Chandy and J. R.
    Dickson, "A comparison of list schedules for parallel processing systems", CACM 17 (1974).
    """

    name = "blevel"

    def order(self, tasks: Sequence[TaskState], workers: Sequence[WorkerState]) -> list[TaskState]:
        """The longest way first."""
        kinds = stand_ins(workers)
        return longest_first(tasks, upward(tasks, lambda ts: typical_seconds(ts, kinds)))

    def expects(self, task: TaskState, worker: WorkerState) -> float:
        """Seconds the task is expected to run there."""
        return seconds_on(task, worker)

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick the worker that can start it first; of equal ones that which runs it faster, then the first."""
        def cost(w: WorkerState) -> tuple[float, float, int]:
            return wait_seconds(w, task.needs) + transfer_seconds(task, w), seconds_on(task, w), w.nbytes

        return min(workers, key=cost)
