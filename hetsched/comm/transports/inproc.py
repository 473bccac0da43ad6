"""Streams between tasks of one trio loop, with no system in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import trio

from hetsched.errors import ConnectionLost

from .address import Address
from .stream import Buffer, Listener, Stream, flat

__all__ = ["InprocListener", "InprocStream", "connect_inproc", "inproc_pair", "listen_inproc"]

_COPIED = 1 << 16  # bytes; larger buffers are taken by the receiver right out of the sender's memory
_HELD = 1 << 18  # bytes that wait to be received before a sender has to
_BACKLOG = 1024


class _Pipe:
    """Bytes on their way in one direction."""

    __slots__ = ("_changed", "_held", "_views", "closed", "ended")

    def __init__(self) -> None:
        self._views: deque[memoryview] = deque()
        self._held = 0
        self._changed = trio.Event()
        self.ended = False  # the sender sends no more
        self.closed = False  # an end is gone

    def tell(self) -> None:
        """Wake whoever waits here."""
        self._changed.set()
        self._changed = trio.Event()

    async def put(self, buffers: Sequence[Buffer]) -> bool:
        """Whether all was put in, and taken out again if it is large."""
        borrowed = False
        for view in map(flat, buffers):
            if self.closed or self.ended:
                return False
            if len(view):
                copied = len(view) <= _COPIED
                borrowed = borrowed or not copied
                self._views.append(memoryview(bytes(view)) if copied else view)
                self._held += len(view)
        self.tell()
        most = 0 if borrowed else _HELD
        try:
            while self._held > most and not (self.closed or self.ended):
                await self._changed.wait()
        finally:
            # Cancelled or closed, the sender takes its memory back, so the receiver cannot have the rest.
            if self._held > most:
                self.close()
        return not self.closed

    async def take(self, view: memoryview) -> int:
        while not self._views:
            if self.ended or self.closed:
                return 0
            await self._changed.wait()
        done = 0
        while self._views and done < len(view):
            piece = self._views.popleft()
            count = min(len(piece), len(view) - done)
            view[done : done + count] = piece[:count]
            done += count
            if count < len(piece):
                self._views.appendleft(piece[count:])
        self._held -= done
        self.tell()
        return done

    def end(self) -> None:
        self.ended = True
        self.tell()

    def close(self) -> None:
        self.closed = True
        self._views.clear()
        self.tell()


class InprocStream(Stream):
    """One end of a pair of pipes."""

    __slots__ = ("_closed", "_in", "_out")

    def __init__(self, incoming: _Pipe, outgoing: _Pipe, peername: str) -> None:
        self._in, self._out = incoming, outgoing
        self._closed = False
        self.peername = peername
        self.local = True

    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        """See :meth:`Stream.send_all`."""
        await trio.lowlevel.checkpoint()
        if self._closed or not await self._out.put(buffers):
            raise self._lost()

    async def receive_some_into(self, view: memoryview) -> int:
        """See :meth:`Stream.receive_some_into`."""
        await trio.lowlevel.checkpoint()
        got = 0 if self._closed else await self._in.take(view)
        if got == 0 and self._closed:
            raise self._lost()
        return got

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(
            f"the connection to {self.peername} is closed"
            if self._closed
            else f"the connection to {self.peername} is lost: the other end closed it"
        )

    async def linger(self) -> None:
        """See :meth:`Stream.linger`. Nothing is taken back here, so there is nothing to wait for."""
        await trio.lowlevel.checkpoint()
        self._out.end()

    def abort(self) -> None:
        """See :meth:`Stream.abort`."""
        self._closed = True
        self._in.close()
        # What was sent and copied still arrives.
        self._out.end()


def inproc_pair(name: str) -> tuple[InprocStream, InprocStream]:
    """Two connected streams."""
    there, back = _Pipe(), _Pipe()
    peername = f"inproc://{name}"
    return InprocStream(back, there, peername), InprocStream(there, back, peername)


class InprocListener(Listener):
    """A name that tasks of this loop can connect to."""

    __slots__ = ("_peers", "_waiting", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = f"inproc://{name}"
        self._peers, self._waiting = trio.open_memory_channel[Stream](_BACKLOG)

    async def join(self) -> Stream:
        """The other end of a stream that ``accept`` gives."""
        mine, theirs = inproc_pair(self.name)
        try:
            await self._peers.send(theirs)
        except trio.BrokenResourceError as error:
            raise _nobody(self.address) from error
        return mine

    async def accept(self) -> Stream:
        """See :meth:`Listener.accept`."""
        try:
            return await self._waiting.receive()
        except trio.ClosedResourceError as error:
            raise ConnectionLost(f"{self.address} does not listen any more") from error

    async def aclose(self) -> None:
        """See :meth:`Listener.aclose`."""
        listeners = _listeners()
        if listeners.get(self.name) is self:
            del listeners[self.name]
        while True:
            try:
                self._waiting.receive_nowait().abort()
            except (trio.WouldBlock, trio.ClosedResourceError):
                break
        self._waiting.close()


# A loop's names end with it.
_NAMES: trio.lowlevel.RunVar[dict[str, InprocListener]] = trio.lowlevel.RunVar("hetsched inproc")


def _listeners() -> dict[str, InprocListener]:
    try:
        return _NAMES.get()
    except LookupError:
        names: dict[str, InprocListener] = {}
        _NAMES.set(names)
        return names


def _nobody(address: str) -> ConnectionLost:
    return ConnectionLost(f"cannot connect to {address}: nothing of that name listens in this process")


async def connect_inproc(address: Address) -> Stream:
    """Connect to a name. Raises ConnectionLost where there is none. Safe to cancel."""
    listener = _listeners().get(address.place)
    if listener is None:
        raise _nobody(str(address))
    return await listener.join()


def listen_inproc(address: Address) -> InprocListener:
    """Listen under a name. Raises OSError if it is taken."""
    listeners = _listeners()
    if address.place in listeners:
        raise OSError(f"cannot listen at {address}: the name is taken")
    listener = listeners[address.place] = InprocListener(address.place)
    return listener
