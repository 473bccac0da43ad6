"""Reads from a stream a little ahead: a small message costs one system call, and a large buffer is filled in place."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress

from hetsched.errors import ConnectionLost

from .transports import Stream

__all__ = ["READ_AHEAD", "Reader", "Target"]

READ_AHEAD = 1 << 16
"""The bytes of the buffer for what is read ahead."""

_LARGE = 1 << 16
_MAPPED = 1 << 20


class Reader:
    """The bytes of a stream in order. For one task at a time; all that waits is safe to cancel: no byte is lost.

    What is there already comes without a checkpoint. Raises ConnectionLost, also where the stream ends.
    """

    __slots__ = ("_end", "_space", "_start", "_stream", "received")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._space = memoryview(bytearray(READ_AHEAD))
        self._start = self._end = 0
        self.received = 0
        """Bytes that came so far."""

    async def peek(self, count: int) -> memoryview:
        """The next ``count`` bytes, at most ``READ_AHEAD``, which stay next; valid until the next call."""
        while self._end - self._start < count:
            if self._start:
                have = self._end - self._start
                self._space[:have] = self._space[self._start : self._end]
                self._start, self._end = 0, have
            got = await self._stream.receive_some_into(self._space[self._end :])
            if not got:
                raise self._ended(middle=self._end > 0)
            self._end += got
            self.received += got
        return self._space[self._start : self._start + count]

    def skip(self, count: int) -> None:
        """Go past bytes that were seen by ``peek``."""
        self._start += count

    async def some_into(self, view: memoryview) -> int:
        """Put the next bytes, at least one, at the start of ``view``, and return how many."""
        if self._start == self._end:
            if len(view) >= _LARGE:
                return await self._some(view)
            self._end = self._start = 0
            self._end = await self._some(self._space)
        count = min(len(view), self._end - self._start)
        view[:count] = self._space[self._start : self._start + count]
        self._start += count
        return count

    async def _some(self, view: memoryview) -> int:
        got = await self._stream.receive_some_into(view)
        if not got:
            raise self._ended(middle=True)
        self.received += got
        return got

    def _ended(self, middle: bool) -> ConnectionLost:
        where = " in the middle of a message" if middle else ""
        return ConnectionLost(f"{self._stream.peername} closed the connection{where}")


class Target:
    """Memory to be filled with the next bytes, and how far this has come."""

    __slots__ = ("_done", "view")

    def __init__(self, count: int) -> None:
        self.view = _room(count)
        self._done = 0

    async def fill(self, reader: Reader) -> memoryview:
        """All of the memory, once it is full. Safe to cancel and to call again: it goes on where it was."""
        while self._done < len(self.view):
            self._done += await reader.some_into(self.view[self._done :] if self._done else self.view)
        return self.view


def _room(count: int) -> memoryview:
    # A bytearray is filled with zeros first, which costs as much as receiving.
    if count >= _LARGE and "numpy" in sys.modules:
        import numpy  # not from sys.modules: another thread may be loading it

        return numpy.empty(count, numpy.uint8).data
    if count >= _MAPPED:  # a scheduler has no numpy
        return memoryview(_mapped(count))
    return memoryview(bytearray(count))


def _mapped(count: int) -> mmap.mmap:
    try:
        room = mmap.mmap(-1, count, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for {count} bytes: {error}") from error
    with suppress(AttributeError, OSError):  # not every system has it
        room.madvise(mmap.MADV_HUGEPAGE)
    return room
