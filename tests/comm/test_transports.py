"""Every transport carries the same bytes, ends in the same ways and says what is wrong."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import ssl
from typing import NamedTuple

import numpy as np
import pytest
import trio
import trio.testing
import trustme

from hetsched.comm.transports import Address, Listener, Stream, connect, flat, listen, parse_address
from hetsched.comm.transports.inproc import inproc_pair
from hetsched.errors import ConnectionLost

SCHEMES = ["tcp", "tls", "unix", "inproc"]


class Certificates(NamedTuple):
    """Contexts that trust each other; ``stranger`` trusts nobody here."""

    server: ssl.SSLContext
    mutual: ssl.SSLContext
    client: ssl.SSLContext
    known: ssl.SSLContext
    stranger: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates():
    ca = trustme.CA()
    made = [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2)]
    made += [ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(3)]
    contexts = Certificates(*made)
    for context in made:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    for context in (contexts.mutual, contexts.client, contexts.known):
        ca.configure_trust(context)
    for context in (contexts.server, contexts.mutual):
        context.num_tickets = 0
        ca.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    ca.issue_cert("worker").configure_cert(contexts.known)
    contexts.mutual.verify_mode = ssl.CERT_REQUIRED
    return contexts


@pytest.fixture
def place(tmp_path, certificates):
    """The address to listen at, and the contexts of the server and the client, by scheme."""

    def at(scheme):
        tls = (certificates.server, certificates.client) if scheme == "tls" else (None, None)
        where = {"unix": f"unix://{tmp_path}/socket", "inproc": "inproc://here"}
        return where.get(scheme, f"{scheme}://127.0.0.1:0"), *tls

    return at


class Ends(NamedTuple):
    listener: Listener
    opened: Stream
    accepted: Stream


@pytest.fixture
def ends(place):
    """Both ends of a stream, by scheme."""

    @contextlib.asynccontextmanager
    async def make(scheme):
        address, server, client = place(scheme)
        listener = await listen(address, server)
        accepted = []

        async def accept():
            stream = await listener.accept()
            accepted.append(stream)
            if scheme == "tls":
                await stream.handshake()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            opened = await connect(listener.address, client)
        yield Ends(listener, opened, accepted[0])
        for closing in (opened, accepted[0], listener):
            await closing.aclose()

    return make


async def received(stream, count):
    data = bytearray(count)
    done = 0
    while done < count:
        got = await stream.receive_some_into(memoryview(data)[done:])
        assert got, f"the stream ended after {done} of {count} bytes"
        done += got
    return data


@pytest.mark.parametrize(
    ("text", "address", "again"),
    [
        ("tcp://10.0.0.7:8786", Address("tcp", "10.0.0.7", 8786), None),
        ("10.0.0.7:8786", Address("tcp", "10.0.0.7", 8786), "tcp://10.0.0.7:8786"),
        ("tls://host.example:0", Address("tls", "host.example", 0), None),
        ("tcp://host:1/", Address("tcp", "host", 1), "tcp://host:1"),
        ("tcp://[::1]:8786", Address("tcp", "::1", 8786), None),
        ("unix:///run/a b.sock", Address("unix", "/run/a b.sock"), None),
        ("inproc://x", Address("inproc", "x"), None),
    ],
)
def test_addresses(text, address, again):
    assert parse_address(text) == address
    assert str(address) == (again or text)


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            "tcp://",
            "tcp://host",
            "tcp://:8786",
            "tcp://host:",
            "tcp://host:x",
            "tcp://host:65536",
            "tcp://host:-1",
        ],
        *["tcp://::1:8786", "tcp://[host]:1", "tcp://a b:1", "tcp://u@host:1", "tcp://host:1/x", "http://host:1"],
        *["unix://", "inproc://", "unix:///a\0b", "tcp://host:٣", "tcp://host:" + "9" * 5000],
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match=r"no address|the port is|no such transport|does not say where"):
        parse_address(text)


@pytest.mark.parametrize(
    "value",
    [b"", b"abc", bytearray(b"abc"), np.arange(6, dtype="i4").reshape(2, 3), np.array(3.0), np.empty((0, 3))],
    ids=repr,
)
def test_flat(value):
    view = flat(value)
    assert (view.format, view.ndim, bytes(view)) == ("B", 1, value.tobytes() if hasattr(value, "tobytes") else value)


def test_memory_with_gaps_is_not_flat():
    with pytest.raises(ValueError, match="only C-contiguous memory"):
        flat(np.arange(6)[::2])


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_bytes_cross_both_ways_at_once(scheme, ends):
    large = np.random.default_rng(1).integers(0, 255, 5_000_000, "u1")
    buffers = [b"", b"a", large, b"", bytearray(b"b" * 70_000), memoryview(b"c"), *[b"xyz"] * 3000, large[:1000]]
    whole = b"".join(bytes(b) for b in buffers)
    async with ends(scheme) as (listener, opened, accepted):
        got = []

        async def take(stream):
            got.append(await received(stream, len(whole)))

        async with trio.open_nursery() as nursery:
            for stream in (opened, accepted):
                nursery.start_soon(take, stream)
                nursery.start_soon(stream.send_all, buffers)
        assert got == [whole, whole]
        assert (opened.local, accepted.local) == (True, True)
        assert opened.peername == listener.address
        assert re.fullmatch(rf"{scheme}://(127.0.0.1:\d+|/.*/socket|here)", accepted.peername)
        await opened.send_all([])
        await opened.send_all([b"", b"last"])
        assert await received(accepted, 4) == b"last"


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_the_end_of_a_stream(scheme, ends):
    async with ends(scheme) as (_, opened, accepted):
        await opened.send_all([b"abc"])
        await opened.aclose()
        await opened.aclose()
        view = memoryview(bytearray(10))
        assert await accepted.receive_some_into(view) == 3
        assert await accepted.receive_some_into(view) == 0
        for use in (opened.send_all([b"x"]), opened.receive_some_into(view)):
            with pytest.raises(ConnectionLost, match=r"connection to .* is closed|no TLS connection with"):
                await use
        with pytest.raises(ConnectionLost):
            while True:
                await accepted.send_all([bytes(100_000)])


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_abort_wakes_who_waits(scheme, ends):
    async with ends(scheme) as (_, opened, accepted):
        lost = []

        async def fails(use, *args):
            with pytest.raises(ConnectionLost) as caught:
                while True:
                    await use(*args)
            lost.append(str(caught.value))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, opened.receive_some_into, memoryview(bytearray(1)))
            nursery.start_soon(fails, opened.send_all, [bytes(10_000_000)])
            await trio.testing.wait_all_tasks_blocked()
            opened.abort()
        assert lost == [f"the connection to {opened.peername} is closed"] * 2
        assert accepted.peername


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_cancelled_receive_loses_nothing(scheme, ends):
    async with ends(scheme) as (_, opened, accepted):
        view = memoryview(bytearray(100))
        with trio.CancelScope() as scope:
            scope.cancel()
            await accepted.receive_some_into(view)
        with trio.move_on_after(0.001):
            await accepted.receive_some_into(view)
        await opened.send_all([b"abc"])
        assert (await accepted.receive_some_into(view), bytes(view[:3])) == (3, b"abc")


async def test_a_cancelled_send_takes_its_memory_back():
    one, other = inproc_pair("x")
    memory = bytearray(b"a" * 1_000_000)
    with trio.move_on_after(0.001) as scope:
        await one.send_all([memory])
    assert scope.cancelled_caught
    memory[:] = b"b" * 1_000_000
    assert await other.receive_some_into(memoryview(bytearray(10))) == 0


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_others_have_their_turn(scheme, ends):
    """Though neither sending nor receiving ever has to wait."""
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with ends(scheme) as (_, opened, accepted), trio.open_nursery() as nursery:
        nursery.start_soon(count)
        for _ in range(1000):
            await opened.send_all([bytes(100)])
            await received(accepted, 100)
        nursery.cancel_scope.cancel()
    assert turns > 10


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_listener_that_closes(scheme, place):
    address, server, client = place(scheme)
    listener = await listen(address, server)

    async def accept():
        with pytest.raises(ConnectionLost, match="does not listen any more"):
            await listener.accept()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        await trio.testing.wait_all_tasks_blocked()
        await listener.aclose()
    await listener.aclose()
    await accept()
    with pytest.raises(
        ConnectionLost, match=f"cannot connect to {listener.address}: .*[rR]efused|No such file|nothing"
    ):
        await connect(listener.address, client)
    again = await listen(listener.address, server)
    assert again.address == listener.address
    await again.aclose()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_an_address_that_is_taken(scheme, place):
    address, server, _ = place(scheme)
    listener = await listen(address, server)
    with pytest.raises(
        OSError, match=f"cannot listen at {listener.address}: (Address already in use|the name is taken)"
    ):
        await listen(listener.address, server)
    await listener.aclose()


async def test_addresses_that_are_not_there():
    with pytest.raises(OSError, match=r"cannot listen at tcp://192.0.2.1:0: "):
        await listen("tcp://192.0.2.1:0")
    with pytest.raises(OSError, match=r"cannot listen at unix:///no/such/folder/x: No such file"):
        await listen("unix:///no/such/folder/x")
    with pytest.raises(OSError, match=r"cannot listen at unix:///.*: AF_UNIX path too long"):
        await listen("unix:///" + "x" * 200)
    with pytest.raises(ConnectionLost, match=r"cannot connect to tcp://a\.\.b:1: "):
        await connect("tcp://a..b:1")


async def test_ipv6():
    try:
        listener = await listen("tcp://[::1]:0")
    except OSError:
        pytest.skip("no IPv6 here")
    stream = await connect(listener.address)
    other = await listener.accept()
    assert re.fullmatch(r"tcp://\[::1\]:\d+", other.peername)
    assert other.local
    for closing in (stream, other, listener):
        await closing.aclose()


async def test_certificates_where_they_do_not_belong(certificates):
    with pytest.raises(ValueError, match=r"tls://127.0.0.1:1 needs certificates"):
        await connect("tls://127.0.0.1:1")
    with pytest.raises(ValueError, match=r"tcp://127.0.0.1:0 does not use them: write tls://"):
        await listen("tcp://127.0.0.1:0", certificates.server)


async def test_nobody_answers(certificates):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tls://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TimeoutError, match=f"cannot connect to {address}: no answer within 0.05 s"):
            await connect(address, certificates.client, timeout=0.05)


async def tls_fails(server, client, host="127.0.0.1"):
    """What the two ends of a failing connection say."""
    said = {}
    listener = await listen("tls://0.0.0.0:0", server)

    async def accept():
        stream = await listener.accept()
        with pytest.raises(ConnectionLost) as caught:
            await stream.receive_some_into(memoryview(bytearray(1)))
        said["server"] = str(caught.value).partition(": ")[2]
        with trio.move_on_after(1):
            await stream.linger()
        stream.abort()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        with pytest.raises(ConnectionLost) as caught:
            stream = await connect(listener.address.replace("0.0.0.0", host), client)
            try:
                await stream.receive_some_into(memoryview(bytearray(1)))
            finally:
                stream.abort()
        said["client"] = str(caught.value).partition(": ")[2]
    await listener.aclose()
    return said["server"], said["client"]


async def test_certificates_that_are_not_good(certificates):
    mutual, server, known = certificates.mutual, certificates.server, certificates.known
    assert await tls_fails(server, certificates.stranger) == (
        "tlsv1 alert unknown ca",
        "unable to get local issuer certificate",
    )
    assert await tls_fails(mutual, certificates.client) == (
        "peer did not return a certificate",
        "tlsv13 alert certificate required",
    )
    assert (await tls_fails(server, known, "127.0.0.2"))[1].startswith("IP address mismatch")


async def test_a_certificate_that_is_asked_for(certificates):
    listener = await listen("tls://localhost:0", certificates.mutual)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def accept():
            stream = await listener.accept()
            await stream.send_all([await received(stream, 5)])
            await stream.aclose()

        stream = await connect(listener.address, certificates.known)
        await stream.send_all([b"hello"])
        assert await received(stream, 5) == b"hello"
        assert await stream.receive_some_into(memoryview(bytearray(1))) == 0
        await stream.aclose()
    await listener.aclose()


async def test_tls_and_what_is_not(certificates):
    plain = await listen("tcp://127.0.0.1:0")
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def answer():
            stream = await plain.accept()
            await stream.send_all([b"HTTP/1.0 400 Bad Request\r\n"])
            await stream.linger()
            await stream.aclose()

        with pytest.raises(ConnectionLost, match=r"no TLS connection with tls://.*: wrong version number"):
            await connect(plain.address.replace("tcp", "tls"), certificates.client)
    await plain.aclose()


async def test_linger_lets_the_last_words_arrive(ends):
    async with ends("tcp") as (_, opened, accepted):
        await opened.send_all([bytes(1000)])
        await accepted.send_all([b"no"])
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def close():
                await accepted.linger()
                await accepted.aclose()

            await opened.send_all([bytes(1000)])
            assert await received(opened, 2) == b"no"
            assert await opened.receive_some_into(memoryview(bytearray(1))) == 0
            await opened.aclose()


async def test_a_unix_socket_is_its_owner_s(tmp_path):
    path = tmp_path / "socket"
    listener = await listen(f"unix://{path}")
    assert path.stat().st_mode & 0o777 == 0o600
    await listener.aclose()
    assert not path.exists()


async def test_a_unix_socket_that_was_left_behind(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    listener = await listen(f"unix://{path}")
    stream = await connect(listener.address)
    await stream.aclose()
    path.rename(tmp_path / "moved")
    path.write_text("another's")
    await listener.aclose()
    assert path.read_text() == "another's"
    with pytest.raises(OSError, match="Address already in use"):
        await listen(f"unix://{path}")


async def test_no_file_descriptors_left():
    listener = await listen("tcp://127.0.0.1:0")
    stream = await connect(listener.address)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def accept():
            await (await listener.accept()).aclose()

        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            await trio.testing.wait_all_tasks_blocked()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert await stream.receive_some_into(memoryview(bytearray(1))) == 0
    await stream.aclose()
    await listener.aclose()


async def test_the_system_looks_whether_a_silent_peer_is_there():
    listener = await listen("tcp://127.0.0.1:0")
    near = await connect(listener.address)
    far = await listener.accept()
    for stream in (near, far):
        sock = stream._socket
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        await stream.aclose()
    await listener.aclose()
