"""How long it takes to get results from peers, told to the scheduler now and then."""

from __future__ import annotations

from collections.abc import Callable

from hetsched.core.events import TransfersMeasured
from hetsched.core.types import WorkerId

__all__ = ["TELL_SECONDS", "Transfers"]

TELL_SECONDS = 0.05
"""Between two messages lies so much time at least; what was measured meanwhile comes with the next."""


class Transfers:
    """Collects what was measured of transfers to a worker, and has it said to the scheduler."""

    def __init__(self, worker: WorkerId, say: Callable[[TransfersMeasured], None]) -> None:
        self._worker = worker
        self._say = say
        self._found: list[tuple[WorkerId, int, float]] = []
        self._told = float("-inf")

    def note(self, peer: WorkerId, nbytes: int, seconds: float) -> None:
        """Take note of a transfer."""
        self._found.append((peer, nbytes, seconds))

    def tell(self, now: float) -> None:
        """Say what there is, unless something was said just before; ``now`` is in seconds on the worker's clock."""
        if self._found and now - self._told >= TELL_SECONDS:
            found, self._found = self._found, []
            self._told = now
            self._say(TransfersMeasured(self._worker, found))
