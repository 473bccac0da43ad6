"""The way to the scheduler and back: it is told an event or the time, and what it commands is sent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from time import perf_counter

import trio

from hetsched.comm.payloads import Depot
from hetsched.core.events import Event, TimePassed
from hetsched.core.scheduler import Scheduler

from .post import Post

__all__ = ["Feeder"]

log = logging.getLogger("hetsched.scheduler")


class Feeder:
    """The only one that speaks to the scheduler. ``record`` is given every event, with the time at which it came."""

    def __init__(self, scheduler: Scheduler, record: Callable[[float, Event], None] | None = None) -> None:
        self.scheduler = scheduler
        self.post = Post()
        self.depot = Depot()
        """The payloads and functions of the tasks that the scheduler knows."""
        self.fed = perf_counter()
        """When the last event came."""
        self._record = record
        self._alarm = trio.CancelScope()

    def feed(self, event: Event) -> None:
        """Have the scheduler handle an event, and its commands sent. Raises ProtocolError as it does."""
        now = perf_counter()
        self.fed = now
        if self._record is not None:
            try:
                self._record(now, event)
            except OSError as error:
                self._record = None
                log.error("the recording ends here, since it cannot be written: %s", error)
        commands = self.scheduler.handle(event, now)
        del event  # may be the last thing that speaks of its payloads
        self.post.clear_out(self.depot.gone())
        self.post.deliver(commands)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due = self.scheduler.due
        if due is not None:
            self._alarm.deadline = trio.current_time() + max(0.0, due - perf_counter())
        elif self._alarm.deadline != inf:
            self._alarm.deadline = inf

    async def keep_time(self) -> None:
        """Tell the scheduler when a time has come that it waits for; until it is cancelled, at any moment."""
        while True:
            with trio.CancelScope() as self._alarm:
                self._set_alarm()
                await trio.sleep_forever()
            self.feed(TimePassed())
