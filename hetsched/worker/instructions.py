"""What may happen to a worker's mind beside the scheduler's orders, and what it tells its hands to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from hetsched.core.commands import CancelTasks, FetchKeys, FreeKeys, MoveTasks, RunTasks
from hetsched.core.events import InputsMissing, ReplicasAdded, TasksFailed, TasksFinished, TasksReturned
from hetsched.core.evidence import Evidence
from hetsched.core.types import Outcome, TaskId, TaskSpec, WorkerId

__all__ = [
    "ANY_DEVICE",
    "Announce",
    "BatchExecuted",
    "Drop",
    "Execute",
    "Fetch",
    "Instruction",
    "Item",
    "KeysFetched",
    "PatienceEnded",
    "Reclaim",
    "SlotRegained",
    "SlotYielded",
    "SlotsChanged",
    "Stop",
    "TasksReclaimed",
    "Tell",
    "WorkerInput",
]

ANY_DEVICE: Final = -1
"""No device in particular: where there are not several, or none is used."""

Item: TypeAlias = "tuple[TaskId, int, TaskSpec, Sequence[TaskId], Sequence[TaskId]]"
"""One task of a batch: id, attempt, what to run, its inputs, and the results nobody needs once it has run."""


class BatchExecuted(NamedTuple):
    """A slot has gone through its batch.

    ``failed`` holds ``(task, attempt, error, may_retry)``; ``left`` the tasks it did not run: stopped, without an
    input because an earlier one failed, or handed back because time ran out. ``missing`` are inputs that were not in
    the store when they were looked for. ``seen``, ``watched`` and ``device`` are as for TasksFinished and TasksFailed.
    ``device_room`` is how many bytes of device memory results may still take, on all devices together and, where there
    are several, on each; None where there is no limit. ``located`` are the results that are on a device, each with its
    number and the bytes there, where there are several devices.
    """

    batch: int
    done: Sequence[Outcome]
    failed: Sequence[tuple[TaskId, int, Any, bool]]
    left: Sequence[TaskId]
    missing: Sequence[TaskId] = ()
    seen: Sequence[tuple[TaskId, Evidence]] = ()
    device: Sequence[tuple[TaskId, str]] = ()
    watched: bool = False
    device_room: Sequence[int] | None = None
    located: Sequence[tuple[TaskId, int, int]] = ()


class TasksReclaimed(NamedTuple):
    """Tasks were taken back out of a batch before it came to them."""

    batch: int
    tasks: Sequence[TaskId]


class SlotYielded(NamedTuple):
    """The task a batch is at waits for a computation of its own and needs no slot meanwhile."""

    batch: int


class SlotRegained(NamedTuple):
    """That task goes on."""

    batch: int


class SlotsChanged(NamedTuple):
    """An executor has another number of slots (a new one starts with none)."""

    executor: str
    slots: int


class KeysFetched(NamedTuple):
    """A peer was asked for results: ``came`` arrived, ``missing`` it had not (or it could not be reached).

    ``located`` is as for BatchExecuted.
    """

    peer: WorkerId
    came: Sequence[TaskId]
    missing: Sequence[TaskId]
    located: Sequence[tuple[TaskId, int, int]] = ()


class PatienceEnded(NamedTuple):
    """What was cancelled has had time to end; a slot that is busy with it still is taken until it does."""


class Execute(NamedTuple):
    """Run these, one after another, in one slot of an executor: one of that device, unless it is negative."""

    executor: str
    batch: int
    items: Sequence[Item]
    device: int = ANY_DEVICE


class Reclaim(NamedTuple):
    """Take back up to ``tasks`` of them from the end of a batch."""

    batch: int
    tasks: int


class Stop(NamedTuple):
    """Ask these to stop: skip them if they have not begun, interrupt them where they look."""

    tasks: Sequence[TaskId]


class Drop(NamedTuple):
    """Forget these results."""

    tasks: Sequence[TaskId]


class Fetch(NamedTuple):
    """Ask a peer for these results."""

    peer: WorkerId
    tasks: Sequence[TaskId]


class Tell(NamedTuple):
    """Send this to the scheduler."""

    message: TasksFinished | TasksFailed | TasksReturned | InputsMissing | ReplicasAdded


class Announce(NamedTuple):
    """Say that so many slots of these executors, ``(executor, slots)``, cannot be used, and all of the others."""

    taken: Sequence[tuple[str, int]]


WorkerInput: TypeAlias = (
    RunTasks
    | MoveTasks
    | CancelTasks
    | FetchKeys
    | FreeKeys
    | BatchExecuted
    | TasksReclaimed
    | SlotYielded
    | SlotRegained
    | SlotsChanged
    | KeysFetched
    | PatienceEnded
)
"""What a worker's mind can be told."""

Instruction: TypeAlias = Execute | Reclaim | Stop | Drop | Fetch | Tell | Announce
"""What it answers with."""
