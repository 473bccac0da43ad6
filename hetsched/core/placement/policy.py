"""What a placement policy is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hetsched.core.state import TaskState, WorkerState

__all__ = ["Policy"]


class Policy(Protocol):
    """Chooses a worker for a task. A policy that keeps state of its own must be a pure function of the calls so far.

    One with an attribute ``waits_for_data`` that is true has tasks wait for a worker that holds large inputs and has no
    room, where that is expected to take less time than moving those to the worker it chose.
    """

    name: str

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick one of ``workers`` (two at least, all able and willing to take the task), the tie broken by rule."""
        ...
