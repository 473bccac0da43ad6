"""Which tasks a policy has given to which worker, and so which of them may be taken from it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hetsched.core.state import Phase, TaskState, WorkerState

__all__ = ["Given", "can_move"]


def can_move(ts: TaskState, worker: WorkerState) -> bool:
    """Whether an assigned task can be given to another worker: its inputs are there, and nobody counts on its place."""
    return (
        ts.phase is Phase.ASSIGNED
        and not ts.waiting_on
        and ts.processing_on is not worker
        and worker.copying is None
        and ts.needs.met_by(worker.id, worker.capacity)
        and all(d.processing_on is None for d in ts.dependents)
    )


class Given:
    """The tasks given to each worker, those that have gone from it forgotten when they are looked at."""

    def __init__(self) -> None:
        self._tasks: dict[WorkerState, list[TaskState]] = {}

    def add(self, task: TaskState, worker: WorkerState) -> None:
        """Note that a task is given to a worker."""
        self._tasks.setdefault(worker, []).append(task)

    def queued(self, worker: WorkerState, executor: str) -> list[TaskState]:
        """What has most likely not begun there: all but the first, as many as there are slots; in the order of rank."""
        tasks = [ts for ts in self._tasks.get(worker, ()) if ts.processing_on is worker and ts.phase is Phase.ASSIGNED]
        if tasks:
            self._tasks[worker] = tasks
        else:
            self._tasks.pop(worker, None)
        tasks = sorted((ts for ts in tasks if ts.needs.executor == executor), key=lambda ts: ts.rank)
        return tasks[worker.capacity.executors.get(executor, 0) :]

    def moves(
        self,
        workers: Sequence[WorkerState],
        take: Callable[[WorkerState, str, Sequence[WorkerState]], TaskState | None],
    ) -> Iterator[tuple[TaskState, WorkerState]]:
        """Give workers with free slots what ``take(worker, executor, workers)`` finds for them elsewhere."""
        for thief in workers:
            for executor, slots in thief.capacity.executors.items():
                while thief.assigned[executor] < slots:
                    before = thief.assigned[executor]
                    taken = take(thief, executor, workers)
                    if taken is None:
                        break
                    self.add(taken, thief)
                    yield taken, thief
                    if thief.assigned[executor] == before:
                        break
