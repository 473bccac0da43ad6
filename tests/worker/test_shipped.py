"""Tasks that came over the wire, on the threads of a worker."""

from __future__ import annotations

import operator
import pickle
import threading

import pytest

from hetsched.comm.functions import dump_function
from hetsched.comm.messages import OrderRow, Orders, PayloadsDropped
from hetsched.errors import ProtocolError
from hetsched.worker.shipped import Shelf


class Slow:
    """Takes until two threads want it."""

    together = threading.Barrier(2)

    def __reduce__(self):
        return slowly, ()


def slowly():
    Slow.together.wait(20)
    return Slow


def orders(rows, payload=7):
    neg = dump_function(operator.neg, 5)
    message = Orders("w", rows, [neg.digest], [(payload, 1, [neg.digest])])
    return message, neg


def row(task, place, payload=7):
    return OrderRow(task, task, payload, place, "x", "cpu", (), 0, 0, (), ())


def test_threads_that_want_one_payload_at_once_load_it_once():
    message, neg = orders([row(0, 0), row(1, 1)])
    frame = pickle.dumps(([0, -1], [(3,), (Slow(),)], None, {1: repr}, 0, ()))
    run = Shelf().unpack(message, iter([neg.data, frame]))
    got = []
    begun = threading.Barrier(3)

    def call(order):
        begun.wait(20)
        got.append(order.spec([]))

    threads = [threading.Thread(target=call, args=(order,)) for order in run.tasks]
    for thread in threads:
        thread.start()
    begun.wait(20)
    Slow.together.wait(20)  # the other of the two is the one thread that loads
    for thread in threads:
        thread.join(20)
    assert sorted(map(str, got)) == ["-3", repr(Slow)]


def test_what_never_came_is_a_lie():
    message, neg = orders([row(0, 0, payload=8)])
    with pytest.raises(ProtocolError, match="a payload that never came"):
        Shelf().unpack(message, iter([neg.data, b"frame"]))


def test_what_is_dropped_is_gone():
    message, neg = orders([row(0, 0)])
    shelf = Shelf()
    frame = pickle.dumps((0, [(3,)], None, None, 0, ()))
    (order,) = shelf.unpack(message, iter([neg.data, frame])).tasks
    shelf.drop(PayloadsDropped("w", [7], [neg.digest]))
    assert order.spec([]) == -3  # what was ordered before still runs
    with pytest.raises(ProtocolError):
        shelf.unpack(message._replace(functions=[], payloads=[]), iter([]))
