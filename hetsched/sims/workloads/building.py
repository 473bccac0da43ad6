"""Add tasks one after another, each given by the positions it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hetsched.core.types import Key
from hetsched.errors import HetschedError
from hetsched.sims.model import Task, Workload
from hetsched.sims.noise import uniform

__all__ = ["MB", "Tasks"]

MB = 1_000_000
"""Bytes of a megabyte."""


class Tasks:
    """Tasks of a workload to be. ``spread`` is by what part durations may differ, more or less, from what is said."""

    def __init__(self, name: str, spread: float = 0.0) -> None:
        self.name = name
        self._spread = spread
        self._tasks: list[Task] = []

    def add(
        self,
        key: Key,
        reads: Iterable[int] = (),
        seconds: float | Mapping[str, float] = 1.0,
        nbytes: float = 0.0,
        **annotations: Any,
    ) -> int:
        """Add a task; returns its position."""
        position = len(self._tasks)
        if self._spread and isinstance(seconds, int | float):
            seconds *= 1 + self._spread * (2 * uniform(position, 77) - 1)
        self._tasks.append(Task(key, list(dict.fromkeys(reads)), seconds, round(nbytes), annotations or None))
        return position

    def reduce(self, key: str, reads: list[int], seconds: float, nbytes: float, of: int) -> int:
        """Add a tree that reads so many at a time; returns its root. Its levels are of one kind each, from a on.

        Raises HetschedError where there is nothing to read, or where fewer than two at a time, which never ends.
        """
        if not reads:
            raise HetschedError("a tree of no results has no root; ask for one result at least")
        if of < 2:
            raise HetschedError(f"a tree that reads {of} at a time never ends; write of = 2 or more")
        level = 0
        while len(reads) > 1 or level == 0:
            parts = [reads[i : i + of] for i in range(0, len(reads), of)]
            kind = f"{key}-{chr(ord('a') + level)}x"  # letters of no hexadecimal number, which a kind would be cut by
            reads = [self.add((kind, n), part, seconds, nbytes) for n, part in enumerate(parts)]
            level += 1
        return reads[0]

    def done(self) -> Workload:
        """The workload."""
        return Workload(self.name, self._tasks)
