"""Virtual time: one heap of what is to happen, by time and then by the order in which it was put down."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

__all__ = ["INSTANT", "Clock"]

INSTANT: Final = 1e-9
"""What happens within so many seconds happens at the same instant: what rounding alone keeps apart is together."""


class Clock:
    """Holds what is to happen and the time it is; ``now`` only moves forward."""

    __slots__ = ("_heap", "_serial", "alone", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.alone = False
        """Whether what happens is the first of its instant, and so far the last."""
        self._heap: list[tuple[float, int, Callable[[Any, Any], None], Any, Any]] = []
        self._serial = 0

    def at(self, time: float, call: Callable[[Any, Any], None], a: Any = None, b: Any = None) -> None:
        """Have ``call(a, b)`` happen at a time (seconds), not before now."""
        self._serial += 1
        heappush(self._heap, (time if time > self.now else self.now, self._serial, call, a, b))

    def advance(self) -> bool:
        """Go to the next time at which something happens, and let it happen; False where nothing is left."""
        heap = self._heap
        if not heap:
            return False
        now, _, call, a, b = heappop(heap)
        self.now = now
        self.alone = not heap or heap[0][0] > now + INSTANT
        call(a, b)
        self.alone = False
        return True

    def happen(self) -> bool:
        """Let all happen that is due, what it leads to at this very instant included; tells if there was any."""
        heap = self._heap
        until = self.now + INSTANT
        if not heap or heap[0][0] > until:
            return False
        while heap and heap[0][0] <= until:
            _, _, call, a, b = heappop(heap)
            call(a, b)
        return True
