"""What a worker must get from its peers, and whom to ask next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetsched.core.types import TaskId, WorkerId

from .instructions import BatchExecuted, Fetch, Instruction, KeysFetched
from .jobs import Batch, Job, JobPhase

__all__ = ["Fetcher", "missed", "places_for"]

FETCH_TASKS = 256
"""The most results asked for in one request."""


class Fetcher:
    """Keeps one request under way per peer, many results in each; asks another holder where one has it not."""

    __slots__ = ("_asked", "_holders")

    def __init__(self) -> None:
        self._holders: dict[TaskId, list[WorkerId]] = {}
        """Results that are to come, with those not yet tried, the next first."""
        self._asked: dict[WorkerId, dict[TaskId, None]] = {}

    def want(self, holders: Sequence[tuple[TaskId, tuple[WorkerId, ...]]], jobs: Mapping[TaskId, Job]) -> None:
        """Note who is said to hold which inputs."""
        for task, workers in holders:
            if jobs[task].phase is JobPhase.ABSENT and task not in self._holders:
                self._holders[task] = list(workers)

    def expects(self, task: TaskId) -> bool:
        """Tell whether a result is to come from a peer."""
        return task in self._holders

    def give_up(self, task: TaskId) -> None:
        """Nobody here needs it any more; what is under way is dropped when it comes."""
        self._holders.pop(task, None)

    def ask(self, out: list[Instruction]) -> None:
        """Ask every idle peer for what it holds of what is wanted."""
        if not self._holders:
            return
        under_way = {task for tasks in self._asked.values() for task in tasks}
        requests: dict[WorkerId, dict[TaskId, None]] = {}
        for task, workers in self._holders.items():
            if task in under_way or not workers:
                continue
            peer = next((w for w in workers if w not in self._asked), None)
            if peer is not None and len(requests.setdefault(peer, {})) < FETCH_TASKS:
                requests[peer][task] = None
        for peer, tasks in requests.items():
            self._asked[peer] = tasks
            out.append(Fetch(peer, list(tasks)))

    def came(self, event: KeysFetched) -> list[TaskId]:
        """Take note of an answer; return the results nobody is left to be asked for."""
        self._asked.pop(event.peer, None)
        for task in event.came:
            self._holders.pop(task, None)
        lost = []
        for task in event.missing:
            workers = self._holders.get(task)
            if workers is None:
                continue
            if event.peer in workers:
                workers.remove(event.peer)
            if not workers:
                del self._holders[task]
                lost.append(task)
        return lost


def missed(batch: Batch, event: BatchExecuted, jobs: Mapping[TaskId, Job]) -> dict[TaskId, None]:
    """Tell which inputs were taken to be here and are not; what a cancelled task missed may have come since."""
    if not event.missing:
        return {}
    left = [batch.jobs[task] for task in event.left if task in batch.jobs]
    live = {i for job in left if job.phase is JobPhase.QUEUED for i in job.inputs}
    return {i: None for i in event.missing if i in live and (i not in jobs or jobs[i].phase is JobPhase.HELD)}


def places_for(lost: Sequence[TaskId], jobs: Mapping[TaskId, Job]) -> dict[TaskId, Job]:
    """Make places for results that are not here after all, and have those that read them wait again."""
    places = {task: Job(task) for task in lost}
    for job in jobs.values():
        if job.phase is JobPhase.WAITING or job.phase is JobPhase.READY:
            for i in places.keys() & set(job.inputs):
                # A reader that is in a batch comes back from it, and then is met here again.
                places[i].dependents = [*places[i].dependents, job]
                job.waiting += 1
                job.phase = JobPhase.WAITING
    return places
