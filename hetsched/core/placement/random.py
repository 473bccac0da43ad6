"""Any worker at random: the policy others must beat."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.core.state import TaskState, WorkerState

from .chance import Chance

__all__ = ["Random"]

class Random:
    """Picks uniformly with a generator of its own, so a seed fixes a run."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._chance = Chance(seed)

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick any worker."""
        return workers[self._chance.bits() % len(workers)]
