"""TLS over another stream."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Sequence

import trio

from hetsched.errors import ConnectionLost

from .stream import Buffer, Listener, Stream, flat

__all__ = ["TlsListener", "TlsStream"]

_CHUNK = 1 << 18  # bytes encrypted, or taken from below, at a time


class TlsStream(Stream):
    """A stream made secret. ``hostname`` is the name that the peer's certificate has to be for, at the client's end.

    The handshake takes place with the first bytes sent or received, or in :meth:`handshake`.
    """

    __slots__ = ("_below", "_incoming", "_lock", "_outgoing", "_shaken", "_space", "_tls")

    def __init__(self, below: Stream, context: ssl.SSLContext, hostname: str | None) -> None:
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=hostname is None, server_hostname=hostname
        )
        self._space = memoryview(bytearray(_CHUNK))
        self._shaken = False
        self._lock = trio.Lock()
        self.peername = below.peername
        self.local = below.local

    @property
    def taken(self) -> int:
        """See :attr:`Stream.taken`."""
        return self._below.taken

    async def handshake(self) -> None:
        """Agree on keys, look at certificates. Cancelled, the stream is of no use any more. Raises ConnectionLost."""
        async with self._lock:
            while not self._shaken:
                try:
                    self._tls.do_handshake()
                    self._shaken = True
                except ssl.SSLWantReadError:
                    await self._flush()
                    await self._feed()
                except ssl.SSLError as error:
                    await self._tell(error)
                    raise self._lost(error) from error
            await self._flush()

    async def _tell(self, error: ssl.SSLError) -> None:
        """Send the peer the alert that says why its handshake failed; if it cannot be told, ``error`` matters more."""
        try:
            await self._flush()
        except ConnectionLost:
            raise self._lost(error) from error

    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        """See :meth:`Stream.send_all`. Large buffers are encrypted piece by piece."""
        if not self._shaken:
            await self.handshake()
        try:
            for chunk in _chunks(buffers):
                self._tls.write(chunk)
                await self._flush()
        except ssl.SSLError as error:
            raise self._lost(error) from error

    async def receive_some_into(self, view: memoryview) -> int:
        """See :meth:`Stream.receive_some_into`."""
        if not self._shaken:
            await self.handshake()
        while True:
            try:
                return int(self._tls.read(len(view), view))
            except ssl.SSLWantReadError:
                await self._feed()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # That the stream was cut off and not ended is no secret: a message that lacks its end shows.
                return 0
            except ssl.SSLError as error:
                raise self._lost(error) from error

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._below.send_all([self._outgoing.read()])

    async def _feed(self) -> None:
        got = await self._below.receive_some_into(self._space)
        if got:
            self._incoming.write(self._space[:got])
        else:
            self._incoming.write_eof()

    def _lost(self, error: ssl.SSLError) -> ConnectionLost:
        why = getattr(error, "verify_message", None) or (error.reason or str(error)).lower().replace("_", " ")
        return ConnectionLost(f"no TLS connection with {self.peername}: {why}")

    async def linger(self) -> None:
        """See :meth:`Stream.linger`."""
        await self._below.linger()

    def abort(self) -> None:
        """See :meth:`Stream.abort`."""
        self._below.abort()

    async def aclose(self) -> None:
        """See :meth:`Stream.aclose`. Tells the peer that the end is meant, if that can be done at once."""
        with contextlib.suppress(ssl.SSLError, ValueError):  # it now waits for the peer's answer, which nobody needs
            self._tls.unwrap()
        try:
            with trio.move_on_after(0.1), contextlib.suppress(ConnectionLost):
                await self._flush()
        finally:
            self._below.abort()


def _chunks(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Pieces of a size to encrypt: small buffers joined, large ones cut."""
    small = bytearray()
    for buffer in buffers:
        view = flat(buffer)
        if len(small) + len(view) <= _CHUNK:
            small += view
            continue
        if small:
            yield small
            small = bytearray()
        for start in range(0, len(view), _CHUNK):
            yield view[start : start + _CHUNK]
    if small:
        yield small


class TlsListener(Listener):
    """Makes the streams of another listener secret. A peer's handshake takes place in its own stream."""

    __slots__ = ("_below", "_context")

    def __init__(self, below: Listener, context: ssl.SSLContext) -> None:
        self._below = below
        self._context = context
        self.address = below.address

    async def accept(self) -> Stream:
        """See :meth:`Listener.accept`."""
        return TlsStream(await self._below.accept(), self._context, None)

    async def aclose(self) -> None:
        """See :meth:`Listener.aclose`."""
        await self._below.aclose()
