"""Looks after the workers of ``hetsched-worker``: processes of their own, started anew when they die."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from types import FrameType

from hetsched import config

from .children import Child
from .ending import SIGNALS, say_to_stderr
from .settings import WorkerSettings

__all__ = ["GRACE", "look_after"]

GRACE = 10.0
"""A worker that was asked to end and has not, this many seconds after its own limit, is killed."""

_CLEAR_SECONDS = 1.0

log = logging.getLogger("hetsched.worker")


def look_after(workers: Sequence[WorkerSettings], restart: bool = True) -> int:
    """Run workers until all have ended; return the exit code, the highest of theirs.

    To be called in the main thread. The first signal to end is handed on, after the second all are killed at once.
    """
    say_to_stderr()
    family = _Family()
    for number in SIGNALS:
        signal.signal(number, family.hear)
    environment = config.child_environment({})
    for settings in workers:
        family.add(Child(settings, environment, restart=restart, say=log.warning))
    for child in family.children:
        child.ended.wait()
    return max((abs(child.code or 0) for child in family.children), default=0)


class _Family:
    def __init__(self) -> None:
        self.children: list[Child] = []
        self._asked = False

    def add(self, child: Child) -> None:
        self.children.append(child)
        if self._asked:
            child.leave()

    def hear(self, number: int, _frame: FrameType | None) -> None:
        if self._asked:
            self.kill()
            self._see_them_gone()
            os._exit(128 + number)
        self._asked = True
        for child in self.children:
            child.leave()
        limits = [config.seconds("worker.signal-timeout"), config.seconds("worker.leave-timeout")]
        limit = min((seconds for seconds in limits if seconds is not None), default=None)
        if limit is not None:
            _later(limit, self.hang_up)
            _later(limit + GRACE, self.kill)

    def _see_them_gone(self) -> None:
        """Give the threads that watch them a moment to clear up. Takes no lock: a signal may have come anywhere."""
        until = monotonic() + _CLEAR_SECONDS
        while monotonic() < until and not all(child.ended.is_set() for child in self.children):
            sleep(0.01)

    def hang_up(self) -> None:
        for child in self.children:
            child.hang_up()

    def kill(self) -> None:
        for child in self.children:
            child.signal(signal.SIGKILL)


def _later(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
