"""Results between workers: what comes is what was there, of the same type, however many are asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import trio

from hetsched.comm.channel import accept_channel, open_channel
from hetsched.comm.introduction import introduce
from hetsched.comm.messages import ResultsSent
from hetsched.comm.transports import listen
from hetsched.comm.wire import encode
from hetsched.errors import ProtocolError
from hetsched.worker.peers import Holder, take_results
from hetsched.worker.store import Store

VALUES = [
    0, -1, True, False, None, 1.5, -0.0, math.inf, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30,
    "", "a" * 512, "a" * 513, "\u00e9", "\udcff", b"", b"b" * 512, b"b" * 513, bytearray(b"c"), 2j,
    (1, 2), [1, (2,)], {"a": None}, np.float64(1.5), np.int8(3), np.bool_(True), np.arange(3.0),
]  # fmt: skip


async def fetch(store, tasks):
    """All that a reader gets of a store, in the order of its coming."""
    got = []
    listener = await listen("inproc://holder")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Holder(store, introduce("worker", "h"), None).serve, listener, nursery)
        channel = await open_channel(listener.address, introduce("worker", "r"))
        missing, unfit = await take_results(channel, tasks, lambda task, value: got.append((task, value)))
        await channel.aclose()
        nursery.cancel_scope.cancel()
    await listener.aclose()
    return got, missing, unfit


async def test_values_keep_their_types():
    store = Store()
    for task, value in enumerate(VALUES):
        store[task] = value
    got, missing, unfit = await fetch(store, [*range(len(VALUES)), 99])
    assert (sorted(task for task, _ in got), missing, unfit) == (list(range(len(VALUES))), [99], [])
    for task, value in got:
        assert type(value) is type(VALUES[task])
        assert repr(value) == repr(VALUES[task])


async def test_very_many_come_in_messages_of_bounded_length():
    store = Store()
    for task in range(9001):
        store[task] = task * 2
    assert await fetch(store, range(9001)) == ([(task, task * 2) for task in range(9001)], [], [])


async def take(*answers, tasks=(1, 2)):
    """What is made of the answers of a peer that says what a test likes."""
    got = []
    listener = await listen("inproc://odd")

    async def answer():
        channel = await accept_channel(await listener.accept(), introduce("worker", "o"))
        await channel.receive()
        await channel.send([encode(said) for said in answers])

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            channel = await open_channel(listener.address, introduce("worker", "r"))
            missing, unfit = await take_results(channel, tasks, lambda task, value: got.append((task, value)))
            await channel.aclose()
    except* ProtocolError as group:
        (error,) = group.exceptions
        raise error from None
    finally:
        await listener.aclose()
    return got, missing, unfit


def sent(final=True, results=(), missing=(), unfit=(), plain=(), values=()):
    return ResultsSent("", results, missing, unfit, final, plain, values)


async def test_what_an_answer_does_not_speak_of_is_missing():
    assert await take(sent()) == ([], [1, 2], [])
    assert await take(sent(False, plain=[2], values=["b"]), sent()) == ([(2, "b")], [1], [])
    assert await take(sent(missing=[2])) == ([], [2, 1], [])
    assert await take(sent(unfit=[(1, b"")])) == ([], [2], [(1, b"")])


@pytest.mark.parametrize(
    "answer",
    [
        sent(plain=[1, 2], values=["a"]),
        sent(plain=[1], values=["a", "b"]),
        sent(plain=[3], values=["c"]),
        sent(plain=[1, 1], values=["a", "a"]),
        sent(results=[(3, ("value", 0), 0)]),
        sent(results=[(1, ("value", 0), 0)], plain=[1], values=["a"]),
        sent(results=[(1, ("bytes",), 1)]),
        sent(results=[(1, ("value", 0), -1)]),
        sent(missing=[3]),
        sent(unfit=[(3, b"")]),
    ],
    ids=str,
)
async def test_an_answer_of_another_question_is_refused(answer):
    with pytest.raises(ProtocolError):
        await take(answer)
