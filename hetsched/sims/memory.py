"""A worker's memory: what results take, what goes to disk, and when it pauses or has to go.

It goes by the rules of the worker that ships: results beyond the target go to disk at once, the oldest first; at each
beat the whole is assessed. A process takes no more memory here than its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from hetsched.core.types import TaskId
from hetsched.worker.thresholds import MemoryState, Thresholds, assess

from .clock import Clock

__all__ = ["BEAT_SECONDS", "DISK_BANDWIDTH", "Memory"]

BEAT_SECONDS: Final = 1.0
"""How often a worker looks at its memory."""
DISK_BANDWIDTH: Final = 500e6
"""Bytes per second from disk."""

_THRESHOLDS: Final = Thresholds()


class Memory:
    """The bytes a worker holds of a ``store``, which has the size of each result.

    ``limit`` is what its process may take and ``size`` what its disk may (bytes, 0: any). ``changed`` is called at a
    beat with the new state.
    """

    __slots__ = (
        "_changed", "_clock", "_is_watched", "_limit", "_size", "_store", "_target", "full", "on_disk", "peak",
        "peak_on_disk", "state", "used", "used_on_disk",
    )  # fmt: skip

    def __init__(
        self, clock: Clock, store: dict[TaskId, int], limit: int, size: int, changed: Callable[[MemoryState], None]
    ) -> None:
        self._clock = clock
        self._store = store
        self._limit = limit
        self._target = (_THRESHOLDS.target or 1.0) * limit
        self._size = size
        self._changed = changed
        self._is_watched = False
        self.full = False
        """Whether the disk takes nothing more, whatever its size."""
        self.on_disk: dict[TaskId, int] = {}
        self.used = 0
        self.used_on_disk = 0
        self.peak = 0
        self.peak_on_disk = 0
        self.state: MemoryState = "running"

    def keep(self, nbytes: int) -> None:
        """A result has come."""
        self.used = used = self.used + nbytes
        if used > self.peak:
            self.peak = used
        if self._limit and used > self._target:
            self._spill()
            self._watch()

    def forget(self, task: TaskId, nbytes: int) -> None:
        """A result goes."""
        if task in self.on_disk:
            self.used_on_disk -= self.on_disk.pop(task)
        else:
            self.used -= nbytes
        if self.state == "paused":
            self._watch()

    def read(self, tasks: Iterable[TaskId]) -> float:
        """Bring results back from disk; returns the seconds that takes."""
        nbytes = 0
        for task in tasks:
            size = self.on_disk.pop(task, 0)
            if size:
                nbytes += size
                self.used_on_disk -= size
                self.keep(size)
        return nbytes / DISK_BANDWIDTH

    def _spill(self) -> None:
        """Write the oldest results to disk, as many as there have to be and as it takes."""
        for task, nbytes in self._store.items():
            if self.used <= self._target or self.full:
                return
            if nbytes and task not in self.on_disk:
                if self._size and self.used_on_disk + nbytes > self._size:
                    return
                self.on_disk[task] = nbytes
                self.used -= nbytes
                self.used_on_disk += nbytes
                self.peak_on_disk = max(self.peak_on_disk, self.used_on_disk)

    def look_again(self) -> None:
        """The disk takes more than it did: what waits for that goes on at the next beat."""
        if self._limit and (self.used > self._target or self.state != "running"):
            self._watch()

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._clock.at((self._clock.now // BEAT_SECONDS + 1) * BEAT_SECONDS, self._look)

    def _look(self, _a: Any, _b: Any) -> None:
        """Assess the memory, as at every beat."""
        self._is_watched = False
        self._spill()
        state = assess(self.used, self._limit, self.state, _THRESHOLDS)
        if state != self.state:
            self.state = state
            self._changed(state)
