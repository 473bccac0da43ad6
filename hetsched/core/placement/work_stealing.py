"""Tasks stay where their inputs are made, until somebody has nothing to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetsched.core.state import TaskState, WorkerState

from .given import Given, can_move
from .locality import Locality

__all__ = ["WorkStealing"]


class WorkStealing(Locality):
    """Work stealing, through the scheduler.

    A task goes to the worker that has most of its inputs; a worker with a free slot takes from the worker with the
    longest queue the task that would start there last. After R. D. Blumofe and C. E. Leiserson, "Scheduling
    multithreaded computations by work stealing", JACM 46 (1999), whose thieves pick their victim at random. It knows
    neither durations nor sizes, and a task that is stolen just as it begins runs twice.
    """

    name = "work_stealing"

    def __init__(self) -> None:
        self._given = Given()

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick the worker that has most of the inputs."""
        worker = super().choose(task, workers)
        self._given.add(task, worker)
        return worker

    def moves(self, workers: Sequence[WorkerState], now: float) -> Iterator[tuple[TaskState, WorkerState]]:
        """Give those with free slots what waits elsewhere."""
        return self._given.moves(workers, self._steal)

    def _steal(self, thief: WorkerState, executor: str, workers: Sequence[WorkerState]) -> TaskState | None:
        def surplus(w: WorkerState) -> int:
            return w.assigned.get(executor, 0) - w.capacity.executors.get(executor, 0)

        for victim in sorted((w for w in workers if surplus(w) > 0), key=surplus, reverse=True):
            for ts in reversed(self._given.queued(victim, executor)):
                if can_move(ts, thief):
                    return ts
        return None
