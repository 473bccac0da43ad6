"""A batch on its way through a slot: what runs from when to when, found when it begins."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from hetsched.worker.instructions import Item

__all__ = ["FAILED", "LEFT", "Batch", "Run"]

LEFT: Final = "left"
"""The error of a run that is none: an input is missing, or the task was stopped before."""
FAILED: Final = "failed"
"""The error of a task that is to fail."""


class Run(NamedTuple):
    """One task of a batch: what was ordered, when it starts and stops, its value, and its error (None: it is done)."""

    item: Item
    start: float
    stop: float
    value: int
    error: Any


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
        return self.runs[-1].stop

    def take_back(self, count: int, now: float) -> list[int]:
        """Take back up to ``count`` tasks that have not begun, the last first; the first stays in any case."""
        taken: list[int] = []
        while self.rest and len(taken) < count:
            taken.append(self.rest.pop())
        runs = self.runs
        while len(runs) > 1 and runs[-1].start > now and len(taken) < count:
            taken.append(runs.pop().item[0])
        return taken

    def skip(self, tasks: Collection[int], now: float) -> None:
        """Hand back those of the tasks that have not begun, and what reads them; what comes after begins earlier."""
        runs = self.runs
        kept = [runs[0]]
        gone: set[int] = set()
        for run in runs[1:]:
            task, inputs = run.item[0], run.item[3]
            start = kept[-1].stop
            if (run.start > now and task in tasks) or not gone.isdisjoint(inputs):
                gone.add(task)
                kept.append(Run(run.item, start, start, 0, LEFT))
            else:
                kept.append(Run(run.item, start, start + (run.stop - run.start), run.value, run.error))
        self.runs = kept
