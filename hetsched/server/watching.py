"""What a server does as time goes by: it looks for the silent, the stranded, and the end of all work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

import trio

from hetsched.comm.messages import Warned
from hetsched.core.events import AskedAgain, TasksStranded

from .feeding import Feeder
from .hearing import see_off
from .lessons import Lessons
from .limits import Limits
from .plugins import Door
from .stranded import Stranded

__all__ = ["Watch"]

log = logging.getLogger("hetsched.scheduler")


class Watch:
    """Looks around every now and then. ``stop`` is called after the time without work that ``limits`` allows."""

    def __init__(
        self, feeder: Feeder, door: Door, lessons: Lessons, limits: Limits, stop: Callable[[], None]
    ) -> None:
        self._feeder = feeder
        self._state = feeder.scheduler.state
        self._post = feeder.post
        self._door = door
        self._lessons = lessons
        self._limits = limits
        self._stop = stop
        self._stranded = Stranded(limits.no_worker, limits.no_worker_ends)
        self._busy = perf_counter()

    def complaints(self) -> list[str]:
        """Give a sentence for each demand of tasks that no worker meets."""
        return self._stranded.standing(self._state)

    async def keep(self) -> None:
        """Look after those who fall silent, and after the time without work; until it is cancelled, at any moment."""
        silence = self._limits.worker_silence
        waits = [time for time in (self._limits.no_worker, self._limits.no_worker_ends) if time is not None]
        pause = max(0.01, min(silence / 4, 1.0, *(time / 4 for time in waits)))
        now = perf_counter()
        while True:
            looked = now
            await trio.sleep(pause)
            now = perf_counter()
            # Of the time in which this process was busy, or stopped, what it could not hear is no silence of others.
            self._look_after_workers(now, min(now - looked, 2 * pause))
            self._door.ask_again(self._state, now, lambda: self._feeder.feed(AskedAgain()))
            self._tell_stranded(now)
            await self._lessons.refresh()
            await self._lessons.keep()
            self._end_if_idle(now)

    def _look_after_workers(self, now: float, seconds: float) -> None:
        """Part with those that were silent too long, or that wanted to leave and can, or have to."""
        silence = self._limits.worker_silence
        for link in list(self._post.workers.values()):
            if link.listen(seconds) > silence:
                link.end(f"nothing was heard of it for {silence:g} s")
            elif link.leave_by is not None:
                if now > link.leave_by:
                    link.end(f"it wanted to leave, and had not finished after {self._limits.leaving:g} s")
                see_off(self._state, link)

    def _tell_stranded(self, now: float) -> None:
        """Tell of tasks that no worker could run, and give up those that have waited as long as they may."""
        told, overdue = self._stranded.look(self._state, now)
        for plight in told:
            log.warning("%s", plight.sentence)
            for client in plight.clients:
                link = self._post.clients.get(client)
                if link is not None:
                    link.say(Warned(client, plight.sentence))
        if overdue:
            assert self._limits.no_worker_ends is not None
            self._feeder.feed(TasksStranded(overdue, self._limits.no_worker_ends))

    def _end_if_idle(self, now: float) -> None:
        idle = self._limits.idle
        self._busy = max(self._busy, self._feeder.fed)
        if self._state.tasks or self._post.clients:
            self._busy = now
        elif idle is not None and now - self._busy > idle:
            log.info("nothing to do for %g s: this is the end", idle)
            self._stop()
