"""A worker's view of its tasks and executors."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Final

from hetsched.core.commands import RunTask
from hetsched.core.needs import level_of
from hetsched.core.types import TaskId

from .instructions import ANY_DEVICE

__all__ = [
    "ABSENT",
    "CANCELLED",
    "HELD",
    "NOBODY",
    "NOTHING",
    "QUEUED",
    "READY",
    "WAITING",
    "Batch",
    "Job",
    "JobPhase",
    "Kind",
    "Lane",
    "ReadyQueue",
]


class JobPhase(IntEnum):
    """Where a task stands on its worker."""

    ABSENT = 0
    """Not here: a result that others read and that is to come, by an order or from a peer."""
    WAITING = 1
    """Ordered; some inputs are not here."""
    READY = 2
    """Ordered; its inputs are here."""
    QUEUED = 3
    """In a batch."""
    HELD = 4
    """Its result is here."""
    CANCELLED = 5
    """In a batch, and nobody wants it any more."""


ABSENT: Final = JobPhase.ABSENT
WAITING: Final = JobPhase.WAITING
READY: Final = JobPhase.READY
QUEUED: Final = JobPhase.QUEUED
HELD: Final = JobPhase.HELD
CANCELLED: Final = JobPhase.CANCELLED


class Kind:
    """What tasks of one kind take here: moving means of seconds (negative while unknown), of result bytes, and of those
    on a device.

    ``free``: no person has said that they are for the CPU. ``gpu``: they are GPU tasks, wherever they were ordered to.
    """

    __slots__ = ("cuda_nbytes", "free", "gpu", "nbytes", "seconds")

    def __init__(self, name: str = "") -> None:
        self.seconds = -1.0
        self.nbytes = 0.0
        self.cuda_nbytes = 0.0
        self.free = not name.endswith("!")
        self.gpu = False


class Job:
    """A task on its worker."""

    __slots__ = (
        "attempt", "cuda_nbytes", "dependents", "device", "drops", "executor", "id", "inputs", "kind", "level", "near",
        "phase", "rank", "resources", "spec", "uses", "waiting",
    )  # fmt: skip

    def __init__(self, task: TaskId) -> None:
        self.id = task
        self.phase = ABSENT
        self.dependents: list[Job] = NOBODY
        self.inputs: list[TaskId] = NOTHING
        self.drops: list[TaskId] = NOTHING
        self.uses = 0
        self.waiting = 0
        self.near = False
        """An input of it is on a device."""
        self.cuda_nbytes = 0
        """The bytes of its result on a device, and"""
        self.device = ANY_DEVICE
        """on which it is, where there are several and that was told."""

    def take(self, order: RunTask, kind: Kind) -> None:
        """Fill in what was ordered."""
        _, self.rank, self.spec, _, self.executor, inputs, self.uses, self.attempt, self.resources, _ = order
        self.inputs = inputs if isinstance(inputs, list) else list(inputs) if inputs else NOTHING
        self.kind = kind
        self.level = level_of(self.rank)

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.phase.name}>"


NOBODY: Final[list[Job]] = []
"""No jobs, and"""
NOTHING: Final[list[TaskId]] = []
"""no tasks: shared by all that have none, so nothing is ever put into them."""


class _Level:
    """The ready jobs of one level of priority."""

    __slots__ = ("gone", "heap", "line", "pushed", "stack")

    def __init__(self) -> None:
        self.line: list[Job] = []
        self.gone = 0
        """How many at the front of the line have left it."""
        self.heap: list[tuple[int, int, Job]] = []
        """``(rank, serial, job)``; the serial is for a task that is in it twice, its first place being stale."""
        self.pushed = 0
        self.stack: list[Job] = []

    def first(self) -> Job | None:
        stack, line, heap = self.stack, self.line, self.heap
        while stack:
            job = stack[-1]
            if job.phase is READY:
                return job
            stack.pop()
        while self.gone < len(line) and line[self.gone].phase is not READY:
            self.leave()
        while heap and heap[0][2].phase is not READY:
            heappop(heap)
        first = line[self.gone] if self.gone < len(line) else None
        if heap and (first is None or heap[0][0] < first.rank):
            return heap[0][2]
        return first

    def leave(self) -> None:
        """Take the first out of the line, whose front is cleared from time to time."""
        gone = self.gone + 1
        if gone == len(self.line) or gone == 256:
            del self.line[:gone]
            gone = 0
        self.gone = gone

    def jobs(self) -> list[Job]:
        """All of them, the line first."""
        return [*self.line[self.gone :], *(job for _, _, job in self.heap), *self.stack]


class ReadyQueue:
    """Jobs in the order they should start; may hold jobs that are not READY any more.

    Higher levels of priority go first. In a level, what an ended task has just made ready goes before what was ready
    already, the last first: its inputs are in memory and may be the last readers' to free. Then come those that were
    ready from the start, by rank. This is what dask's own local scheduler does at run time, and it holds up to a third
    less in memory than going by rank alone.
    """

    __slots__ = ("_levels", "levels")

    def __init__(self) -> None:
        self._levels: dict[int, _Level] = {}
        self.levels: list[int] = []
        """The levels that may have a job, the first to start in front; empty where nothing waits."""

    def __len__(self) -> int:
        count = 0
        for level in self._levels.values():
            count += len(level.line) - level.gone + len(level.heap) + len(level.stack)
        return count

    def __iter__(self) -> Iterator[Job]:
        for level in self._levels.values():
            yield from level.jobs()

    def _level(self, number: int) -> _Level:
        level = self._levels.get(number)
        if level is None:
            level = self._levels[number] = _Level()
            insort(self.levels, number)
        return level

    def add(self, job: Job) -> None:
        """Add a job that is ready from the start."""
        level = self._level(job.level)
        if not level.line or job.rank >= level.line[-1].rank:
            level.line.append(job)
        else:
            level.pushed += 1
            heappush(level.heap, (job.rank, level.pushed, job))

    def push(self, job: Job) -> None:
        """Add a job that should start before all others of its level."""
        self._level(job.level).stack.append(job)

    def remove(self, gone: set[Job]) -> None:
        """Take jobs out, whose order among themselves does not matter; a look at all there are."""
        for level in self._levels.values():
            level.line = [job for job in level.line[level.gone :] if job not in gone]
            level.gone = 0
            level.heap = [place for place in level.heap if place[2] not in gone]
            heapify(level.heap)
            level.stack = [job for job in level.stack if job not in gone]

    def first(self) -> Job | None:
        """Return the job to start next, None if there is none."""
        while self.levels:
            number = self.levels[0]
            job = self._levels[number].first()
            if job is not None:
                return job
            del self._levels[number], self.levels[0]
        return None

    def pop(self, first: Job) -> None:
        """Take the job out that :meth:`first` has just returned."""
        level = self._levels[self.levels[0]]
        if level.stack:
            level.stack.pop()
        elif level.gone < len(level.line) and level.line[level.gone] is first:
            level.leave()
        else:
            heappop(level.heap)


class Lane:
    """An executor as the mind sees it: its slots, those not in use, and what waits for one."""

    __slots__ = ("free", "ready", "slots", "yielded")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.free = slots
        self.ready = ReadyQueue()
        self.yielded: list[int] = []
        """The levels of tasks that wait and whose threads run others meanwhile."""


class Batch:
    """What one slot is busy with."""

    __slots__ = ("asked", "device", "executor", "independent", "jobs", "level", "number", "resources", "yielded")

    def __init__(self, number: int, executor: str, resources: tuple[tuple[str, float], ...]) -> None:
        self.number = number
        self.executor = executor
        self.device = ANY_DEVICE
        self.resources = resources
        self.jobs: dict[TaskId, Job] = {}
        self.yielded = False
        self.asked = False
        self.level = 0
        self.independent = 0
        """How many of its tasks have all inputs here, and so could run in another slot."""
