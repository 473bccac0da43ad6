"""What a placement policy is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hetsched.core.state import TaskState, WorkerState

__all__ = ["Policy"]


class Policy(Protocol):
    """Chooses a worker for a task. A policy that keeps state of its own must be a pure function of the calls so far.

    It may have more, each of which is left out by a policy that does not want it:

    ``waits_for_data = True``
        A task waits for a worker that has no room, where that holds large inputs and waiting is expected to take less
        time than moving those to the worker chosen; or where the task is long, the worker chosen has no free slot, and
        the other is expected to come to it sooner.
    ``offers_all = True``
        ``choose`` is offered every worker that could run the task, whether it has room or not, and the task goes into
        the queue of the one chosen. Else it is offered those with room, two at least.
    ``runs_ahead = False``
        No task goes to a worker without being chosen for. Else one may follow its inputs to the worker that makes them.
    ``order(tasks, workers) -> tasks``
        Says in which order the tasks of a new graph should start, their dependencies linked. Else it is the order in
        which they were submitted (:mod:`hetsched.core.order`).
    ``last(tasks, workers) -> tasks``
        Which of the tasks of a new graph should change places, and the order in which they should start then. It is
        asked where there are several workers.
    ``expects(task, worker) -> seconds``
        How long the task is taken to run there, for the worker's ``occupancy``. Else what is known of the task alone.
    ``match(ready, workers, now) -> pairs of task and worker``
        Takes the place of ``choose``: is given all ready tasks by rank, and all workers, after every event that leaves
        some ready. It must only pair what :meth:`hetsched.core.needs.Needs.met_by` allows.
    ``moves(workers, now) -> pairs of task and worker``
        Asked after every event for assigned tasks that should go to another worker. One that has begun is begun again
        there, so tasks may run twice. Tasks that lack an input, or whose readers are assigned already, stay.
    """

    name: str

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState | None:
        """Pick one of ``workers``, all able and willing to take the task, the tie broken by rule.

        None: not now. The task is offered again after the next event; where no worker has anything to do, one is
        given a task all the same.
        """
        ...
