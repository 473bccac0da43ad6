"""Any worker at random: the policy others must beat."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.core.state import TaskState, WorkerState

__all__ = ["Random"]

_MASK = (1 << 64) - 1


class Random:
    """Picks uniformly with a generator of its own (SplitMix64, Steele, Lea and Flood 2014), so a seed fixes a run."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._state = seed & _MASK

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick any worker."""
        return workers[self._next() % len(workers)]

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)
