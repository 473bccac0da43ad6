"""Computations on a cluster that somebody follows: what the scheduler says of its tasks, told to dask's callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import trio

from hetsched.callbacks import Callbacks
from hetsched.core.state import Phase
from hetsched.core.types import Key
from hetsched.graph.build import Built

from .results import Ordered, Result, Waiting
from .session import Session

__all__ = ["LOOK_SECONDS", "Following", "look"]

LOOK_SECONDS = 0.1
"""How often the scheduler is asked, or as seldom as ten times what the answer takes."""

_BEGUN = frozenset({Phase.ASSIGNED, Phase.MEMORY, Phase.RELEASED})
_DONE = frozenset({Phase.MEMORY, Phase.RELEASED})


class Following:
    """Tells callbacks what has become of the tasks of a graph. Each task's start and end are told once."""

    def __init__(self, callbacks: Callbacks, built: Built, where: str) -> None:
        self.pause = LOOK_SECONDS
        """Seconds to the next look."""
        self.fetched: dict[Result, Any] = {}
        """The values that were asked for, as far as they are here."""
        self._callbacks = callbacks
        self._keys = [spec.key for spec in built.tasks]
        self._wanted = set(built.places.values())
        self._where = where
        self._begun = bytearray(len(self._keys))
        self._done = bytearray(len(self._keys))

    def take(self, phases: bytes) -> None:
        """Take the phases of the tasks, in order, as far as they are known. Raises what a callback raises.

        The end of a task whose value was asked for is told when the value is here.
        """
        values = {result.position: value for result, value in self.fetched.items()}
        for n, phase in enumerate(phases):
            if phase in _BEGUN and not self._begun[n]:
                self._begin(n)
        for n, phase in enumerate(phases):
            if phase in _DONE and not self._done[n] and (n in values or n not in self._wanted):
                self._end(n, values)

    def end(self, values: Mapping[Key, Any]) -> None:
        """Take the values: all has run. Raises what a callback raises."""
        here = {n: values[key] for n, key in enumerate(self._keys) if key in values}
        for n, begun in enumerate(self._begun):
            if not begun:
                self._begin(n)
        for n, done in enumerate(self._done):
            if not done:
                self._end(n, here)

    def _begin(self, n: int) -> None:
        self._begun[n] = True
        self._callbacks.started(self._keys[n])

    def _end(self, n: int, values: Mapping[int, Any]) -> None:
        if not self._begun[n]:
            self._begin(n)
        self._done[n] = True
        self._callbacks.ended(self._keys[n], values.get(n), self._where, here=n in values)


async def look(session: Session, graph: Ordered, following: Following) -> bytes | None:
    """What the scheduler knows of a graph's tasks, after a pause; None once all that was asked for is there, or fails.

    Fetches what of it is there. Raises ConnectionLost. Safe to cancel.
    """
    with trio.move_on_after(following.pause):
        await Waiting(graph.results.values(), "error").wait()
        return None
    if graph.number is None:
        return b""
    asked = perf_counter()
    phases: bytes = await session.ask("phases", graph.number)
    following.pause = max(LOOK_SECONDS, 10 * (perf_counter() - asked))
    ready = [r for r in graph.results.values() if r.status == "finished" and r not in following.fetched]
    following.fetched.update(await session.gather(ready, skips=True))
    return phases
