"""A batch on its way through a slot: what runs from when to when, found when it begins."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, TypeAlias

from hetsched.worker.instructions import Item

__all__ = ["FAILED", "LEFT", "Batch", "Run"]

LEFT: Final = "left"
"""The error of a run that is none: an input is missing, or the task was stopped before."""
FAILED: Final = "failed"
"""The error of a task that is to fail."""


Run: TypeAlias = "tuple[Item, float, float, int, Any]"
"""One task of a batch: what was ordered, when it starts and stops, its value, and its error (None: it is done)."""


class Batch:
    """What one slot is busy with. ``rest`` are tasks it hands back, since they were too many for its time."""

    __slots__ = ("executor", "number", "rest", "runs", "slot", "version")

    def __init__(self, number: int, executor: str, slot: int) -> None:
        self.number = number
        self.executor = executor
        self.slot = slot
        self.runs: list[Run] = []
        self.rest: list[int] = []
        self.version = 0
        """Counts the forecasts of its end; earlier ones are void."""

    @property
    def end(self) -> float:
        """When it is through (seconds)."""
        return self.runs[-1][2]

    def take_back(self, count: int, now: float) -> list[int]:
        """Take back up to ``count`` tasks that have not begun, the last first; the first stays in any case."""
        taken: list[int] = []
        while self.rest and len(taken) < count:
            taken.append(self.rest.pop())
        runs = self.runs
        while len(runs) > 1 and runs[-1][1] > now and len(taken) < count:
            taken.append(runs.pop()[0][0])
        return taken

    def skip(self, tasks: Collection[int], now: float) -> None:
        """Hand back those of the tasks that have not begun, and what reads them; what comes after begins earlier."""
        runs = self.runs
        kept = [runs[0]]
        gone: set[int] = set()
        for item, start, stop, value, error in runs[1:]:
            begin = kept[-1][2]
            if (start > now and item[0] in tasks) or not gone.isdisjoint(item[3]):
                gone.add(item[0])
                kept.append((item, begin, begin, 0, LEFT))
            else:
                kept.append((item, begin, begin + (stop - start), value, error))
        self.runs = kept
