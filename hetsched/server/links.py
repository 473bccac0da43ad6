"""One connection as the server sees it: what is to be sent, and a task that sends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import trio

from hetsched.comm.channel import Channel
from hetsched.comm.messages import BeatHeard, Closed, HeartBeat, WorkerOffered
from hetsched.comm.packets import MOST_EMPTY
from hetsched.comm.payloads import Supplies
from hetsched.comm.transports import parse_address
from hetsched.comm.wire import encode
from hetsched.errors import ConnectionLost, ProtocolError

__all__ = ["MOST_WAITING", "PACKET_BYTES", "ClientLink", "Link", "WorkerLink"]

MOST_WAITING = 100_000
"""The most messages that may wait for a peer to take them; one that lets more pile up is cut off."""


PACKET_BYTES = 64 * 2**20
"""Messages that wait leave as one packet, unless they have more bytes than this in frames, or very many frames."""


class Link:
    """A channel with an outbox. Whatever is put there in one go leaves as one packet."""

    def __init__(self, name: str, channel: Channel, now: float) -> None:
        self.name = name
        self.channel = channel
        self.heard = now
        """When the peer last said anything (seconds on the server's clock)."""
        self.scope = trio.CancelScope()
        """Cancelled when the connection is to end."""
        self.why = ""
        self._packets: list[tuple[list[Any], list[Any]]] = [([], [])]
        self._count = 0
        self._nbytes = 0
        self._wake = trio.Event()

    def say(self, message: Any, frames: Sequence[Any] = (), nbytes: int = 0) -> None:
        """Have a message sent, in order. ``nbytes`` is its own size where that is large, frames not counted."""
        if frames or nbytes:
            nbytes += sum(memoryview(frame).nbytes for frame in frames)
            waiting = self._packets[-1][1]
            full = self._nbytes + nbytes > PACKET_BYTES or len(waiting) + len(frames) > MOST_EMPTY
            if full and (self._nbytes or waiting):
                self._packets.append(([], []))
                self._nbytes = 0
            self._nbytes += nbytes
        messages, waiting = self._packets[-1]
        messages.append(encode(message))
        waiting.extend(frames)
        self._count += 1
        self._wake.set()
        if self._count > MOST_WAITING:
            self.end(f"{self.name} does not take its messages: {MOST_WAITING} wait")

    def end(self, why: str) -> None:
        """Have the connection end, for a reason that the log will give."""
        if not self.scope.cancel_called:
            self.why = why
            self.scope.cancel()

    async def close(self, why: str, final: bool = False) -> None:
        """Tell the peer why, if it listens, and close; ``final``: it need not come again."""
        with trio.move_on_after(1):
            with suppress(ConnectionLost):
                await self.channel.send([encode(Closed("", why, final))])
        with trio.move_on_after(1, shield=True):
            await self.channel.aclose()

    async def write(self) -> None:
        """Send what there is, for ever. Cancelled in the midst of a packet it breaks the channel.

        Raises ConnectionLost, and OversizeError for a message that is larger than the peer takes.
        """
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            packets, self._packets = self._packets, [([], [])]
            self._count = self._nbytes = 0
            for messages, frames in packets:
                await self.channel.send(messages, frames)


class WorkerLink(Link):
    """A worker's connection."""

    def __init__(self, name: str, channel: Channel, now: float) -> None:
        super().__init__(name, channel, now)
        self.address = ""
        self.facts: dict[str, Any] = {}
        self.supplies = Supplies()
        self.joined = False
        self.leave_by: float | None = None
        """When it has to be gone that wants to leave (seconds on the server's clock)."""

    def offered(self, message: WorkerOffered) -> None:
        """Note what a worker offers. Raises ProtocolError for a second offer, and for an address that is none."""
        if self.joined:
            raise ProtocolError(f"{self.name} has offered itself already")
        try:
            parse_address(message.address)
        except ValueError as error:
            raise ProtocolError(f"{self.name} cannot be reached: {error}") from error
        self.joined = True
        self.address = message.address
        self.note(message.facts)

    def beat(self, message: HeartBeat) -> None:
        """Note what a worker says of itself, and answer where it asks."""
        self.note(message.facts)
        if message.asks:
            self.say(BeatHeard(self.name))

    def note(self, facts: Mapping[str, Any]) -> None:
        """Remember what a worker says of itself."""
        self.facts.update(facts)


class ClientLink(Link):
    """A client's connection."""
