"""A scheduler and workers of a cluster in this process's loop, on real sockets, and a client that speaks by hand."""

from __future__ import annotations

import pickle
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from hetsched.comm.channel import Channel, open_channel
from hetsched.comm.functions import dump_function
from hetsched.comm.introduction import introduce
from hetsched.comm.messages import GraphPart, PeerLost
from hetsched.comm.wire import encode, to_client
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import Capacity
from hetsched.server.limits import Limits
from hetsched.server.server import Server
from hetsched.worker.peers import Secrets, take_results
from hetsched.worker.process import Offer, WorkerProcess

PYTHON = "{}.{}".format(*sys.version_info)


class SmallCluster:
    """Start it with :func:`small_cluster`."""

    def __init__(self, nursery: trio.Nursery, server: Server, token: bytes | None) -> None:
        self.nursery = nursery
        self.server = server
        self.token = token
        self.scopes: dict[str, trio.CancelScope] = {}
        self.ends: dict[str, str] = {}
        """Why each worker ended."""
        self.workers: dict[str, WorkerProcess] = {}
        self.channels: list[Channel] = []

    @property
    def address(self) -> str:
        return self.server.addresses[0]

    async def add_worker(self, name: str, slots: int = 1, pool: str | None = None, **offer: Any) -> None:
        """Start a worker, and wait until the scheduler has it."""
        capacity = Capacity({"cpu": slots, "io": 4, "process": 1}, {}, pool, 2, 0.05, PYTHON)
        worker = WorkerProcess(Offer(name, capacity, **offer), introduce("worker", name), Secrets(self.token))
        self.workers[name] = worker
        scope = self.scopes[name] = trio.CancelScope()

        async def live() -> None:
            with scope:
                self.ends[name] = await worker.run(self.address)

        self.nursery.start_soon(live)
        while name not in self.server.scheduler.state.workers:
            await trio.sleep(0.001)

    async def channel(self) -> Channel:
        """Connect as a client; closed with the cluster."""
        channel = await open_channel(self.address, introduce("client", "test"), self.token)
        self.channels.append(channel)
        return channel


@asynccontextmanager
async def small_cluster(
    *names: str, limits: Limits | None = None, options: Options | None = None, token: bytes | None = None,
    pools: dict[str, str] | None = None,
) -> AsyncIterator[SmallCluster]:
    """A cluster with these workers, one slot each."""
    async with trio.open_nursery() as nursery:
        server = Server(Scheduler(options=options), introduce("scheduler", "test"), limits or Limits())
        await nursery.start(server.serve, ["tcp://127.0.0.1:0"], token)
        cluster = SmallCluster(nursery, server, token)
        for name in names:
            await cluster.add_worker(name, pool=(pools or {}).get(name))
        try:
            yield cluster
        finally:
            with trio.CancelScope(shield=True):
                for channel in cluster.channels:
                    await channel.aclose()
        server.stop()
        nursery.cancel_scope.cancel()


Call = tuple[Callable[..., Any], "tuple[Any, ...] | None", Sequence[int]]
"""A function, its arguments (None: each dependency), its dependencies."""


def part(
    graph: int, calls: Sequence[Call], wanted: Sequence[int], *, first: int = 0, total: int | None = None,
    externals: Sequence[tuple[int, int]] = (), notes: dict[str, Any] | None = None, size: int = 100,
) -> tuple[GraphPart, list[Any]]:  # fmt: skip
    """A graph, or a part of one, and its frames."""
    table: dict[bytes, Any] = {}
    rows = []
    for func, args, _ in calls:
        function = dump_function(func, 5)
        table[function.digest] = function.data
        rows.append((list(table).index(function.digest), args, None))
    payloads, frames = [], list(table.values())
    for a in range(0, len(rows), size):
        piece = rows[a : a + size]
        payloads.append((len(piece), 1, tuple(range(len(table)))))
        places, args, _ = zip(*piece, strict=True)
        frames.append(pickle.dumps((list(places), list(args), None, None, 0, ())))
    keys = [f"k-{first + i}" for i in range(len(calls))]
    noted = [1] * len(calls) if notes else []
    message = GraphPart(
        "", graph, len(calls) if total is None else total, first, keys, [deps for *_, deps in calls], wanted,
        [notes] if notes else [], noted, list(table), payloads, 0, externals,
    )  # fmt: skip
    return message, frames


async def hear(channel: Channel) -> list[Any]:
    """What the scheduler says next, beside that a worker was lost."""
    while True:
        messages, _ = await channel.receive()
        said = [to_client.decode(message, "test") for message in messages]
        if found := [message for message in said if not isinstance(message, PeerLost)]:
            return found


async def ask(channel: Channel, message: GraphPart, frames: Sequence[Any]) -> None:
    await channel.send([encode(message)], frames)


async def fetch(ready: Any, token: bytes | None = None) -> Any:
    """Get one result from the first who has it."""
    _, task, holders = ready
    got: list[Any] = []
    channel = await open_channel(holders[0], introduce("client", "test"), token)
    missing, unfit = await take_results(channel, [task], lambda _, value: got.append(value))
    await channel.aclose()
    assert (missing, unfit) == ([], [])
    return got[0]


async def compute(channel: Channel, message: GraphPart, frames: Sequence[Any], token: bytes | None = None) -> list[Any]:
    """Submit a graph; return the values of what is wanted, by position."""
    await ask(channel, message, frames)
    found: dict[int, Any] = {}
    while len(found) < len(message.wanted):
        for said in await hear(channel):
            assert type(said).__name__ == "KeysReady", said
            for ready in said.ready:
                found[ready[0]] = await fetch(ready, token)
    return [found[position] for position in message.wanted]
