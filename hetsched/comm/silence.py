"""Notice a peer that is there no more though its connection is: a process that was stopped, or a machine that hangs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

__all__ = ["LOOKS", "Watched", "wait_for_silence"]

LOOKS = 4
"""So many looks in a row at a connection on which nothing moves, and its peer is taken for gone."""


class Watched(Protocol):
    """What is looked at of a channel."""

    @property
    def received(self) -> int:
        """Bytes that came so far."""
        ...

    @property
    def taken(self) -> int:
        """Bytes that the system took so far."""
        ...

    @property
    def sending(self) -> bool:
        """Whether something is on its way that the system has not taken whole."""
        ...


async def wait_for_silence(channel: Watched, limit: float, ask: Callable[[], object]) -> None:
    """Return when nothing was heard of a peer for ``limit`` seconds, or up to half as much again.

    ``ask`` is to make the peer say something; it is called when nothing was heard since the last look. A peer that
    takes what is sent to it, however slowly, is heard. Looks are counted, and not the time: after a pause in which
    this process was stopped itself, its peer gets the chance to answer. Safe to cancel.
    """
    silent = 0
    received, taken, sending = channel.received, channel.taken, channel.sending
    while silent < LOOKS:
        await trio.sleep(limit / LOOKS)
        before = received, taken, sending
        received, taken, sending = channel.received, channel.taken, channel.sending
        # What the system takes at once says nothing of the peer.
        if received != before[0] or (sending and before[2] and taken != before[1]):
            silent = 0
        else:
            silent += 1
            if silent == 1:
                ask()
