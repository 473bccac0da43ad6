"""A worker's view of its tasks and executors."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from hetsched.core.commands import RunTask
from hetsched.core.types import TaskId

__all__ = ["Batch", "Job", "JobPhase", "Kind", "Lane"]


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


class Lane:
    """An executor as the mind sees it: its slots, those not in use, and what waits for one."""

    __slots__ = ("free", "ready", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.free = slots
        self.ready: list[tuple[int, Job]] = []
        """A heap of ``(rank, job)``; may hold jobs that are not READY any more."""


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
