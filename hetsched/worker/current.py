"""What a thread is at: the batch it runs, and the task of it that runs now."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from hetsched.core.types import TaskId
from hetsched.errors import TaskCancelled

from .child import ChildProcess
from .instructions import Item

__all__ = ["Owner", "RunningBatch", "Waiter", "check_stopped", "current_batch", "enter", "leave"]


class Waiter(Protocol):
    """Something a task waits for."""

    def finished(self) -> bool:
        """Tell whether the wait is over."""
        ...

    def on_finish(self, call: Callable[[], None]) -> None:
        """Have ``call`` called when it is over, at once if it is."""
        ...

    def wait(self) -> None:
        """Block until it is over; KeyboardInterrupt passes through."""
        ...


class Owner(Protocol):
    """A worker, as a task that runs on it sees it."""

    @property
    def worker(self) -> str:
        """Its name."""
        ...

    @property
    def pool(self) -> str | None:
        """The pool it is in, if any."""
        ...

    def wait(self, batch: RunningBatch, waiter: Waiter) -> None:
        """Wait inside of the task ``batch`` is at, its slot given up meanwhile."""
        ...


class RunningBatch:
    """A batch on its way through a thread; others may take tasks back from its end."""

    __slots__ = ("child", "executor", "given", "items", "number", "owner", "stopped", "task")

    def __init__(
        self, number: int, executor: str, items: Sequence[Item], stopped: set[TaskId], owner: Owner | None = None
    ) -> None:
        self.number = number
        self.executor = executor
        self.given = items
        self.items = deque(items)
        self.stopped = stopped
        """The tasks, of any batch, that were asked to stop."""
        self.task: TaskId = -1
        self.owner = owner
        """The worker it belongs to."""
        self.child: ChildProcess | None = None
        """The process its tasks run in, if not this one."""

    def take_back(self, count: int) -> list[TaskId]:
        """Take up to ``count`` tasks from the end, which then will not run here."""
        taken = []
        items = self.items
        try:
            for _ in range(count):
                taken.append(items.pop()[0])  # noqa: PERF401 - what was taken before the end must not be lost
        except IndexError:
            pass
        return taken


class _Current(threading.local):
    batch: RunningBatch | None = None


_current = _Current()


def current_batch() -> RunningBatch | None:
    """Return the batch this thread runs, None outside of tasks."""
    return _current.batch


def enter(batch: RunningBatch) -> RunningBatch | None:
    """Note that this thread runs a batch; returns the one it was at before."""
    before = _current.batch
    _current.batch = batch
    return before


def leave(before: RunningBatch | None) -> None:
    """Note that it is done with it."""
    _current.batch = before


def check_stopped() -> None:
    """Raise TaskCancelled if the task this thread runs was asked to stop; cheap, called between the steps of a plan."""
    batch = _current.batch
    if batch is not None and batch.stopped and batch.task in batch.stopped:
        raise TaskCancelled("the computation this task belongs to was cancelled")
