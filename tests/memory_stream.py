"""A stream of which the incoming bytes are given beforehand, for tests of those who read."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from hetsched.comm.transports import Buffer, Stream
from hetsched.errors import ConnectionLost

__all__ = ["MemoryStream"]


class MemoryStream(Stream):
    """Gives ``data``, at most ``step`` bytes at a time, and then the end. Counts the calls; keeps what is sent."""

    def __init__(self, data: bytes, step: int = 1 << 30) -> None:
        self.peername = "memory"
        self.local = False
        self.data = memoryview(data)
        self.step = step
        self.calls = 0
        self.closed = False
        self.sent = bytearray()

    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        await trio.lowlevel.checkpoint()
        for buffer in buffers:
            self.sent += buffer

    async def receive_some_into(self, view: memoryview) -> int:
        await trio.lowlevel.checkpoint()
        if self.closed:
            raise ConnectionLost("closed")
        self.calls += 1
        count = min(len(view), len(self.data), self.step)
        view[:count] = self.data[:count]
        self.data = self.data[count:]
        return count

    async def linger(self) -> None:
        await trio.lowlevel.checkpoint()

    def abort(self) -> None:
        self.closed = True
