"""Who may speak, what crosses between them, and what a peer that lies or breaks off can do: nothing but close."""

from __future__ import annotations

import contextlib
import gc
import re
import ssl
import struct
import sys
import tracemalloc
from functools import partial

import msgpack
import numpy as np
import pytest
import trio
import trio.testing
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_stream import MemoryStream

from hetsched.comm import greeting, reader
from hetsched.comm.channel import Channel, accept_channel, open_channel
from hetsched.comm.compress import available
from hetsched.comm.greeting import Greeted, greet_acceptor, greet_opener
from hetsched.comm.handshake import Hello, agree, encode_hello
from hetsched.comm.packets import FrameSize, encode_header
from hetsched.comm.reader import Reader
from hetsched.comm.transports import listen
from hetsched.errors import ConnectionLost, OversizeError, ProtocolError, Rejected

FRAMES, HEADER = 10_000_000, 200_000
LIMIT = 50_000


def hello(role="worker", name="a", **fields) -> Hello:
    known = {"protocols": (1,), "python": (3, 11, 7), "pickle": 5, "compressions": ("lz4", "zlib"), "devices": ()}
    limits = {"max_frame": FRAMES, "max_header": HEADER}
    return Hello(role, name, **{**known, **limits, "byteorder": sys.byteorder, "libraries": {}, **fields})


A, B = hello(), hello("scheduler", "b")


async def meet(opener, acceptor, address="inproc://here"):
    """Let two ends greet each other: what became of them, and their address."""
    came = {}
    listener = await listen(address)

    async def end(name, run, *args):
        try:
            came[name] = await run(*args)
        except Exception as error:
            came[name] = error

    async def accept():
        return await accept_channel(await listener.accept(), *acceptor)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end, "acceptor", accept)
        nursery.start_soon(end, "opener", open_channel, listener.address, *opener)
    await listener.aclose()
    return came["opener"], came["acceptor"], listener.address


@contextlib.asynccontextmanager
async def channels(mine=A, theirs=B, token=None, address="inproc://here"):
    one, other, _ = await meet((mine, token), (theirs, token), address)
    assert type(one) is type(other) is Channel, (one, other)
    yield one, other
    await one.aclose()
    await other.aclose()


async def carry(one, other, messages, frames=()):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.send, messages, frames)
        return await other.receive()


@pytest.mark.parametrize("scheme", ["tcp", "unix", "inproc"])
@pytest.mark.parametrize("token", [None, b"secret"])
async def test_two_ends_meet(scheme, token, tmp_path):
    address = {"tcp": "tcp://127.0.0.1:0", "unix": f"unix://{tmp_path}/s", "inproc": "inproc://x"}[scheme]
    async with channels(token=token, address=address) as (one, other):
        assert one.mine == other.peer == A._replace(nonce=one.mine.nonce)
        assert one.peer == other.mine == B._replace(nonce=one.peer.nonce)
        assert len({one.mine.nonce, one.peer.nonce, b""}) == 3
        assert one.terms == agree(one.mine, one.peer)
        assert other.terms == agree(one.peer, one.mine)
        assert one.peername.startswith(scheme)
        for here, there in ((one, other), (other, one)):
            packet = await carry(here, there, [("x", 1), ("y",)], [b"abc", b""])
            assert packet == ((("x", 1), ("y",)), (b"abc", b""))
        counts = [(c.packets_in, c.packets_out, c.bytes_in == c.bytes_out > 0) for c in (one, other)]
        assert counts == [(1, 1, True)] * 2


async def test_two_ends_meet_in_secret():
    ca = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca.issue_cert("localhost").configure_cert(server)
    ca.configure_trust(client)
    listener = await listen("tls://localhost:0", server)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def accept():
            channel = await accept_channel(await listener.accept(), B, b"secret")
            await channel.send(*await channel.receive())
            await channel.aclose()

        channel = await open_channel(listener.address, A, b"secret", client)
        assert await carry(channel, channel, [("x",)], [b"a", b"b" * 700_000]) == ((("x",),), (b"a", b"b" * 700_000))
        with pytest.raises(ConnectionLost, match="closed the connection"):
            await channel.receive()
        await channel.aclose()
    await listener.aclose()


TOKENS = [
    (b"x", None, "a token was given, and this end has none: both need the same"),
    (None, b"x", "a token is needed here, and none was given (--token-file)"),
    (b"x", b"y", "the token is not the one of this cluster"),
]


@pytest.mark.parametrize(("opener", "acceptor", "why"), TOKENS)
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:0", "inproc://x"])
async def test_tokens_that_do_not_match(opener, acceptor, why, address):
    one, other, address = await meet((A, opener), (B, acceptor), address)
    assert (type(one), type(other)) == (Rejected, Rejected)
    assert str(one) == f"{address} does not take us: {why}"
    assert re.fullmatch(rf"\w+://\S+ was turned away \(worker 'a'\): {re.escape(why)}", str(other))


async def test_ends_that_cannot_agree():
    one, other, address = await meet((A._replace(role="client"),), (B._replace(role="client"),))
    assert (type(one), type(other)) == (Rejected, Rejected)
    assert str(other) == f"{address} was turned away (client 'a'): {one}"
    assert "both are clients" in str(one)


async def test_an_acceptor_without_the_token_is_found_out():
    """Though it says that all is well."""
    listener = await listen("inproc://here")
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def impostor():
            stream = await listener.accept()
            said = encode_hello(B._replace(nonce=bytes(32)))
            await stream.send_all([b"HETSCHED\0\1", struct.pack(">I", len(said)), said, b"\1\0\x20" + bytes(32)])
            await stream.linger()

        with pytest.raises(Rejected, match="inproc://here does not have the token of this cluster"):
            await open_channel("inproc://here", A, b"secret")
    await listener.aclose()


async def test_nothing_is_read_before_the_proof_holds(monkeypatch):
    monkeypatch.setattr("hetsched.comm.channel.decode_header", None)
    said = encode_hello(A._replace(nonce=bytes(32)))
    header = encode_header([("x",)], [])
    stream = MemoryStream(
        b"".join([b"HETSCHED\0\1", struct.pack(">I", len(said)), said, b"\0", struct.pack(">I", len(header)), header])
    )
    with pytest.raises(Rejected, match="a token is needed here"):
        await accept_channel(stream, B, b"secret")
    assert stream.closed


STRANGERS = [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "it sent an HTTP request", b"HTTP/1.0 400 Bad Request\r\n"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "it speaks TLS, which a tcp:// address does not", b"This port is"),
    (b"\x02\0\0\0\0\0\0\0 and more of dask", "it began with b'\\x02\\x00", b"This port is for hetsched: connect with"),
    (b"HETSCHED\0\2\0\0\0\0", "greets in version 2; this release knows version 1", b"HETSCHED\0\1\0\0\0\0"),
    (b"HETSCHED\0\1\xff\xff\xff\xff", "announced a Hello of 4294967295 bytes; 65536 are", b"HETSCHED\0\1\0\0\0\0"),
    (b"HETSCHED\0\1\0\0\0\1\xc0", "a Hello is a map, not NoneType", b"HETSCHED\0\1"),
]


@pytest.mark.parametrize(("words", "why", "answer"), STRANGERS)
async def test_strangers_at_the_door(words, why, answer):
    listener = await listen("tcp://127.0.0.1:0")
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def call():
            stream = await trio.open_tcp_stream("127.0.0.1", int(listener.address.rpartition(":")[2]))
            async with stream:
                await stream.send_all(words)
                got = b"".join([part async for part in stream])
            assert got.startswith(answer)

        with pytest.raises(ProtocolError, match=re.escape(why)):
            await accept_channel(await listener.accept(), B)
    await listener.aclose()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak hetsched: it is a web server"),
        (b"\x15\x03\x03\x00\x02\x02\x46\0", "does not speak hetsched: it speaks TLS: connect to it by tls://"),
        (b"SSH-2.0-OpenSSH", "does not speak hetsched: it began with b'SSH-2.0-'"),
        (b"HETSCHED\0\7\0\0\0\0", "greets in version 7; this release knows version 1"),
    ],
)
async def test_strangers_called_by_mistake(words, why):
    with pytest.raises(ProtocolError, match=re.escape(why)):
        await greet_opener(stream := MemoryStream(words), Reader(stream), A, None)


def answer(verdict):
    said = encode_hello(B._replace(nonce=bytes(32)))
    return MemoryStream(b"HETSCHED\0\1" + struct.pack(">I", len(said)) + said + verdict)


async def test_verdicts_that_are_not_to_be_believed():
    with pytest.raises(ProtocolError, match="memory gave a verdict of 65535 bytes"):
        await greet_opener(stream := answer(b"\0\xff\xff"), Reader(stream), A, None)
    with pytest.raises(Rejected, match=re.escape("memory does not take us: a?[31mb?")):
        await greet_opener(stream := answer(b"\0\0\x08a\x1b[31mb\n"), Reader(stream), A, None)
    with pytest.raises(ConnectionLost, match="memory closed the connection in the middle of a message"):
        await greet_opener(stream := answer(b"\0"), Reader(stream), A, None)


async def test_a_proof_that_is_too_long():
    said = encode_hello(A._replace(nonce=bytes(32)))
    stream = MemoryStream(b"HETSCHED\0\1" + struct.pack(">I", len(said)) + said + b"\xff")
    with pytest.raises(ProtocolError, match="memory gave a proof of 255 bytes"):
        await greet_acceptor(stream, Reader(stream), B, None)


async def test_silent_and_slow_peers_are_cut_off(autojump_clock):
    async with trio.open_nursery() as nursery:
        listener = await listen("inproc://here")
        nursery.start_soon(listener.accept)
        with pytest.raises(TimeoutError, match="inproc://here did not finish its greeting within 10 s"):
            await open_channel("inproc://here", A)
        stream = await nursery.start(dribble, listener)
        with pytest.raises(TimeoutError, match="inproc://here did not finish its greeting within 3 s"):
            await accept_channel(stream, B, timeout=3)
        await listener.aclose()


async def dribble(listener, task_status):
    """Say one byte a second."""
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def accept():
            task_status.started(await listener.accept())

        stream = await listener.join()
    with pytest.raises(ConnectionLost):
        for byte in b"HETSCHED\0\1" * 10:
            await stream.send_all([bytes([byte])])
            await trio.sleep(1)


MESSAGES = [("a", None, True, 1.5, -1, 2**64 - 1, b"b", "ü"), (), (("deep", ({1: (2,), (3, 4): "5"},)),)]


async def test_all_kinds_of_messages_and_frames():
    square = np.arange(10_000.0).reshape(100, 100)
    frames = [b"", b"a", bytearray(b"bc"), memoryview(b"d"), square, np.array(7), np.empty((0, 3)), square.T.copy()]
    async with channels(address="tcp://127.0.0.1:0") as (one, other):
        packet = await carry(one, other, iter(MESSAGES), frames)
        assert packet.messages == tuple(MESSAGES)
        assert [bytes(f) for f in packet.frames] == [np.asarray(f).tobytes() if len(bytes(f)) else b"" for f in frames]
        assert {(f.readonly, f.format, f.ndim) for f in packet.frames} == {(False, "B", 1)}
        assert await carry(other, one, [], []) == ((), ())
        many = [b"x"] * 5000
        assert await carry(one, other, [("m",)], many) == ((("m",),), tuple(many))


async def test_large_headers_and_frames():
    frames = [np.full(3_000_000, i, "u1") for i in range(3)]
    message = ("x", list(range(30_000)))
    async with channels(address="tcp://127.0.0.1:0") as (one, other):
        for _ in range(2):
            packet = await carry(one, other, [message], frames)
            assert packet.messages == (("x", tuple(range(30_000))),)
            assert [np.array_equal(a, b) for a, b in zip(packet.frames, frames, strict=True)] == [True] * 3


PINS = {"send-compression": "lz4"}


@pytest.mark.skipif("lz4" not in available(), reason="lz4 is not installed")
async def test_compression():
    rng = np.random.default_rng(2)
    frames = [np.zeros(1_000_000), rng.bytes(500_000), b"ab" * 1000, b"ab" * 10, np.arange(3000)]
    async with channels(A._replace(pins=PINS), B) as (one, other):
        assert (one.terms.send_compression, other.terms.send_compression) == ("lz4", "lz4")
        packet = await carry(one, other, [("x",)], frames)
        assert [bytes(f) for f in packet.frames] == [bytes(f) for f in frames]
        assert not any(f.readonly for f in packet.frames)
        assert one.bytes_out == other.bytes_in
        assert 500_000 < one.bytes_out < 600_000
        # The other end has no such wish, and within one machine it is not worth it.
        await carry(other, one, [], [bytes(1_000_000)])
        assert other.bytes_out > 1_000_000


async def test_what_is_not_sent_harms_nobody():
    async with channels() as (one, other):
        with pytest.raises(OversizeError, match=f"takes {FRAMES} bytes at once, not {FRAMES + 1}"):
            await one.send([("x",)], [bytes(FRAMES), b"x"])
        with pytest.raises(OversizeError, match=rf"takes a header of {HEADER} bytes, not 3\d+"):
            await one.send([("x", "y" * 300_000)])
        with pytest.raises(ValueError, match="only C-contiguous memory can be sent"):
            await one.send([("x",)], [np.arange(6)[::2]])
        for bad, error in (((object(),), TypeError), ((2**64,), OverflowError), (("\ud800",), ValueError)):
            with pytest.raises(error):
                await one.send([("fine",), bad])
        assert await carry(one, other, [("x",)], [bytes(FRAMES)]) == ((("x",),), (bytes(FRAMES),))


async def test_many_send_at_once():
    async with channels(address="tcp://127.0.0.1:0") as (one, other), trio.open_nursery() as nursery:
        for i in range(30):
            nursery.start_soon(one.send, [(i,)], [bytes([i]) * (i * 20_000), b"end"])
        seen = {}
        for _ in range(30):
            (((i,),), frames) = await other.receive()
            seen[i] = frames == (bytes([i]) * (i * 20_000), b"end")
        assert seen == dict.fromkeys(range(30), True)


def packed(messages, frames=(), sizes=None):
    """A packet's bytes; ``sizes`` are what its header says instead of the truth."""
    header = encode_header(messages, [FrameSize(len(f), len(f)) for f in frames] if sizes is None else sizes)
    return b"".join([struct.pack(">I", len(header)), header, *frames])


def receiving(data, step=1 << 30, limit=LIMIT, header=2000, compressions=()):
    """A channel that receives these bytes, and its stream."""
    stream = MemoryStream(data, step)
    return Channel(stream, Reader(stream), greeted(limit, header, compressions)), stream


def greeted(limit=LIMIT, header=2000, compressions=()):
    mine = A._replace(max_frame=limit, max_header=header, compressions=compressions, nonce=bytes(32))
    peer = B._replace(compressions=compressions, nonce=b"b" * 32)
    return Greeted(mine, peer, agree(mine, peer))


async def test_a_burst_is_read_at_once():
    channel, stream = receiving(packed([("x", "y" * 80)]) * 500)
    assert [await channel.receive() for _ in range(500)] == [((("x", "y" * 80),), ())] * 500
    assert stream.calls <= 2


async def test_a_large_frame_is_received_in_place(monkeypatch):
    made = []
    room = reader._room
    monkeypatch.setattr(reader, "_room", lambda count: made.append(room(count)) or made[-1])
    large = bytes(range(256)) * 4000
    channel, stream = receiving(packed([], [large]) + packed([("next",)]), limit=1 << 20)
    packet = await channel.receive()
    assert (packet.frames[0], stream.calls, [len(m) for m in made]) == (large, 2, [len(large)])
    assert packet.frames[0].obj is made[0].obj
    assert (await channel.receive()).messages == (("next",),)


class Cancelling(MemoryStream):
    """Cancels ``scope`` at every second call, before it gives anything."""

    scope = trio.CancelScope()
    turn = False

    async def receive_some_into(self, view):
        self.turn = not self.turn
        if self.turn:
            self.scope.cancel()
        return await super().receive_some_into(view)


@pytest.mark.parametrize(("step", "cut"), [(1, 30), (7, 30), (70_000, 3_000_000)])
async def test_a_cancelled_receive_goes_on_where_it_was(step, cut):
    header, frames = ("x" * (cut // 10),), (b"a" * 11, b"c" * cut, b"", b"b" * 5)
    data = packed([header], frames)
    stream = Cancelling(data * 2, step)
    channel = Channel(stream, Reader(stream), greeted(limit=1 << 22, header=1 << 20))
    got, cancelled = [], 0
    while len(got) < 2:
        with trio.CancelScope() as stream.scope:
            got.append(await channel.receive())
        cancelled += stream.scope.cancelled_caught
    assert got == [((header,), frames)] * 2
    assert cancelled >= 2 * len(data) // step


async def test_a_send_that_is_cancelled_breaks_the_channel():
    async with channels(address="tcp://127.0.0.1:0") as (one, other):
        with trio.move_on_after(0.05) as scope:
            for _ in range(100):
                await one.send([("x",)], [bytes(5_000_000)])
        assert scope.cancelled_caught
        why = f"the connection to {one.peername} is closed: a message was broken off"
        for use in (partial(one.send, [("x",)]), one.receive):
            with pytest.raises(ConnectionLost, match=f"^{re.escape(why)}$"):
                await use()
        with pytest.raises(ConnectionLost, match=r"closed the connection in the middle|is lost: Connection reset"):
            while True:
                await other.receive()


async def test_waiting_to_send_can_be_cancelled():
    async with channels() as (one, other), trio.open_nursery() as nursery:
        nursery.start_soon(one.send, [("x",)], [bytes(1_000_000)])
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.001) as scope:
            await one.send([("y",)])
        assert scope.cancelled_caught
        assert (await other.receive()).messages == (("x",),)
        assert (await carry(one, other, [("z",)])).messages == (("z",),)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:0", "inproc://here"])
async def test_a_peer_that_closes(address):
    async with channels(address=address) as (one, other):
        await one.send([("last",)])
        await one.aclose()
        for use in (partial(one.send, [("x",)]), one.receive):
            with pytest.raises(ConnectionLost, match=f"the connection to {one.peername} is closed"):
                await use()
        assert (await other.receive()).messages == (("last",),)
        for _ in range(2):
            with pytest.raises(ConnectionLost, match=f"^{other.peername} closed the connection$"):
                await other.receive()
        with pytest.raises(ConnectionLost):
            while True:
                await other.send([("x",)])


def raw(value, frames=b""):
    header = msgpack.packb(value)
    return struct.pack(">I", len(header)) + header + frames


LIES = [
    (b"\xff\xff\xff\xff", "a header of 4294967295 bytes; 2000 are allowed"),
    (struct.pack(">I", 2001), "a header of 2001 bytes; 2000 are allowed"),
    (b"\0\0\0\0", "a header is not msgpack"),
    (b"\0\0\0\1\xc1", "a header is not msgpack"),
    (b"\0\0\0\2\x91\x91", "a header is not msgpack"),
    (b"\0\0\0\2\xc0\xc0", "a header is not msgpack"),
    (b"\0\0\0\4\x92\xa1\xff\x90", "a header is not msgpack"),
    (raw(5), "a header is not a pair of messages and frames"),
    (raw([[], [], []]), "a header is not a pair of messages and frames"),
    (raw([{}, []]), "a header is not a pair of messages and frames"),
    (raw([[{}], []]), "a message is an array, not dict"),
    (raw([[], [LIMIT + 1]]), f"frames of {LIMIT + 1} bytes; {LIMIT} are allowed"),
    (raw([[], [LIMIT, 1]]), f"frames of {LIMIT + 1} bytes; {LIMIT} are allowed"),
    (raw([[], [[1, 2**60]]]), f"frames of {2**60} bytes; {LIMIT} are allowed"),
    (raw([[], [[1, 10]]], b"x"), "a frame is compressed, which was not agreed on"),
    *[
        (raw([[], [size]]), "a frame is not described by its size")
        for size in (-1, True, None, 1.5, "1", [], [0, 1], [1, 1], [2, 1], [1, 2, 3], [True, 2])
    ],
]


@pytest.mark.parametrize(("data", "why"), LIES)
async def test_peers_that_lie(data, why):
    channel, stream = receiving(packed([("fine",)]) + data)
    assert (await channel.receive()).messages == (("fine",),)
    with pytest.raises(ProtocolError, match=f"^memory does not keep to the protocol: {re.escape(why)}"):
        await channel.receive()
    assert stream.closed
    for use in (channel.receive, partial(channel.send, [])):
        with pytest.raises(ConnectionLost, match="memory does not keep to the protocol"):
            await use()


async def test_a_compressed_frame_that_lies():
    channel, stream = receiving(raw([[], [[10, 20_000]]], bytes(10)), compressions=("zlib",))
    with pytest.raises(ProtocolError, match="memory does not keep to the protocol: "):
        await channel.receive()
    assert stream.closed


async def test_a_header_full_of_promises_takes_no_memory():
    """Each array in it claims as many elements as could be there, and room is made for them when they are announced."""
    bomb = (b"\xdd" + struct.pack(">I", 150_000)) * 400
    header = (bomb + bytes(150_000))[:190_000]
    channel, _ = receiving(struct.pack(">I", len(header)) + header, header=HEADER)
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="a header is not msgpack"):
            await channel.receive()
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


GOOD = b"".join(
    [
        packed(MESSAGES, [b"abc", b"", bytes(3000)]),
        packed([("y", "z" * 100)]),
        raw([[["c"]], [[20, 1000], 3]], bytes(23)),
        packed([], [b"d" * 40_000]),
    ]
)
PIECES = st.one_of(
    st.binary(max_size=12),
    st.integers(0, 2**32 - 1).map(partial(struct.pack, ">I")),
    st.sampled_from([b"\xdd\xff\xff\xff\xff", b"\xdf\0\xff\xff\xff", b"\xc6\x7f\xff\xff\xff", b"\xdc\xff\xff"]),
)
EDITS = st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 8), PIECES), max_size=4)
# What comes first is what the reader looks at: most edits are to be there.
EARLY = st.lists(st.tuples(st.integers(0, 160), st.integers(0, 8), PIECES), max_size=4)


def edited(edits):
    data = bytearray(GOOD)
    for at, removed, added in edits:
        data[at : at + removed] = added
    return bytes(data)


async def read_to_the_end(data, step):
    """Read with all limits watched; the streams ends, so the reading must."""
    taken = []
    room = reader._room

    def watched(count):
        taken.append(count)
        return room(count)

    reader._room = watched
    try:
        channel, stream = receiving(data, step, compressions=("zlib",))
        with pytest.raises((ProtocolError, ConnectionLost)):
            while True:
                for frame in (await channel.receive()).frames:
                    assert len(frame) <= LIMIT
        assert stream.calls <= len(data) // step + 4
    finally:
        reader._room = room
    assert max(taken, default=0) <= LIMIT


@settings(max_examples=500)
@given(
    data=st.one_of(EARLY.map(edited), EDITS.map(edited), st.binary(max_size=300)), step=st.sampled_from([13, 1 << 20])
)
def test_rubbish_on_a_channel(data, step):
    trio.run(read_to_the_end, data, step)


HELLO = encode_hello(A._replace(nonce=bytes(32)))
OPENING = b"HETSCHED\0\1" + struct.pack(">I", len(HELLO)) + HELLO + b"\0"


@st.composite
def openings(draw):
    data = bytearray(OPENING)
    for at, removed, added in draw(st.lists(st.tuples(st.integers(0, len(OPENING)), st.integers(0, 8), PIECES))):
        data[at : at + removed] = added
    return bytes(data)


@given(data=st.one_of(openings(), st.binary(max_size=300)), step=st.sampled_from([5, 1 << 20]), accept=st.booleans())
def test_rubbish_in_a_greeting(data, step, accept):
    async def greet():
        stream = MemoryStream(data, step)
        greet = greeting.greet_acceptor if accept else greeting.greet_opener
        with contextlib.suppress(ProtocolError, ConnectionLost, Rejected):
            assert isinstance(await greet(stream, Reader(stream), B, None), Greeted)

    trio.run(greet)
