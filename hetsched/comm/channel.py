"""A connection to a peer that was greeted: packets go out and come in, on the terms that were agreed on."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import trio

from hetsched.errors import ConnectionLost, OversizeError, ProtocolError

from .compress import SMALLEST, compress, decompress
from .greeting import Greeted, greet_acceptor, greet_opener
from .handshake import Hello
from .packets import MOST_EMPTY, PREFIX, FrameSize, Message, Packet, decode_header, encode_header
from .reader import READ_AHEAD, Reader, Target
from .transports import Buffer, Stream, connect, flat

__all__ = ["Channel", "accept_channel", "open_channel"]

_T = TypeVar("_T")
_IN_THREAD = 1 << 18  # bytes from which a thread is worth its hand-over
_JOINED = 1 << 14  # bytes of a header that is sent in one piece with its length
_THREADS: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("hetsched compression")


class Channel:
    """Packets to and from one peer. Any number of tasks may send, one may receive.

    ``mine`` and ``peer`` are the two Hellos, ``terms`` what they came to. ``bytes_in``, ``bytes_out``, ``packets_in``
    and ``packets_out`` count what has crossed whole.
    """

    __slots__ = (
        "_compression",
        "_header",
        "_incoming",
        "_no_receiving",
        "_no_sending",
        "_reader",
        "_sending",
        "_stream",
        "bytes_in",
        "bytes_out",
        "mine",
        "packets_in",
        "packets_out",
        "peer",
        "terms",
    )

    def __init__(self, stream: Stream, reader: Reader, greeted: Greeted) -> None:
        self.mine, self.peer, self.terms = greeted
        self.bytes_in = self.bytes_out = self.packets_in = self.packets_out = 0
        self._stream, self._reader = stream, reader
        self._sending = trio.Lock()
        self._header: Target | None = None
        self._incoming: _Incoming | None = None
        self._no_sending: str | None = None  # why not
        self._no_receiving: str | None = None
        # Within a machine copying is quicker than compressing, unless somebody knows better.
        pinned = "send-compression" in self.mine.pins or "receive-compression" in self.peer.pins
        self._compression = None if stream.local and not pinned else self.terms.send_compression

    @property
    def peername(self) -> str:
        """The peer's address."""
        return self._stream.peername

    @property
    def received(self) -> int:
        """Bytes that came so far, also of a packet that is not whole yet."""
        return self._reader.received

    @property
    def taken(self) -> int:
        """Bytes that the system took so far, also of a packet that it has not taken whole yet."""
        return self._stream.taken

    @property
    def sending(self) -> bool:
        """Whether a packet is being sent."""
        return self._sending.locked()

    async def send(self, messages: Iterable[Message], frames: Sequence[Buffer] = ()) -> None:
        """Send messages and frames as one packet; all is sent when this returns, and frames may not change before.

        Packets of one task arrive in order; one that is being compressed may be overtaken by another task's. The frames
        of a packet together may have ``terms.send_limit`` bytes, its header ``terms.send_header``. What the system
        takes at once may be sent without a checkpoint.

        Raises OversizeError, ValueError for a frame whose memory has gaps, and TypeError, ValueError or OverflowError
        for messages that msgpack cannot say: nothing is sent then, and the channel goes on. Raises ConnectionLost.
        Cancelled while it sends, it breaks the channel: the peer cannot make sense of what follows half a packet.
        """
        if self._no_sending is not None:
            raise ConnectionLost(self._no_sending)
        sizes: list[FrameSize] = []
        views = [flat(frame) for frame in frames]
        if views:
            total = sum(map(len, views))
            if total > self.terms.send_limit:
                raise OversizeError(f"{self.peername} takes {self.terms.send_limit} bytes at once, not {total}")
            empty = sum(not view for view in views) if len(views) > MOST_EMPTY else 0
            if empty > MOST_EMPTY:
                raise OversizeError(f"{self.peername} takes {MOST_EMPTY} frames without bytes at once, not {empty}")
            if self._compression is not None:
                views = await self._compressed(self._compression, views, sizes)
            else:
                sizes = [FrameSize(len(view), len(view)) for view in views]
        header = encode_header(messages, sizes)
        if len(header) > self.terms.send_header:
            raise OversizeError(f"{self.peername} takes a header of {self.terms.send_header} bytes, not {len(header)}")
        prefix = PREFIX.pack(len(header))
        await self._send_all([prefix + header, *views] if len(header) < _JOINED else [prefix, header, *views])
        self.packets_out += 1
        self.bytes_out += len(prefix) + len(header) + sum(map(len, views))

    async def _compressed(self, name: str, views: list[memoryview], sizes: list[FrameSize]) -> list[memoryview]:
        made = []
        for view in views:
            small = None
            if len(view) >= SMALLEST:
                small = await _work(len(view), partial(compress, name, view))
            made.append(view if small is None else memoryview(small))
            sizes.append(FrameSize(len(made[-1]), len(view)))
        return made

    async def _send_all(self, buffers: list[Buffer]) -> None:
        try:
            self._sending.acquire_nowait()  # the other way to get it goes through a checkpoint
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            if self._no_sending is not None:
                raise ConnectionLost(self._no_sending)
            await self._stream.send_all(buffers)
        except ConnectionLost as error:
            # What the peer sent before it went can still be received.
            self._no_sending = self._no_sending or str(error)
            raise
        except BaseException:
            self._break(f"the connection to {self.peername} is closed: a message was broken off")
            raise
        finally:
            self._sending.release()

    async def receive(self) -> Packet:
        """Wait for the next packet. Safe to cancel: nothing is lost, and the next call goes on where this one was.

        What is there already comes without a checkpoint. Raises ProtocolError, which breaks this channel, for what is
        not in the protocol or beyond ``terms.receive_limit`` and ``terms.receive_header``, before memory is taken for
        it; ConnectionLost where the peer has closed, and from then on.
        """
        if self._no_receiving is not None:
            raise ConnectionLost(self._no_receiving)
        try:
            incoming = self._incoming
            if incoming is None:
                incoming = self._incoming = await self._receive_header()
            frames = await incoming.receive(self._reader, self.terms.receive_compression)
        except ProtocolError as error:
            why = f"{self.peername} does not keep to the protocol: {error}"
            self._break(why)
            raise ProtocolError(why) from error
        except MemoryError as error:
            self._break(f"the connection to {self.peername} is closed: no memory for what it sends")
            raise ConnectionLost(self._no_receiving) from error
        except ConnectionLost as error:
            self._no_receiving = self._no_receiving or str(error)
            raise ConnectionLost(self._no_receiving) from error
        self._incoming = None
        self.packets_in += 1
        self.bytes_in += incoming.wire
        return Packet(incoming.messages, frames)

    async def _receive_header(self) -> _Incoming:
        reader = self._reader
        if self._header is None:
            (length,) = PREFIX.unpack(await reader.peek(PREFIX.size))
            if length > self.terms.receive_header:
                raise ProtocolError(f"a header of {length} bytes; {self.terms.receive_header} are allowed")
            whole = PREFIX.size + length
            if whole <= READ_AHEAD:
                data = (await reader.peek(whole))[PREFIX.size :]
                incoming = _Incoming(*decode_header(data, self.terms.receive_limit), whole)
                reader.skip(whole)
                return incoming
            reader.skip(PREFIX.size)
            self._header = Target(length)
        data = await self._header.fill(reader)
        self._header = None
        return _Incoming(*decode_header(data, self.terms.receive_limit), PREFIX.size + len(data))

    def _break(self, why: str) -> None:
        self._no_sending = self._no_sending or why
        self._no_receiving = self._no_receiving or why
        self._incoming = self._header = None
        self._stream.abort()

    async def aclose(self) -> None:
        """Close; what was sent still arrives, if the peer reads on. Cancelled, it has closed all the same."""
        why = f"the connection to {self.peername} is closed"
        self._no_sending = self._no_sending or why
        self._no_receiving = self._no_receiving or why
        await self._stream.aclose()


class _Incoming:
    """A packet of which the header has arrived."""

    __slots__ = ("_frames", "_sizes", "_target", "messages", "wire")

    def __init__(self, messages: tuple[Message, ...], sizes: list[FrameSize], header: int) -> None:
        self.messages = messages
        self.wire = header + sum(size.wire for size in sizes)
        self._sizes = sizes
        self._frames: list[memoryview] = []
        self._target: Target | None = None

    async def receive(self, reader: Reader, compression: str | None) -> tuple[memoryview, ...]:
        """All frames. Memory is taken for one after the other, so that a promise alone costs little."""
        while len(self._frames) < len(self._sizes):
            wire, nbytes = size = self._sizes[len(self._frames)]
            if size.compressed and compression is None:
                raise ProtocolError("a frame is compressed, which was not agreed on")
            if self._target is None:
                self._target = Target(wire)
            view = await self._target.fill(reader)
            if compression is not None and size.compressed:
                view = memoryview(await _work(nbytes, partial(decompress, compression, view, nbytes)))
            self._frames.append(view)
            self._target = None
        return tuple(self._frames)


async def _work(nbytes: int, work: Callable[[], _T]) -> _T:
    """Run ``work``, in a thread if it takes long enough."""
    if nbytes < _IN_THREAD:
        return work()
    try:
        threads = _THREADS.get()
    except LookupError:
        threads = trio.CapacityLimiter(4)
        _THREADS.set(threads)
    return await trio.to_thread.run_sync(work, limiter=threads)


async def open_channel(
    address: str,
    hello: Hello,
    token: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    timeout: float = 10.0,  # noqa: ASYNC109 - a peer that is silent is cut off, whoever calls
) -> Channel:
    """Connect to a peer and greet it, within ``timeout`` seconds. ``hello`` gets a new nonce.

    Raises Rejected where the two cannot or may not speak, ConnectionLost where nobody answers, TimeoutError,
    ProtocolError where something answers that is not hetsched, and ValueError for an address that is none. Cancelled,
    it leaves nothing behind.
    """
    until = trio.current_time() + timeout
    stream = await connect(address, tls, timeout)
    return await _greeted(stream, hello, token, until, greet_opener)


async def accept_channel(
    stream: Stream,
    hello: Hello,
    token: bytes | None = None,
    timeout: float = 10.0,  # noqa: ASYNC109 - a peer that is silent is cut off, whoever calls
    suit: Callable[[Hello], Hello] | None = None,
) -> Channel:
    """Greet a peer that a listener has accepted, within ``timeout`` seconds. ``hello`` gets a new nonce.

    ``suit`` may make another Hello for a peer, of the peer's; no proof of who that is holds by then.

    Takes the stream over: it is closed where this fails. A peer that is turned away is told why in one sentence. Raises
    Rejected, which says for the log who it was and why, ProtocolError for a peer that does not speak hetsched,
    ConnectionLost and TimeoutError. Cancelled, it closes the stream.
    """
    return await _greeted(stream, hello, token, trio.current_time() + timeout, partial(greet_acceptor, suit=suit))


_Greet = Callable[[Stream, Reader, Hello, "bytes | None"], Awaitable[Greeted]]


async def _greeted(stream: Stream, hello: Hello, token: bytes | None, until: float, greet: _Greet) -> Channel:
    reader = Reader(stream)
    began = trio.current_time()
    try:
        with trio.CancelScope(deadline=until):
            return Channel(stream, reader, await greet(stream, reader, hello, token))
    except BaseException:
        stream.abort()
        raise
    stream.abort()
    raise TimeoutError(f"{stream.peername} did not finish its greeting within {until - began:.3g} s")
