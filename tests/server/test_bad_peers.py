"""Peers that lie, freeze or hold what cannot be loaded: the others' work goes on."""

from __future__ import annotations

import math
import operator
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from small_cluster import SmallCluster, ask, compute, fetch, hear, part, small_cluster

from hetsched.client.asynchronous import AsyncClient
from hetsched.comm.channel import Channel, accept_channel, open_channel
from hetsched.comm.introduction import introduce
from hetsched.comm.remote_errors import load_error
from hetsched.comm.transports import listen
from hetsched.comm.wire import encode
from hetsched.core.commands import KeysFailed
from hetsched.core.events import KeysReleased
from hetsched.errors import OversizeError
from hetsched.worker.peers import take_results
from hetsched.worker.plan import OnList


def spread(n):
    """A graph of n leaves and their sum."""
    return [(operator.neg, (i,), ()) for i in range(n)] + [(OnList(sum), None, tuple(range(n)))]


async def offered(cluster: SmallCluster, address: str, pool: str | None = None, name: str = "fake") -> Channel:
    """A worker by hand, that the scheduler has taken in."""
    channel = await open_channel(cluster.address, introduce("worker", name))
    cluster.channels.append(channel)
    await channel.send([("WorkerOffered", ({"cpu": 1}, {}, pool, 2, 0.0, None), address, {})])
    await channel.receive()
    return channel


async def orders(channel: Channel) -> list[tuple[int, int]]:
    """What it is told to run next: tasks and attempts."""
    found = []
    while not found:
        messages, _ = await channel.receive()
        found = [(row[0], row[8]) for message in messages if message[0] == "Orders" for row in message[1]]
    return found


async def finish(channel: Channel, tasks: list[tuple[int, int]]) -> None:
    outcomes = tuple((task, attempt, 0.0, 1.0, 8, 0) for task, attempt in tasks)
    await channel.send([("TasksFinished", "cpu", outcomes, (), False)])


@asynccontextmanager
async def mute() -> AsyncIterator[str]:
    """Where peers are greeted and then never answered."""
    listener = await listen("tcp://127.0.0.1:0")

    async def attend() -> None:
        while True:
            channels.append(await accept_channel(await listener.accept(), introduce("worker", "mute")))

    channels: list[Channel] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(attend)
        yield listener.address
        nursery.cancel_scope.cancel()
    for channel in channels:
        await channel.aclose()
    await listener.aclose()


async def test_a_worker_without_an_address_is_told_and_cut_off():
    async with small_cluster("a") as cluster:
        channel = await open_channel(cluster.address, introduce("worker", "fake"))
        cluster.channels.append(channel)
        await channel.send([("WorkerOffered", ({"cpu": 1}, {}, None, 2, 0.0, None), "nonsense", {})])
        messages, _ = await channel.receive()
        assert messages[0][0] == "Closed"
        assert "no address" in messages[0][1]
        assert list(cluster.server.scheduler.state.workers) == ["a"]


@pytest.mark.parametrize("stop", [math.nan, math.inf, -1.0])
async def test_a_worker_that_says_what_cannot_be_is_cut_off_and_its_task_runs_elsewhere(stop):
    async with small_cluster() as cluster:
        client, fake = await cluster.channel(), await offered(cluster, "tcp://127.0.0.1:1")
        await ask(client, *part(1, [(operator.neg, (4,), ())], [0]))
        ((task, attempt),) = await orders(fake)
        await cluster.add_worker("a")
        await fake.send([("TasksFinished", "cpu", ((task, attempt, 0.0, stop, 8, 0),), (), False)])
        messages = ()
        while not messages or messages[-1][0] != "Closed":
            messages, _ = await fake.receive()
        assert f"ran from 0.0 to {stop!r} s" in messages[-1][1]
        (said,) = await hear(client)
        assert await fetch(said.ready[0]) == -4
        assert list(cluster.server.scheduler.state.workers) == ["a"]


async def test_tasks_wait_for_a_worker_that_freezes_no_longer_than_its_data_takes_to_move():
    """Nothing else happens meanwhile: it is the time that has come."""
    async with small_cluster() as cluster:
        client, fake = await cluster.channel(), await offered(cluster, "tcp://127.0.0.1:1")
        await ask(client, *part(1, [(operator.neg, (4,), ())], [0]))
        ((task, attempt),) = await orders(fake)
        await fake.send([("TasksFinished", "cpu", ((task, attempt, 0.0, 0.001, 30_000_000, 0),), (), False)])
        assert (await hear(client))[0].ready[0][0] == 0
        late = await offered(cluster, "tcp://127.0.0.1:1", name="late")
        began = trio.current_time()
        await ask(client, *part(2, [(operator.neg, None, (-1,))] * 4, [0, 1, 2, 3], externals=[(1, 0)]))
        assert len(await orders(fake)) == 2
        with trio.fail_after(10):
            assert len(await orders(late)) == 2
        assert trio.current_time() - began > 0.3


@pytest.mark.parametrize("address", ["tls://127.0.0.1:9", "tcp://127.0.0.1:1", "inproc://nobody"])
async def test_a_peer_that_cannot_be_reached_costs_no_worker(address):
    async with small_cluster() as cluster:
        client, fake = await cluster.channel(), await offered(cluster, address)
        await ask(client, *part(1, spread(1), [0, 1]))
        await finish(fake, (await orders(fake))[:1])
        assert (await hear(client))[0].ready[0][0] == 0
        await cluster.add_worker("a")
        cluster.scopes["fake"] = trio.CancelScope()
        await fake.send([("WorkerLeaving", "it wants to")])
        await trio.sleep(0.05)
        await fake.aclose()
        found = {}
        while not (found.get(1) and found[1][0] == cluster.server._post.where["a"]):
            for said in await hear(client):
                found |= {r[0]: r[2] for r in said.ready}
        assert "a" not in cluster.ends


async def test_a_peer_that_freezes_is_not_waited_for_once_it_is_lost():
    async with mute() as address, small_cluster() as cluster:
        client, fake = await cluster.channel(), await offered(cluster, address)
        await ask(client, *part(1, [(operator.neg, (4,), ())], [0], notes={"workers": ("fake", "b")}))
        await finish(fake, await orders(fake))
        assert (await hear(client))[0].ready[0][0] == 0
        await cluster.add_worker("a")
        await ask(client, *part(2, [(operator.neg, None, (-1,))], [0], externals=[(1, 0)], notes={"workers": ("a",)}))
        while not cluster.workers["a"]._asked:
            await trio.sleep(0.005)
        await trio.sleep(0.05)
        await cluster.add_worker("b")
        await fake.aclose()
        while True:
            for said in await hear(client):
                if said.graph == 2:
                    assert await fetch(said.ready[0]) == 4
                    return


async def test_a_client_does_not_wait_for_a_frozen_worker_once_it_is_lost():
    async with mute() as address, small_cluster() as cluster:
        fake = await offered(cluster, address)
        async with AsyncClient(cluster.address) as client:
            future = client.submit(operator.neg, 4)
            await finish(fake, await orders(fake))
            async with trio.open_nursery() as nursery:

                async def replace() -> None:
                    await trio.sleep(0.1)  # so that the client is waiting
                    await cluster.add_worker("a")
                    await fake.aclose()

                nursery.start_soon(replace)
                assert await client.gather(future) == -4


async def test_a_client_that_ends_while_it_waits_for_a_frozen_worker_leaves_no_connection():
    async with mute() as address, small_cluster() as cluster:
        fake = await offered(cluster, address)
        async with AsyncClient(cluster.address) as client:
            future = client.submit(operator.neg, 4)
            await finish(fake, await orders(fake))
            with trio.move_on_after(0.1):
                await client.gather(future)


class Stubborn:
    """Its pickle cannot be loaded but by this one process's first reader."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __reduce__(self):
        return _raise, (self.error,)


def _raise(error):
    raise error("not here")


def make(error):
    return Stubborn(error)


def use(value):
    return value


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyError, ValueError, SystemExit])
async def test_what_cannot_be_loaded_fails_its_readers_and_no_worker(error):
    async with small_cluster("a", "b") as cluster:
        client = await cluster.channel()
        await ask(client, *part(1, [(make, (error,), ())], [0], notes={"workers": ("a",)}))
        (ready,) = (await hear(client))[0].ready
        await ask(client, *part(2, [(use, None, (-1,))], [0], externals=[(1, 0)], notes={"workers": ("b",)}))
        (said,) = await hear(client)
        assert isinstance(said, KeysFailed)
        assert "not here" in str(load_error(said.error[1]))
        # Whoever asks the one that could not load it is told that it is not there.
        (ready,) = cluster.server.scheduler.state.graphs["test-1", 1].tasks
        for address in cluster.server._post.where.values():
            holder = await open_channel(address, introduce("client", "test"))
            await holder.send([("ResultsAsked", (ready.id,))])
            messages, _ = await holder.receive()
            assert messages[0][0] == "ResultsSent"
            await holder.aclose()
        assert await compute(client, *part(3, spread(5), [5])) == [-10]
        assert not cluster.ends


async def test_what_is_said_twice_is_no_harm():
    async with small_cluster("a") as cluster:
        good, liar = await cluster.channel(), await cluster.channel()
        await compute(liar, *part(1, spread(5), [0, 5]))
        await liar.send([encode(KeysReleased("", 1, (0, 0)))])
        assert await compute(liar, *part(2, spread(5), [5])) == [-10]
        assert await compute(good, *part(1, spread(5), [5])) == [-10]


async def test_a_client_that_sends_its_own_code_under_the_name_of_anothers_is_cut_off():
    async with small_cluster("a") as cluster:
        good, liar = await cluster.channel(), await cluster.channel()
        message, frames = part(1, [(operator.neg, (4,), ())], [0])
        own, (code, _) = part(1, [(operator.pos, (4,), ())], [0])
        await ask(liar, message, [code, frames[1]])
        closed = [said for said in await hear(liar) if type(said).__name__ == "Closed"]
        assert "a function came under a digest that is not its own" in closed[0].why
        assert own.functions != message.functions
        assert await compute(good, message, frames) == [-4]


async def test_a_bad_annotation_is_told_and_nothing_of_the_graph_is_left():
    async with small_cluster("a") as cluster:
        good, liar = await cluster.channel(), await cluster.channel()
        await ask(liar, *part(1, spread(5)[:3], [0], total=6))
        message, frames = part(1, spread(5)[:2], [], first=3, total=6, notes={"priority": "first"})
        await ask(liar, message._replace(noted=[0, 1]), frames)
        closed = [said for said in await hear(liar) if type(said).__name__ == "Closed"]
        while not closed:
            closed = [said for said in await hear(liar) if type(said).__name__ == "Closed"]
        assert "priority='first'" in closed[0].why
        assert await compute(good, *part(1, spread(5), [5])) == [-10]
        assert list(cluster.server.scheduler.state.graphs) == [("test-1", 1)]


async def test_sizes_that_no_message_can_say_together_are_no_harm_to_who_asks():
    async with small_cluster() as cluster:
        client, fake = await cluster.channel(), await offered(cluster, "tcp://127.0.0.1:9")
        await ask(client, *part(1, spread(20)[:20], list(range(20))))
        ready = set()
        while len(ready) < 20:
            tasks = await orders(fake)
            await fake.send([("TasksFinished", "cpu", tuple((t, n, 0.0, 1.0, 2**60, 0) for t, n in tasks), (), False)])
            ready |= {p for said in await hear(client) for p, _, _ in said.ready}
        await client.send([("Asked", 1, "info", None)])
        (said,) = await hear(client)
        assert said.answer["workers"]["fake"]["held"] == 20


async def test_a_result_larger_than_its_reader_takes_is_refused_alone():
    async with small_cluster("a") as cluster:
        client = await cluster.channel()
        await ask(client, *part(1, [(bytes, (100_000,), ()), (operator.neg, (1,), ())], [0, 1]))
        found = {}
        while len(found) < 2:
            for said in await hear(client):
                found |= {r[0]: r for r in said.ready}
        reader = await open_channel(found[0][2][0], introduce("client", "test", max_frame=50_000))
        got = {}
        missing, unfit = await take_results(reader, [found[0][1], found[1][1]], got.__setitem__)
        await reader.aclose()
        assert (missing, got) == ([], {found[1][1]: -1})
        ((task, error),) = unfit
        assert task == found[0][1]
        assert isinstance(load_error(error), OversizeError)
