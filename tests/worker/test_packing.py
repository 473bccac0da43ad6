"""Results are serialised in the loop only where that is quick."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import trio
import trio.testing

from hetsched.comm.serialize import deserialize
from hetsched.worker.packing import LARGE, Packing

THREADS = []


class Slow:
    """It waits, while it is pickled, for others to go on."""

    gate = threading.Event()

    def __reduce__(self):
        assert self.gate.wait(10)
        return Slow, ()


class Told:
    """It notes in which thread it is pickled."""

    def __init__(self, big=0):
        self.data = bytes(big)

    def __reduce__(self):
        THREADS.append(threading.get_ident())
        return Told, (len(self.data),)


async def pack(packing, value):
    header, frames = await packing.pack(value, 5, ())
    return deserialize(header, [bytearray(memoryview(frame).cast("B")) for frame in frames])


@pytest.mark.parametrize("value", [Slow(), [Slow()], {"a": (1, Slow())}, np.array([Slow()], dtype=object)])
async def test_the_loop_goes_on_while_something_is_pickled(value):
    Slow.gate.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pack, Packing(), value)
        await trio.testing.wait_all_tasks_blocked()  # which it is: in a thread that waits
        Slow.gate.set()


async def in_thread(packing, value):
    THREADS.clear()
    await pack(packing, value)
    return [ident != threading.get_ident() for ident in THREADS]


async def test_what_was_quick_is_done_in_the_loop_from_then_on():
    packing = Packing()
    assert [await in_thread(packing, Told()) for _ in range(3)] == [[True], [False], [False]]
    assert [await in_thread(packing, [Told(), Told()]) for _ in range(2)] == [[True, True], [False, False]]
    # Not what is large, and not what was slow of late.
    assert await in_thread(packing, [Told()] * (LARGE // 8)) == [True]
    packing._seconds[id(Told)] = 0.025
    assert [await in_thread(packing, Told()) for _ in range(3)] == [[True], [True], [False]]


def kinds(packing):
    return len(packing._seconds)


async def test_what_is_surely_quick_needs_no_look():
    packing = Packing()
    strided = np.arange(2000.0)[::2]
    for value in (None, 1, "text", b"bytes", 1.5, np.ones(3), np.float64(2), strided, np.ones((2, 3), order="F")):
        assert np.array_equal(await pack(packing, value), value)
    assert kinds(packing) == 0
    gaps = np.arange(LARGE)[::2]
    assert np.array_equal(await pack(packing, gaps), gaps)
    assert kinds(packing) == 1
    odd = np.ones(3).view(np.recarray)
    assert (await pack(packing, odd)).tolist() == [1, 1, 1]
    assert kinds(packing) == 2
