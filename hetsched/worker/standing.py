"""What a worker can do now, of what it can do at all: fewer slots while it has paused, or some are of no use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

import trio

from hetsched.core.events import CapacityChanged
from hetsched.core.types import Capacity, WorkerId

__all__ = ["LOOK_SECONDS", "PATIENCE_SECONDS", "Standing"]

PATIENCE_SECONDS: Final = 0.1
"""A cancelled task has so long to end before its slot is taken to be of no use."""

LOOK_SECONDS: Final = 1.0
"""Slots are looked at as often, whatever happens."""


class Standing:
    """Tells the scheduler, by ``send``, when what a worker can do has changed.

    Any thread may say what has changed. ``send`` is called under a lock and must only note it down.
    """

    def __init__(self, worker: WorkerId, capacity: Capacity, send: Callable[[CapacityChanged], None]) -> None:
        self._worker = worker
        self._whole = capacity
        self._told = capacity
        self._send = send
        self._paused = False
        self._taken: Mapping[str, int] = {}
        self._leaves = False
        self._lock = threading.Lock()
        self._cancelled: trio.Event | None = None

    def pause(self, paused: bool) -> None:
        """No slot is to be used, or all are again."""
        with self._lock:
            self._paused = paused
            self._tell()

    def take(self, taken: Mapping[str, int]) -> None:
        """So many slots of these executors are busy with tasks that nobody wants, and none of others."""
        with self._lock:
            self._taken = taken
            self._tell()

    def leave(self) -> None:
        """The worker gets no more tasks anyway: say nothing from now on."""
        with self._lock:
            self._leaves = True

    def _tell(self) -> None:
        slots = self._whole.executors.items()
        now = {name: 0 if self._paused else max(0, count - self._taken.get(name, 0)) for name, count in slots}
        if now != self._told.executors and not self._leaves:
            self._told = self._whole._replace(executors=now)
            self._send(CapacityChanged(self._worker, self._told))

    def cancelled(self) -> None:
        """Tasks were cancelled (in the thread of :meth:`watch`): some of them may go on."""
        if self._cancelled is not None:
            self._cancelled.set()

    async def watch(self, look: Callable[[], None]) -> None:
        """Have slots looked at when cancelled tasks have had time to end, else now and then, until it is cancelled."""
        while True:
            self._cancelled = trio.Event()
            with trio.move_on_after(LOOK_SECONDS):
                await self._cancelled.wait()
            await trio.sleep(PATIENCE_SECONDS)
            look()
