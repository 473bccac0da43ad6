"""Results between workers: what comes is what was there, of the same type, however many are asked for."""

from __future__ import annotations

import math

import numpy as np
import trio

from hetsched.comm.channel import open_channel
from hetsched.comm.introduction import introduce
from hetsched.comm.transports import listen
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
