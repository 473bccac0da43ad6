"""What a worker must get from its peers, and whom to ask next."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from hetsched.core.types import TaskId, WorkerId

from .instructions import BatchExecuted, Fetch, Instruction, KeysFetched
from .jobs import Batch, Job, JobPhase

__all__ = ["Fetcher", "missed", "places_for"]

FETCH_TASKS = 2048
"""The most results asked for in one request."""


class Fetcher:
    """Keeps one request under way per peer, many results in each; asks another holder where one has it not."""

    __slots__ = ("_asked", "_holders", "_offers", "_open", "_under_way")

    def __init__(self) -> None:
        self._holders: dict[TaskId, list[WorkerId]] = {}
        """Results that are to come, with those not yet tried, the next first."""
        self._asked: dict[WorkerId, None] = {}
        self._under_way: dict[TaskId, None] = {}
        self._offers: dict[WorkerId, deque[TaskId]] = {}
        """What each peer may be asked for; may hold what has come since, or is under way from another."""
        self._open: dict[WorkerId, None] = {}
        """The peers that are not being asked for anything and have something to offer."""

    def want(self, holders: Sequence[tuple[TaskId, tuple[WorkerId, ...]]], jobs: Mapping[TaskId, Job]) -> None:
        """Note who is said to hold which inputs."""
        for task, workers in holders:
            if jobs[task].phase is JobPhase.ABSENT and task not in self._holders:
                self._holders[task] = list(workers)
                self._offer(task, workers)

    def _offer(self, task: TaskId, workers: Sequence[WorkerId]) -> None:
        for worker in workers:
            self._offers.setdefault(worker, deque()).append(task)
            if worker not in self._asked:
                self._open[worker] = None

    def expects(self, task: TaskId) -> bool:
        """Tell whether a result is to come from a peer."""
        return task in self._holders

    def give_up(self, task: TaskId) -> None:
        """Nobody here needs it any more; what is under way is dropped when it comes."""
        self._holders.pop(task, None)

    def ask(self, out: list[Instruction]) -> None:
        """Ask every idle peer for what it holds of what is wanted."""
        if not self._open:
            return
        peers, self._open = self._open, {}
        for peer in peers:
            offers = self._offers[peer]
            tasks: list[TaskId] = []
            while offers and len(tasks) < FETCH_TASKS:
                task = offers.popleft()
                # What another peer is being asked for is offered anew if that one has it not.
                if task not in self._under_way and peer in self._holders.get(task, ()):
                    tasks.append(task)
                    self._under_way[task] = None
            if not offers:
                del self._offers[peer]
            if tasks:
                self._asked[peer] = None
                out.append(Fetch(peer, tasks))

    def came(self, event: KeysFetched) -> list[TaskId]:
        """Take note of an answer; return the results nobody is left to be asked for."""
        self._asked.pop(event.peer, None)
        if event.peer in self._offers:
            self._open[event.peer] = None
        for task in event.came:
            self._under_way.pop(task, None)
            self._holders.pop(task, None)
        lost = []
        for task in event.missing:
            self._under_way.pop(task, None)
            workers = self._holders.get(task)
            if workers is None:
                continue
            if event.peer in workers:
                workers.remove(event.peer)
            if workers:
                self._offer(task, workers)
            else:
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
