"""Two pretended devices in this process: what is on one is worked on there."""

from __future__ import annotations

import sys
import threading
import types

import numpy as np
import pytest

import hetsched
from hetsched import computing
from hetsched.worker import executors

STEPS = 8
CHAINS = 2

bound = threading.local()
GPU = {"make": {"gpu": True}}


class Block:
    """An array that says on which device it is: that of the thread in which it was made."""

    def __init__(self, value):
        self.value = value
        self.device = bound.number

    nbytes = 8_000_000
    shape = (1_000_000,)
    dtype = np.dtype("f8")

    def __dlpack_device__(self):
        return 2, self.device


Block.__module__ = "blocks"


@pytest.fixture(autouse=True)
def two_devices(monkeypatch):
    """A process with two devices that has seen nothing yet."""
    computing._close()
    monkeypatch.setattr(computing, "count_devices", lambda: 2)
    monkeypatch.setattr(executors, "bind_device", lambda number: setattr(bound, "number", number))
    monkeypatch.setitem(sys.modules, "blocks", types.ModuleType("blocks"))
    yield
    computing._close()


def together(start):
    """The first tasks of the chains meet, so that they are on different devices."""
    meet = threading.Barrier(CHAINS, timeout=20)

    def make(n):
        meet.wait()
        return start(n)

    return make


def follow(block, gate):
    """A step of a chain: it is where it runs."""
    return Block([*block.value, (block.device, bound.number)])


def gate(*blocks):
    """All chains have come so far, and so all devices are idle."""
    return len(blocks)


def where(*blocks):
    return [block.device for block in blocks], bound.number


def test_chains_stay_on_their_devices() -> None:
    """Each step of all chains may begin when the last one has ended: either device might take it."""
    make = together(lambda n: Block([(bound.number, bound.number)]))
    graph = {("make", n): (make, n) for n in range(CHAINS)}
    graph |= {("gate", 0): (gate, *[("make", n) for n in range(CHAINS)])}
    for step in range(1, STEPS):
        last = "make" if step == 1 else f"step-{step - 1}"
        # The order of the chains changes, and so does the one that is asked for first.
        for n in sorted(range(CHAINS), reverse=step % 2 == 1):
            graph[f"step-{step}", n] = (follow, (last, n), ("gate", step - 1))
        graph["gate", step] = (gate, *[(f"step-{step}", n) for n in range(CHAINS)])
    graph |= {("end", n): (lambda block: block.value, (f"step-{STEPS - 1}", n)) for n in range(CHAINS)}
    found = hetsched.get(graph, [("end", n) for n in range(CHAINS)], annotations=GPU)
    assert [len(chain) for chain in found] == [STEPS] * CHAINS
    assert [len(set(chain)) for chain in found] == [1] * CHAINS  # made on one device, read and made again on that
    assert {chain[0] for chain in found} == {(0, 0), (1, 1)}


def test_what_reads_of_both_goes_where_most_is() -> None:
    make = together(lambda n: Block([]))
    graph = {("make", n): (make, n) for n in range(CHAINS)}
    graph |= {("twin", 0): (follow, ("make", 0), 0)}
    graph |= {("join", 0): (where, ("make", 1), ("twin", 0), ("make", 0))}
    (((other, mine, again), ran),) = hetsched.get(graph, [("join", 0)], annotations=GPU)
    assert mine == again == ran != other
