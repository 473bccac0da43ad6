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

    __slots__ = ("_heap", "_serial", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[Any, Any], None], Any, Any]] = []
        self._serial = 0

    def at(self, time: float, call: Callable[[Any, Any], None], a: Any = None, b: Any = None) -> None:
        """Have ``call(a, b)`` happen at a time (seconds), not before now."""
        self._serial += 1
        heappush(self._heap, (time if time > self.now else self.now, self._serial, call, a, b))

    def advance(self) -> bool:
        """Go to the next time at which something happens; False where nothing is left."""
        if not self._heap:
            return False
        self.now = self._heap[0][0]
        return True

    def happen(self) -> bool:
        """Let all happen that is due now, what it leads to at this very time included; tells if there was any."""
        heap = self._heap
        until = self.now + INSTANT
        found = False
        while heap and heap[0][0] <= until:
            _, _, call, a, b = heappop(heap)
            call(a, b)
            found = True
        return found

    def due(self) -> bool:
        """Tell whether anything (more) is due now."""
        return bool(self._heap) and self._heap[0][0] <= self.now + INSTANT

    @property
    def happened(self) -> int:
        """How many things were put down so far."""
        return self._serial
