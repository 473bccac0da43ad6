"""A worker's view of its tasks and executors."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from enum import IntEnum
from heapq import heappop, heappush

from hetsched.core.commands import RunTask
from hetsched.core.types import TaskId

__all__ = ["Batch", "Job", "JobPhase", "Kind", "Lane", "ReadyQueue"]


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


class Kind:
    """How long tasks of one prefix take here: a moving mean in seconds, negative while unknown."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = -1.0


class Job:
    """A task on its worker."""

    __slots__ = (
        "attempt", "dependents", "drops", "executor", "id", "inputs", "kind", "phase", "rank", "resources", "spec",
        "uses", "waiting",
    )  # fmt: skip

    def __init__(self, task: TaskId) -> None:
        self.id = task
        self.phase = JobPhase.ABSENT
        self.dependents: list[Job] | tuple[()] = ()
        self.inputs: Sequence[TaskId] = ()
        self.drops: Sequence[TaskId] = ()
        self.uses = 0
        self.waiting = 0

    def take(self, order: RunTask, kind: Kind) -> None:
        """Fill in what was ordered."""
        _, self.rank, self.spec, _, self.executor, self.inputs, self.uses, self.attempt, self.resources, _ = order
        self.kind = kind

    def __lt__(self, other: Job) -> bool:
        # Only asked where a job is in a queue twice, its first place there being stale.
        return self.id < other.id

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.phase.name}>"


class ReadyQueue:
    """Jobs by rank, the smallest first; may hold jobs that are not READY any more.

    Most come in the order of their ranks, as they were submitted: those wait in a line, whose ends cost nothing. Those
    that come out of order are in a heap.
    """

    __slots__ = ("_heap", "_line")

    def __init__(self) -> None:
        self._line: deque[Job] = deque()
        self._heap: list[tuple[int, Job]] = []

    def __len__(self) -> int:
        return len(self._line) + len(self._heap)

    def __iter__(self) -> Iterator[Job]:
        yield from self._line
        yield from (job for _, job in self._heap)

    def push(self, job: Job) -> None:
        """Add a job."""
        line = self._line
        if not line or job.rank >= line[-1].rank:
            line.append(job)
        else:
            heappush(self._heap, (job.rank, job))

    def first(self) -> Job | None:
        """Return the first job that is READY, dropping those before it that are not; None if there is none."""
        line, heap = self._line, self._heap
        while line and line[0].phase is not JobPhase.READY:
            line.popleft()
        while heap and heap[0][1].phase is not JobPhase.READY:
            heappop(heap)
        if not heap:
            return line[0] if line else None
        if not line or heap[0][0] < line[0].rank:
            return heap[0][1]
        return line[0]

    def pop(self, first: Job) -> None:
        """Take the job out that :meth:`first` has just returned."""
        if self._line and self._line[0] is first:
            self._line.popleft()
        else:
            heappop(self._heap)


class Lane:
    """An executor as the mind sees it: its slots, those not in use, and what waits for one."""

    __slots__ = ("free", "ready", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.free = slots
        self.ready = ReadyQueue()


class Batch:
    """What one slot is busy with."""

    __slots__ = ("asked", "executor", "independent", "jobs", "number", "resources", "yielded")

    def __init__(self, number: int, executor: str, resources: tuple[tuple[str, float], ...]) -> None:
        self.number = number
        self.executor = executor
        self.resources = resources
        self.jobs: dict[TaskId, Job] = {}
        self.yielded = False
        self.asked = False
        self.independent = 0
        """How many of its tasks have all inputs here, and so could run in another slot."""
