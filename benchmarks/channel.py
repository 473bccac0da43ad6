"""A channel against bare sockets over loopback, each with its two ends in two processes, turn and turn about.

Run it with ``python benchmarks/channel.py`` (half a minute) or ``--quick`` (some seconds, less data: a try, not a
result). Every figure is a median; the last column compares the best times, which other work on the machine disturbs
least. The bare pair does the least that can be done: ``sendmsg`` of one buffer, and
``recv_into`` one that was not written to before. Ratios tell, times depend on the machine and on what else it does.

- Bandwidth: from the request, a message of a byte, until the last byte is there.
- Round trip: a message of 100 bytes there and back.
- Burst: messages of 100 bytes sent one after the other, until the last is there.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter

import numpy
import trio

from hetsched.comm.channel import Channel, accept_channel, open_channel
from hetsched.comm.handshake import Hello
from hetsched.comm.transports import listen

SMALL = b"x" * 100
BURST = 10_000


def hello() -> Hello:
    return Hello("worker", "", (1,), (3, 11, 0), 5, (), sys.byteorder, (), {}, 1 << 40, 1 << 30)


def chunk(nbytes: int) -> numpy.ndarray:
    return numpy.full(nbytes, 7, numpy.uint8)


# The other end, a process of its own: it sends what it is asked for.


def serve_bare(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = b""
        while request := sock.recv(len(SMALL), socket.MSG_WAITALL):
            if request == SMALL:
                sock.sendall(SMALL)
            elif request.startswith(b"burst"):
                for _ in range(BURST):
                    sock.sendall(SMALL)
            else:
                nbytes = int(request)
                data = data if len(data) == nbytes else memoryview(chunk(nbytes))
                sent = 0
                while sent < nbytes:
                    sent += sock.sendmsg([data[sent:]])


async def serve_channel(address: str) -> None:
    channel = await open_channel(address, hello())
    data = b""
    while True:
        (((request,), *_), _) = await channel.receive()
        if request == SMALL:
            await channel.send([(SMALL,)])
        elif request == b"burst":
            for _ in range(BURST):
                await channel.send([(SMALL,)])
        elif request == b"end":
            return
        else:
            data = data if len(data) == request else chunk(request)
            await channel.send([(b"here",)], [data])


@contextmanager
def other_end(*args: str) -> Iterator[None]:
    with subprocess.Popen([sys.executable, __file__, *args]) as process:
        yield
        process.wait()


# This end, which measures.


def bare_bandwidth(sock: socket.socket, nbytes: int) -> float:
    began = perf_counter()
    sock.sendall(str(nbytes).encode().rjust(len(SMALL)))
    view, got = numpy.empty(nbytes, numpy.uint8).data, 0
    while got < nbytes:
        got += sock.recv_into(view[got:])
    return perf_counter() - began


async def channel_bandwidth(channel: Channel, nbytes: int) -> float:
    began = perf_counter()
    await channel.send([(nbytes,)])
    packet = await channel.receive()
    took = perf_counter() - began
    assert packet.frames[0].nbytes == nbytes
    return took


def bare_round_trip(sock: socket.socket, times: int) -> float:
    began = perf_counter()
    for _ in range(times):
        sock.sendall(SMALL)
        sock.recv(len(SMALL), socket.MSG_WAITALL)
    return (perf_counter() - began) / times


async def channel_round_trip(channel: Channel, times: int) -> float:
    began = perf_counter()
    for _ in range(times):
        await channel.send([(SMALL,)])
        await channel.receive()
    return (perf_counter() - began) / times


def bare_burst(sock: socket.socket) -> float:
    began = perf_counter()
    sock.sendall(b"burst".ljust(len(SMALL)))
    for _ in range(BURST):
        sock.recv(len(SMALL), socket.MSG_WAITALL)
    return (perf_counter() - began) / BURST


async def channel_burst(channel: Channel) -> float:
    began = perf_counter()
    await channel.send([(b"burst",)])
    for _ in range(BURST):
        await channel.receive()
    return (perf_counter() - began) / BURST


async def measure(sock: socket.socket, channel: Channel, runs: int, sizes: list[int], times: int) -> None:
    lines = [
        *(
            (f"{n / 1e6:,.0f} MB", n, partial(bare_bandwidth, sock, n), partial(channel_bandwidth, channel, n))
            for n in sizes
        ),
        ("round trip", 0, partial(bare_round_trip, sock, times), partial(channel_round_trip, channel, times)),
        ("burst, a message", 0, partial(bare_burst, sock), partial(channel_burst, channel)),
    ]
    print("| | bare | channel | channel's speed / bare | best of each |\n|---|---|---|---|---|")
    for name, nbytes, bare, ours in lines:
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(runs + 1):
            gc.collect()
            taken[0].append(bare())
            taken[1].append(await ours())
        a, b = (statistics.median(times[1:]) for times in taken)  # the first makes the data
        shown = [f"{nbytes / t / 1e9:.2f} GB/s" if nbytes else f"{t * 1e6:.1f} us" for t in (a, b)]
        best = min(taken[0][1:]) / min(taken[1][1:])
        print(f"| {name} | {shown[0]} | {shown[1]} | {a / b:.0%} | {best:.0%} |", flush=True)


async def main(runs: int, sizes: list[int], times: int) -> None:
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = await listen("tcp://127.0.0.1:0")
        with other_end("bare", str(server.getsockname()[1])), other_end("channel", listener.address):
            sock, _ = server.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = await accept_channel(await listener.accept(), hello())
            with sock:
                await measure(sock, channel, runs, sizes, times)
            await channel.send([(b"end",)])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bare", port]:
            serve_bare(int(port))
        case ["channel", address]:
            trio.run(serve_channel, address)
        case _:
            parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
            parser.add_argument("--quick", action="store_true", help="less data")
            if parser.parse_args().quick:
                trio.run(main, 3, [100_000_000], 1000)
            else:
                trio.run(main, 7, [100_000_000, 1_000_000_000], 5000)
