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

from .results import Ordered, Waiting
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
        self._callbacks = callbacks
        self._keys = [spec.key for spec in built.tasks]
        self._wanted = set(built.places)
        self._where = where
        self._told = bytearray(len(self._keys))  # 1: begun, 2: done

    def take(self, phases: bytes) -> None:
        """Take the phases of the tasks, in order, as far as they are known. Raises what a callback raises."""
        began = [n for n, phase in enumerate(phases) if not self._told[n] and phase in _BEGUN]
        done = [n for n, phase in enumerate(phases) if self._told[n] < 2 and phase in _DONE]
        self._tell(began, done, None)

    def end(self, values: Mapping[Key, Any]) -> None:
        """Take the values: all has run. Raises what a callback raises."""
        began = [n for n, told in enumerate(self._told) if not told]
        self._tell(began, [n for n, told in enumerate(self._told) if told < 2], values)

    def _tell(self, began: list[int], done: list[int], values: Mapping[Key, Any] | None) -> None:
        for n in began:
            self._told[n] = 1
            self._callbacks.started(self._keys[n])
        for n in done:
            key = self._keys[n]
            # The end of what was asked for is told with its value, which is not here yet.
            if values is not None or key not in self._wanted:
                self._told[n] = 2
                known = values or {}
                self._callbacks.ended(key, known.get(key), self._where, here=key in known)


async def look(session: Session, graph: Ordered, following: Following) -> bytes | None:
    """What the scheduler knows of a graph's tasks, after a pause; None once all that was asked for is there, or fails.

    Raises ConnectionLost. Safe to cancel.
    """
    with trio.move_on_after(following.pause):
        await Waiting(graph.results.values(), "error").wait()
        return None
    if graph.number is None:
        return b""
    asked = perf_counter()
    phases: bytes = await session.ask("phases", graph.number)
    following.pause = max(LOOK_SECONDS, 10 * (perf_counter() - asked))
    return phases
