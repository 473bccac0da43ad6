"""What this thread is at: the batch of a worker it runs, if any."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hetsched.errors import TaskCancelled

if TYPE_CHECKING:
    from .executors import RunningBatch

__all__ = ["check_stopped", "current_batch", "enter", "leave"]


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
