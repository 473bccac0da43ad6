"""What happened in a run, in columns of numbers: a million tasks take some 50 MB."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Moment", "TaskRun", "Trace", "TransferRun"]


class TaskRun(NamedTuple):
    """One run of a task: its number, worker, executor, slot, attempt, start, stop, and whether it failed."""

    task: int
    worker: str
    executor: str
    slot: int
    attempt: int
    start: float
    stop: float
    failed: bool


class TransferRun(NamedTuple):
    """One transfer: from where to where, the first of its results and how many, bytes, when asked for, begun, ended."""

    source: str
    target: str
    task: int
    results: int
    nbytes: int
    asked: float
    began: float
    ended: float


class Moment(NamedTuple):
    """Something at a point in time: a worker that came, a fault, a graph that was done."""

    at: float
    what: str
    who: str


class Trace:
    """All runs of tasks and transfers, in the order in which they ended. Without ``detail`` only counts are kept."""

    def __init__(self, detail: bool = True) -> None:
        self.detail = detail
        self.workers: list[str] = []
        self.executors: list[str] = []
        self.moments: list[Moment] = []
        self.busy: list[tuple[float, float, str]] = []
        """When the scheduler's process was busy, and with which event; only where that takes time."""
        self.memory: list[tuple[float, int, int, int]] = []
        """``(time, worker, bytes in memory, bytes on disk)`` after each change."""
        self._worker: dict[str, int] = {}
        self._executor: dict[str, int] = {}
        self._ids = array("q")
        self._where = array("q")
        self._times = array("d")
        self._moved = array("q")
        self._moved_times = array("d")
        self.ran = 0
        self.transfers = 0
        self.transferred = 0
        self.last_stop = 0.0
        """When the last task ended, of those that ended before all was over."""
        self.is_over = False
        """Whether all that was wanted is there: what still runs has been run elsewhere, to no avail."""

    def number_of(self, worker: str) -> int:
        """The number of a worker, given in the order of their coming."""
        number = self._worker.get(worker)
        if number is None:
            number = self._worker[worker] = len(self.workers)
            self.workers.append(worker)
        return number

    def executor_number(self, executor: str) -> int:
        """The number of an executor."""
        number = self._executor.get(executor)
        if number is None:
            number = self._executor[executor] = len(self.executors)
            self.executors.append(executor)
        return number

    def ran_task(
        self, task: int, place: int, slot: int, attempt: int, start: float, stop: float, failed: bool = False
    ) -> None:
        """Note a run; ``place`` is ``worker number << 8 | executor number``."""
        self.ran += 1
        if stop > self.last_stop and not self.is_over:
            self.last_stop = stop
        if self.detail:
            self._ids.append(task)
            self._where.append(place << 24 | slot << 8 | (attempt & 127) << 1 | failed)
            self._times.append(start)
            self._times.append(stop)

    def moved(
        self, source: int, target: int, keys: list[int], nbytes: int, asked: float, began: float, ended: float
    ) -> None:
        """Note a transfer."""
        self.transfers += 1
        self.transferred += nbytes
        if self.detail:
            self._moved.extend((source, target, keys[0] if keys else -1, len(keys), nbytes))
            self._moved_times.extend((asked, began, ended))

    def note(self, at: float, what: str, who: str) -> None:
        """Note a moment."""
        self.moments.append(Moment(at, what, who))

    def task_runs(self) -> Iterator[TaskRun]:
        """All runs of tasks."""
        times = self._times
        for n, (task, where) in enumerate(zip(self._ids, self._where, strict=True)):
            place = where >> 24
            worker, executor = self.workers[place >> 8], self.executors[place & 255]
            slot, attempt, failed = where >> 8 & 0xFFFF, where >> 1 & 127, bool(where & 1)
            yield TaskRun(task, worker, executor, slot, attempt, times[2 * n], times[2 * n + 1], failed)

    def transfer_runs(self) -> Iterator[TransferRun]:
        """All transfers."""
        moved, times = self._moved, self._moved_times
        for n in range(len(times) // 3):
            source, target, task, count, nbytes = moved[5 * n : 5 * n + 5]
            asked, began, ended = times[3 * n : 3 * n + 3]
            yield TransferRun(self.workers[source], self.workers[target], task, count, nbytes, asked, began, ended)

    def digest(self) -> str:
        """A fingerprint of all of it: equal runs have equal ones."""
        found = hashlib.sha256()
        for column in (self._ids, self._where, self._times, self._moved, self._moved_times):
            found.update(column.tobytes())
        words = (self.workers, self.executors, self.moments, self.busy, self.memory, self.ran, self.transferred)
        found.update(repr(words).encode())
        return found.hexdigest()
