"""What a scheduler orders, in the imperative. Each is the wire message too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from .types import ClientId, TaskId, TaskSpec, WorkerId

__all__ = [
    "CancelTasks",
    "ClientCommand",
    "Command",
    "FetchKeys",
    "FreeKeys",
    "KeysFailed",
    "KeysReady",
    "MoveTasks",
    "RunTask",
    "RunTasks",
    "WorkerCommand",
]


class RunTask(NamedTuple):
    """One task to run.

    ``inputs`` are the ids of its dependencies, in the spec's order; ``holders`` says, for those that are neither on the
    worker nor being made there, who has them. Smaller ``rank`` runs first. A result with ``uses`` > 0 is forgotten by
    the worker, untold, when that many tasks of its own have read it; 0 means it is kept until freed. ``attempt`` tells
    this order from earlier ones for the same task, and comes back with the outcome. ``prefix`` names the kind of task;
    of tasks that a person has said are for the CPU it ends in "!".
    """

    task: TaskId
    rank: int
    spec: TaskSpec
    prefix: str
    executor: str
    inputs: Sequence[TaskId]
    uses: int = 0
    attempt: int = 0
    resources: tuple[tuple[str, float], ...] = ()
    holders: Sequence[tuple[TaskId, tuple[WorkerId, ...]]] = ()


class RunTasks(NamedTuple):
    """Run these, the inputs of each being here, made by an earlier one, or to be fetched."""

    worker: WorkerId
    tasks: Sequence[RunTask]


class MoveTasks(NamedTuple):
    """Run these on another executor, ``(task, executor)``, if they have not begun; those that run stay where they are.

    A worker that has no such executor puts them down and says so. ``kinds`` are kinds of tasks (the ``prefix`` of their
    orders) that are GPU tasks from now on, or not: ``(kind, whether)``.
    """

    worker: WorkerId
    tasks: Sequence[tuple[TaskId, str]]
    kinds: Sequence[tuple[str, bool]]


class CancelTasks(NamedTuple):
    """Put these down: do not start them, and stop those that can be stopped."""

    worker: WorkerId
    tasks: Sequence[TaskId]


class FreeKeys(NamedTuple):
    """Forget these results."""

    worker: WorkerId
    tasks: Sequence[TaskId]


class FetchKeys(NamedTuple):
    """Get copies of these results, ``(task, who has it)``, and keep them until they are freed."""

    worker: WorkerId
    holders: Sequence[tuple[TaskId, tuple[WorkerId, ...]]]


class KeysReady(NamedTuple):
    """Results a client wants can be fetched: ``(position in its graph, task, who has it)``."""

    client: ClientId
    graph: int
    ready: Sequence[tuple[int, TaskId, tuple[WorkerId, ...]]]


class KeysFailed(NamedTuple):
    """Results a client wants cannot be had.

    ``failed`` are their positions in its graph; the cause is the task at position ``root``, which failed with
    ``error`` on ``worker`` (None where it never ran) after the life told in ``story``.
    """

    client: ClientId
    graph: int
    failed: Sequence[int]
    root: int
    error: Any
    worker: WorkerId | None
    story: str


WorkerCommand: TypeAlias = RunTasks | MoveTasks | CancelTasks | FreeKeys | FetchKeys
"""What the scheduler's channel carries to a worker."""

ClientCommand: TypeAlias = KeysReady | KeysFailed
"""What the scheduler's channel carries to a client."""

Command: TypeAlias = WorkerCommand | ClientCommand
