"""Each task, when it is ready, into the queue of the worker that would have done it first."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.core.state import TaskState, WorkerState

from .expected import expected_finish, seconds_on

__all__ = ["Eft"]


class Eft:
    """Earliest finish time at once, full queues or not.

    "Minimum completion time" of T. D. Braun and others, "A comparison of eleven static heuristics for mapping a class
    of independent tasks onto heterogeneous distributed computing systems", JPDC 61 (2001), with the time to bring
    inputs. The default policy is a relative that keeps tasks back until a worker has room for them.
    """

    name = "eft"
    offers_all = True

    def expects(self, task: TaskState, worker: WorkerState) -> float:
        """Seconds the task is expected to run there."""
        return seconds_on(task, worker)

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick the worker that finishes it first, then the one that holds less, then the first."""
        return min(workers, key=lambda w: (expected_finish(task, w), w.nbytes))
