"""Networks without contention: a transfer takes no time, or that of its bytes over the slowest link of its way."""

from __future__ import annotations

from collections.abc import Callable

from hetsched.sims.clock import Clock

from .topology import Topology
from .transfer import Transfer

__all__ = ["Instant", "Simple"]


class Instant:
    """All bytes are there at once."""

    def __init__(self, topology: Topology, clock: Clock, done: Callable[[Transfer], None]) -> None:
        self._clock = clock
        self._done = done

    def start(self, transfer: Transfer) -> None:
        """Let its bytes flow."""
        self._clock.at(self._clock.now, self._end, transfer, transfer.version)

    def stop(self, transfer: Transfer) -> None:
        """Let no more of its bytes flow."""
        transfer.version += 1

    def settle(self) -> None:
        """Nothing is shared, so nothing changes."""

    def links_changed(self) -> None:
        """Nothing to mend."""

    def is_idle(self) -> bool:
        """Whether no link is taken."""
        return True

    def _end(self, transfer: Transfer, version: int) -> None:
        if transfer.version == version:
            self._done(transfer)


class Simple(Instant):
    """Each transfer for itself: its size over the bandwidth of the slowest link."""

    def start(self, transfer: Transfer) -> None:
        """Let its bytes flow."""
        way, nbytes = transfer.legs[transfer.leg]
        seconds = nbytes / way.bandwidth if way.bandwidth else 0.0
        self._clock.at(self._clock.now + seconds, self._end, transfer, transfer.version)
