"""The client's side of the protocol, against a scheduler and workers that do what a test wants of them."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import trio
import trio.testing
from fake_scheduler import fake_scheduler

from hetsched.comm.messages import Answered, Asked, Closed, GraphPart
from hetsched.comm.remote_errors import dump_error
from hetsched.core.commands import KeysFailed, KeysReady
from hetsched.core.events import GraphCancelled, GraphReleased, KeysReleased, ResultsMissing
from hetsched.errors import ConnectionLost, NoWorkerError, OversizeError, ProtocolError, TaskCancelled, TaskError

A, B = "inproc://worker-0", "inproc://worker-1"


def ready(graph, *positions, task=10, holders=(A,)):
    return KeysReady("", graph, [(p, task + p, holders) for p in positions])


async def test_a_graph_goes_out_its_result_is_fetched_and_let_go():
    async with fake_scheduler({11: "eleven"}) as (client, scheduler, (worker,)):
        future = client.submit(operator.add, 1, 2, key="sum", priority=3)
        part = await scheduler.hear()
        assert (part.graph, part.total, part.first, part.keys, part.wanted) == (1, 1, 0, ("sum",), (0,))
        (note,) = part.notes
        assert __file__ in note.pop("provenance")
        assert note == {"priority": 3}
        await scheduler.say(ready(1, 0, task=11))
        assert await future == "eleven"
        assert await future.result() == "eleven"
        assert worker.asked == [(11,), (11,)]
        del future
        assert await scheduler.hear() == GraphReleased("c", 1)


async def test_get_releases_its_graph_and_cancels_it_when_it_is_cancelled():
    async with fake_scheduler({10: 1, 11: 2}) as (client, scheduler, _):
        dsk = {"a": (abs, 1), "b": (abs, 2)}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.get, dsk, ["a", "b"])
            await scheduler.hear()
            await scheduler.say(ready(1, 1), ready(1, 0))
        assert await scheduler.hear() == GraphReleased("c", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.get, dsk, ["a", "b"])
            await scheduler.hear()
            nursery.cancel_scope.cancel()
        assert await scheduler.hear() == GraphCancelled("c", 2)


async def test_results_are_asked_for_together():
    count = 50
    held = {10 + n: np.full(2000, n) for n in range(count)}
    async with fake_scheduler(held, held) as (client, scheduler, workers):
        futures = client.map(abs, range(count))
        await scheduler.hear()
        await scheduler.say(KeysReady("", 1, [(n, 10 + n, [(A, B)[n % 2]]) for n in range(count)]))
        got = await client.gather(futures)
        assert [int(array[-1]) for array in got] == list(range(count))
        assert all(array.flags.writeable for array in got)
        asked = [request for worker in workers for request in worker.asked]
        assert sorted(task for request in asked for task in request) == sorted(held)
        assert len(asked) <= 4


async def test_a_holder_that_is_gone_or_has_it_no_more_is_passed_over():
    async with fake_scheduler({}, {10: "here"}) as (client, scheduler, workers):
        future = client.submit(abs, 1)
        await scheduler.hear()
        await scheduler.say(ready(1, 0, holders=(A, "inproc://nowhere", B)))
        assert await future == "here"
        workers[1].gone = True  # the idle connection is closed when it is used next
        workers[0].holds[10] = "now here"
        await scheduler.say(ready(1, 0, holders=(B, A)))
        await scheduler.say(Answered("", 99, None, None))
        while len(future._result.holders) < 2:
            await trio.lowlevel.checkpoint()
        assert await future == "now here"


async def test_what_nobody_has_is_made_again_but_not_for_ever():
    async with fake_scheduler({}) as (client, scheduler, (worker,)):
        future = client.submit(abs, 1)
        await scheduler.hear()
        got = []

        async def fetch():
            try:
                got.append(await future)
            except ConnectionLost as error:
                got.append(str(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            await scheduler.say(ready(1, 0))
            assert await scheduler.hear() == ResultsMissing("c", 1, (0,))
            assert future.status == "pending"
            worker.holds[10] = 7
            await scheduler.say(ready(1, 0))
        assert got == [7]
        worker.holds.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            for _ in range(4):
                assert await scheduler.hear() == ResultsMissing("c", 1, (0,))
                await scheduler.say(ready(1, 0))
        assert got[1:] == [f"the result of {future.key!r} cannot be fetched: {A} does not have it"]
        assert future.status == "lost"


async def test_failures_reach_the_results_they_are_of():
    async with fake_scheduler() as (client, scheduler, _):
        futures = client.map(abs, range(4))
        await scheduler.hear()
        packed = dump_error(ZeroDivisionError("on purpose"), 5)
        raised = ("raised", packed, "cpu", "thread-3")
        await scheduler.say(
            KeysFailed("", 1, [0, 1], 0, raised, "w7", "a story"),
            KeysFailed("", 1, [2], -1, raised, "w8", ""),
            KeysFailed("", 1, [3], 3, ("said", "NoWorkerError", "no worker can"), None, ""),
            KeysFailed("", 77, [3], 3, ("said", "NoWorkerError", "of another graph"), None, ""),
        )
        errors = [await future.exception() for future in futures]
        assert [type(error) for error in errors] == [*[ZeroDivisionError] * 3, NoWorkerError]
        where = "on executor 'cpu' of 'w7', thread 'thread-3'"
        assert errors[0].__notes__ == [f"raised by the task {futures[0].key!r} (<built-in function abs>), {where}"]
        assert errors[2].__notes__ == [
            "raised by a task that this one needs, on executor 'cpu' of 'w8', thread 'thread-3'"
        ]
        assert str(errors[3]) == "no worker can"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (("said", "TaskCancelled", "t"), TaskCancelled, "t"),
        (("said", "CycleError", "t"), TaskError, "t"),
        (("said", "open", "t"), TaskError, "t"),
        (5, TaskError, "the scheduler tells of an error that cannot be read: 5"),
    ],
)
async def test_errors_that_the_scheduler_says(error, kind, text):
    async with fake_scheduler() as (client, scheduler, _):
        future = client.submit(abs, 1)
        await scheduler.hear()
        await scheduler.say(KeysFailed("", 1, [0], 0, error, None, ""))
        got = await future.exception()
        assert (type(got), str(got)) == (kind, text)


async def test_what_is_released_of_a_graph_that_still_comes_is_told_when_it_is_all_there():
    async with fake_scheduler() as (client, scheduler, _):
        futures = client.map(abs, range(4100))
        reader = client.submit(abs, futures[4050])
        kept = futures[4000]
        del futures
        seen = [await scheduler.hear() for _ in range(5)]
        assert [type(message) for message in seen] == [GraphPart] * 4 + [KeysReleased]
        assert [message.first for message in seen[:3]] == [0, 2000, 4000]
        released = {*seen[4].positions}
        assert seen[3].externals == ((1, 4050),)
        assert seen[3].dependencies == ((-1,),)
        del reader
        told = []
        while len(released) < 4099 or GraphReleased("c", 2) not in told:
            told.append(await scheduler.hear())
            released |= {*(told[-1].positions if isinstance(told[-1], KeysReleased) else ())}
        assert released == {*range(4100)} - {4000}
        del kept
        assert await scheduler.hear() == GraphReleased("c", 1)


async def test_a_graph_given_up_on_its_way_is_not_sent_further():
    async with fake_scheduler() as (client, scheduler, _):
        futures = client.map(abs, range(100_000))
        assert (await scheduler.hear()).first == 0
        client.cancel(futures)
        parts = 1
        while isinstance(message := await scheduler.hear(), GraphPart):
            parts += 1
        assert message == GraphCancelled("c", 1)
        assert parts < 50
        other = client.submit(abs, 1)
        assert (await scheduler.hear()).graph == 2
        del other


class Unsendable:
    def __reduce__(self):
        raise RuntimeError("no pickle of me")


async def test_a_graph_that_turns_out_unsendable_fails_alone():
    async with fake_scheduler({10: 1}) as (client, scheduler, _):
        futures = client.map(id, [*range(5000), Unsendable()])
        reader = client.submit(abs, futures[0])
        while isinstance(message := await scheduler.hear(), GraphPart):
            assert message.graph == 1
        assert message == GraphCancelled("c", 1)
        for future in (futures[0], futures[-1], reader):
            error = await future.exception()
            assert (type(error), str(error)) == (RuntimeError, "no pickle of me")
        future = client.submit(abs, 1)
        graph = (await scheduler.hear()).graph
        await scheduler.say(ready(graph, 0))
        assert await future == 1


async def test_a_message_too_large_for_the_scheduler_fails_its_graph_alone():
    async with fake_scheduler({10: 1}, max_frame=1_000_000) as (client, scheduler, _):
        large = client.scatter(np.zeros(1_000_000))
        small = client.submit(abs, 1)
        with pytest.raises(OversizeError, match="takes 1000000 bytes at once"):
            await large
        graph = (await scheduler.hear()).graph
        await scheduler.say(ready(graph, 0))
        assert await small == 1


async def test_questions():
    async with fake_scheduler() as (client, scheduler, _), trio.open_nursery() as nursery:

        async def answer():
            asked = await scheduler.hear()
            assert asked == Asked("c", 1, "info", None)
            await scheduler.say(Answered("", 1, {"workers": {}}, None))
            await scheduler.hear()
            await scheduler.say(Answered("", 2, None, "cannot be answered"))

        nursery.start_soon(answer)
        assert await client.scheduler_info() == {"workers": {}}
        with pytest.raises(ProtocolError, match="cannot be answered"):
            await client.scheduler_info()


@pytest.mark.parametrize("how", ["says", "closes", "lies"])
async def test_all_who_wait_are_told_that_the_scheduler_is_gone(how):
    async with fake_scheduler() as (client, scheduler, _):
        futures = client.map(abs, range(3))
        errors = []

        async def wait(call, *args):
            try:
                await call(*args)
            except ConnectionLost as error:
                errors.append(str(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, futures[0].result)
            nursery.start_soon(wait, client.gather, futures)
            nursery.start_soon(wait, client.get, {"a": (abs, 1)}, "a")
            nursery.start_soon(wait, client.scheduler_info)
            for _ in range(3):
                await scheduler.hear()
            match how:
                case "says":
                    await scheduler.say(Closed("", "it is late"))
                case "closes":
                    await scheduler.channel.aclose()
                case "lies":
                    await scheduler.channel.send([("Nonsense", 1)])
        await wait(futures[1].result)
        with pytest.raises(ConnectionLost):
            client.submit(abs, 1)
        (error,) = set(errors)
        assert len(errors) == 5
        why = {"says": "it is late", "closes": "closed the connection", "lies": "'Nonsense' is not expected"}[how]
        assert error.startswith("the scheduler at inproc://scheduler is gone: ")
        assert why in error


async def test_the_client_closes_while_somebody_waits():
    async with fake_scheduler() as (client, scheduler, _):
        future = client.submit(abs, 1)
        await scheduler.hear()
        async with trio.open_nursery() as nursery:

            async def wait():
                with pytest.raises(ConnectionLost, match="the Client is closed"):
                    await future

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await client.close()
        with pytest.raises(ConnectionLost):
            await scheduler.hear()
