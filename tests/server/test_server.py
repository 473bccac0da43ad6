"""The scheduler's process: graphs run on workers, and no peer's misbehaviour is another's loss."""

from __future__ import annotations

import operator
import struct
import time

import msgpack
import pytest
import trio
from small_cluster import ask, compute, fetch, hear, part, small_cluster

from hetsched.comm.channel import open_channel
from hetsched.comm.introduction import introduce
from hetsched.comm.messages import Asked
from hetsched.comm.remote_errors import load_error
from hetsched.comm.wire import encode
from hetsched.core.commands import KeysFailed
from hetsched.core.events import GraphReleased, KeysReleased
from hetsched.core.needs import PYTHON
from hetsched.core.scheduler import Options
from hetsched.errors import ConnectionLost, Rejected
from hetsched.server.limits import Limits
from hetsched.worker.peers import Secrets
from hetsched.worker.plan import OnList
from hetsched.worker.process import Offer, WorkerProcess


def add(*numbers):
    return sum(numbers)


def fail(*_):
    raise ZeroDivisionError("on purpose")


def spread(n):
    """A graph of n leaves and their sum."""
    return [(operator.neg, (i,), ()) for i in range(n)] + [(OnList(sum), None, tuple(range(n)))]


async def test_a_graph_runs_on_all_workers():
    async with small_cluster("a", "b") as cluster:
        channel = await cluster.channel()
        assert await compute(channel, *part(1, spread(500), [500])) == [-sum(range(500))]
        infos = cluster.server.scheduler.state.prefixes["k"].on["cpu"].count
        assert infos == 501
        await channel.send([encode(GraphReleased("", 1))])
        assert await compute(channel, *part(2, [(operator.neg, (3,), ())], [0])) == [-3]


async def test_a_graph_in_parts_that_reads_another():
    async with small_cluster("a", "b") as cluster:
        channel = await cluster.channel()
        assert await compute(channel, *part(1, spread(10), [3, 10])) == [-3, -45]
        calls = [(add, None, (-1, -2))] + [(operator.neg, None, (i,)) for i in range(9)]
        first, frames = part(7, calls[:4], [0], total=10, externals=[(1, 3), (1, 10)])
        await ask(channel, first, frames)
        rest, frames = part(7, calls[4:], [9], first=4, total=10)
        await ask(channel, rest, frames)
        ready = []
        while len(ready) < 2:
            for said in await hear(channel):
                ready += said.ready
        assert {r[0]: await fetch(r) for r in ready} == {0: -48, 9: 48}
        await channel.send([encode(KeysReleased("", 1, (3, 10))), encode(GraphReleased("", 7))])
        await channel.send([encode(Asked("", 1, "info", None))])
        (answer,) = await hear(channel)
        assert (answer.answer["tasks"], answer.answer["graphs"], answer.error) == (0, 0, None)
        assert set(answer.answer["workers"]) == {"a", "b"}
        assert answer.answer["workers"]["a"]["terms"]["pickle"] == 5


async def test_an_error_comes_with_its_traceback_and_story():
    async with small_cluster("a") as cluster:
        channel = await cluster.channel()
        await ask(channel, *part(1, [(operator.neg, (1,), ()), (fail, None, (0,)), (add, None, (1,))], [2]))
        (said,) = await hear(channel)
        assert isinstance(said, KeysFailed)
        assert (said.failed, said.root, said.worker) == ((2,), 1, "a")
        kind, packed, executor, thread = said.error
        error = load_error(packed)
        assert (kind, executor, thread.split("-")[1]) == ("raised", "cpu", "cpu")
        assert repr(error) == "ZeroDivisionError('on purpose')"
        frames = []
        tb = error.__traceback__
        while tb is not None:
            frames.append(tb.tb_frame.f_code.co_name)
            tb = tb.tb_next
        assert "fail" in frames
        assert "ASSIGNED" in said.story


@pytest.mark.parametrize(
    "bad",
    [
        ("Nonsense", 1),
        ("GraphPart",),
        ("KeysReleased", "one", (1,)),
        ("GraphPart", 1, 2, 0, ("a",), (), (0,), (), (), (), ()),
        ("GraphPart", 1, 1, 0, ("a",), ((0,),), (0,), (), (), (), ((1, 1, ()),)),
        ("GraphPart", 1, 1, 0, ("a",), ((),), (5,), (), (), (), ((1, 1, ()),)),
        ("GraphPart", 1, 1, 0, ("a",), ((),), (0,), (), (7,), (), ((1, 1, ()),)),
        ("GraphPart", 1, 1, 0, ("a",), ((-1,),), (0,), (), (), (), ((1, 1, ()),), 0, ((9, 9),), (), ()),
        ("GraphPart", 1, 1, 0, ("a",), ((),), (0,), (), (), (), ((1, 1, ()),), 0, (), (("d", "f", ()),), (1,)),
        ("GraphPart", 1, 1, 0, ("a",), ((),), (0,), (), (), (), ((1, 1, ()),), 0, (), (("d", "f"),), (0,)),
    ],
)
async def test_a_client_that_lies_is_told_and_cut_off_alone(bad):
    async with small_cluster("a") as cluster:
        good, liar = await cluster.channel(), await cluster.channel()
        if bad[0] == "GraphPart" and len(bad) in (2, 12):
            bad = (*bad, 0, (), (), ())
        await liar.send([bad], [b"frame"])
        (said,) = await hear(liar)
        assert type(said).__name__ == "Closed"
        assert said.why
        with pytest.raises(ConnectionLost):
            await liar.receive()
        assert await compute(good, *part(1, spread(5), [5])) == [-10]
        assert list(cluster.server.scheduler.state.graphs) == [("test-1", 1)]


async def test_a_client_that_goes_leaves_nothing():
    async with small_cluster("a") as cluster:
        channel = await cluster.channel()
        await compute(channel, *part(1, spread(5), [0, 5]))
        assert len(cluster.server.scheduler.state.tasks) == 6
        await channel.aclose()
        while cluster.server.scheduler.state.tasks:
            await trio.sleep(0.001)
        while len(cluster.workers["a"]._store):
            await trio.sleep(0.001)


async def test_the_work_of_a_lost_worker_is_done_again():
    async with small_cluster("a", "b") as cluster:
        channel = await cluster.channel()
        n = 40
        calls = [(time.sleep, (0.005,), ()) for _ in range(n)] + [(len_of, None, tuple(range(n)))]
        await ask(channel, *part(1, calls, [n], size=1))
        await trio.sleep(0.05)
        cluster.scopes["a"].cancel()
        (said,) = await hear(channel)
        assert await fetch(said.ready[0]) == n
        assert list(cluster.server.scheduler.state.workers) == ["b"]


def len_of(*items):
    return len(items)


async def test_a_silent_worker_is_lost():
    async with small_cluster("a", limits=Limits(worker_silence=0.2)) as cluster:
        silent = await open_channel(cluster.address, introduce("worker", "mute"))
        cluster.channels.append(silent)
        said = []
        with pytest.raises(ConnectionLost):
            while True:
                said += (await silent.receive()).messages
        assert said == [("Closed", "nothing was heard of it for 0.2 s", False)]


async def test_a_scheduler_that_was_busy_does_not_take_its_workers_for_silent():
    async with small_cluster(limits=Limits(worker_silence=0.4)) as cluster:
        for name in "abc":
            await cluster.add_worker(name, beat=0.05)
        for _ in range(3):
            time.sleep(0.6)  # noqa: ASYNC251 - neither side can say or hear a thing
            await trio.sleep(0.15)
        assert sorted(cluster.server.scheduler.state.workers) == ["a", "b", "c"]


async def test_a_second_worker_of_a_name_is_turned_away():
    async with small_cluster("a") as cluster:
        twin = WorkerProcess(Offer("a", cluster.workers["a"].offer.capacity), introduce("worker", "a"), Secrets())
        with pytest.raises(Rejected, match=r"^there is a worker 'a' already: give this one another --name$"):
            await twin.run(cluster.address)
        channel = await cluster.channel()
        assert await compute(channel, *part(1, spread(5), [5])) == [-10]


async def test_a_worker_that_leaves_finishes_first():
    async with small_cluster("a") as cluster:
        channel = await cluster.channel()
        await ask(channel, *part(1, [(time.sleep, (0.2,), ()), (operator.neg, (4,), ())], [0, 1]))
        await trio.sleep(0.05)
        cluster.workers["a"].leave("it was asked to")
        while "a" not in cluster.ends:
            await trio.sleep(0.005)
        assert cluster.ends["a"] == "it has left"
        await cluster.add_worker("b")
        found = {}
        while len(found) < 2 or not all(found.values()):
            for said in await hear(channel):
                found |= {r[0]: r[2] for r in said.ready}
        assert set(found) == {0, 1}


async def test_a_secret_is_asked_for():
    async with small_cluster("a", token=b"t" * 32) as cluster:
        channel = await cluster.channel()
        assert await compute(channel, *part(1, spread(5), [5]), b"t" * 32) == [-10]
        for token in (None, b"wrong" * 8):
            with pytest.raises(Rejected):
                await open_channel(cluster.address, introduce("client", "x"), token)
        holder = cluster.server._post.where["a"]
        with pytest.raises(Rejected):
            await open_channel(holder, introduce("client", "x"), None)


async def test_a_function_by_value_needs_its_python():
    async with small_cluster("a") as cluster:
        channel = await cluster.channel()
        message, frames = part(1, [(operator.neg, (1,), ())], [0], notes={PYTHON: "2.7"})
        await ask(channel, message, frames)
        (said,) = await hear(channel)
        assert said.error[:2] == ("said", "NoWorkerError")
        assert "Python 2.7" in said.error[2]
        assert f"the workers run Python {cluster.workers['a'].offer.capacity.python}" in said.error[2]


async def test_a_task_that_loses_its_workers_fails_with_their_names():
    async with small_cluster(options=Options(allowed_losses=1)) as cluster:
        channel = await cluster.channel()
        await ask(channel, *part(1, [(time.sleep, (0.3,), ())], [0]))
        for name in ("a", "b"):
            await cluster.add_worker(name)
            await trio.sleep(0.02)
            cluster.scopes[name].cancel()
        (said,) = await hear(channel)
        assert said.error[:2] == ("said", "WorkerLostError")
        assert "a: " in said.story
        assert "b" in said.story


async def test_a_recorded_session_is_read_with_msgpack_alone():
    """What docs/protocol.md says is enough to read what goes over the wire."""
    async with small_cluster("a") as cluster, trio.open_nursery() as nursery:
        up, down = bytearray(), bytearray()
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        port = listener.socket.getsockname()[1]
        there = int(cluster.address.rpartition(":")[2])

        async def relay() -> None:
            near = await listener.accept()
            far = await trio.open_tcp_stream("127.0.0.1", there)

            async def copy(source, sink, seen):
                async for data in source:
                    seen += data
                    await sink.send_all(data)

            async with near, far, listener:
                nursery.start_soon(copy, near, far, up)
                await copy(far, near, down)

        nursery.start_soon(relay)
        channel = await open_channel(f"tcp://127.0.0.1:{port}", introduce("client", "test"))
        message, frames = part(1, spread(3), [3])
        assert await compute(channel, message, frames) == [-3]
        await channel.aclose()
        nursery.cancel_scope.cancel()
    hello, rest = read_hello(bytes(up))
    assert (hello["role"], hello["name"], hello["byteorder"]) == ("client", "test", "little")
    assert rest[:1] == b"\0"  # no proof without a token
    ((messages, got),) = list(read_packets(rest[1:]))
    assert messages[0] == ["GraphPart", *msgpack.unpackb(msgpack.packb(message[1:]))]
    assert got == frames
    hello, rest = read_hello(bytes(down))
    assert hello["role"] == "scheduler"
    good, length = struct.unpack(">BH", rest[:3])
    assert (good, length) == (1, 0)
    ((messages, got),) = list(read_packets(rest[3:]))
    assert [m[:2] for m in messages] == [["KeysReady", 1]]
    assert got == []


def read_hello(data):
    magic, version, length = struct.unpack(">8sHI", data[:14])
    assert (magic, version) == (b"HETSCHED", 1)
    return msgpack.unpackb(data[14 : 14 + length]), data[14 + length :]


def read_packets(data):
    while data:
        (length,) = struct.unpack(">I", data[:4])
        messages, sizes = msgpack.unpackb(data[4 : 4 + length], strict_map_key=False)
        data = data[4 + length :]
        frames = []
        for size in sizes:
            frames.append(data[:size])
            data = data[size:]
        yield messages, frames


async def test_a_worker_that_leaves_hands_over_what_only_it_has():
    async with small_cluster("a") as cluster:
        channel = await cluster.channel()
        assert await compute(channel, *part(1, spread(5), [2, 5])) == [-2, -10]
        await cluster.add_worker("b")
        cluster.workers["a"].leave("it was asked to")
        while "a" not in cluster.ends:
            await trio.sleep(0.005)
        tasks = cluster.server.scheduler.state.graphs["test-1", 1].tasks
        assert [tasks[p].who_has[0].id for p in (2, 5)] == ["b", "b"]
        assert {tasks[p].attempt for p in (2, 5)} == {0}
