"""Each worker in turn."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.core.state import TaskState, WorkerState

__all__ = ["RoundRobin"]


class RoundRobin:
    """Deals tasks out one worker after another, blind to load and data."""

    name = "round_robin"

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick the next worker."""
        self._turn += 1
        return workers[(self._turn - 1) % len(workers)]
