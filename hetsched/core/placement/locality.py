"""Each task where most of what it reads is."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.core.costs import nbytes_of
from hetsched.core.state import TaskState, WorkerState

__all__ = ["Locality"]


class Locality:
    """The worker with the most bytes of a task's inputs, however long its queue is.

    Moving work to data is what Hadoop does (J. Dean and S. Ghemawat, "MapReduce", OSDI 2004). Of workers with as many
    bytes the one with the least work for each slot takes it, then the first; so tasks without inputs are spread.
    """

    name = "locality"
    offers_all = True

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick the worker that has most of the inputs."""
        executor = task.needs.executor
        there: dict[WorkerState, float] = {}
        for d in task.dependencies:
            for w in d.who_has:
                there[w] = there.get(w, 0.0) + nbytes_of(d)
        return min(
            workers, key=lambda w: (-there.get(w, 0.0), w.assigned[executor] / w.capacity.executors[executor])
        )
