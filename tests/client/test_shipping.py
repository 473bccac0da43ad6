"""What leaves a client can be run by a worker that gets nothing else, and is cut into pieces of good size."""

from __future__ import annotations

import datetime
import enum
import operator
import threading
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsched.client import shipping
from hetsched.client.payloads import PAYLOAD_BYTES
from hetsched.client.shipping import parts_of
from hetsched.comm.packets import decode_header, encode_header
from hetsched.comm.payloads import Depot, Supplies
from hetsched.comm.pickling import PYTHON
from hetsched.comm.wire import encode, from_client, to_worker
from hetsched.core.commands import RunTask
from hetsched.core.needs import PYTHON as BY_VALUE
from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.errors import AnnotationError
from hetsched.worker.plan import OnList, Plan
from hetsched.worker.shipped import Shelf

HERE = "{}.{}".format(*PYTHON)


def over_the_wire(message, decoder):
    messages, _ = decode_header(encode_header([encode(message)], []), 0)
    return decoder.decode(messages[0], "test")


def ship(tasks, wanted=(), most_bytes=1 << 30):
    """The parts, as the scheduler gets them."""
    parts = []
    for message, frames, nbytes in parts_of(tasks, wanted, 5, most_bytes):
        assert nbytes == sum(memoryview(frame).nbytes for frame in frames)
        parts.append((over_the_wire(message._replace(graph=1), from_client), frames))
    return parts


def run(tasks, parts):
    """Run what a scheduler makes of the parts, as a worker does; returns all results, and the specs it was given."""
    depot, supplies, shelf = Depot(), Supplies(), Shelf()
    specs = []
    for message, frames in parts:
        assert message.first == len(specs)
        left = iter(frames)
        specs += depot.take(message, left).tasks
        assert list(left) == []
    assert len(specs) == len(tasks) == parts[0][0].total
    orders = [RunTask(n, n, spec, "", "cpu", spec.dependencies) for n, spec in enumerate(specs)]
    message, frames = supplies.orders("w", orders, {})
    results = []
    for order in shelf.unpack(over_the_wire(message, to_worker), iter(frames)).tasks:
        results.append(order.spec([results[d] for d in order.inputs]))
    return results, specs


def expected(tasks):
    results = []
    for spec in tasks:
        results.append(spec([results[d] for d in spec.dependencies]))
    return results


def add(*numbers, plus=0):
    return sum(numbers) + plus


def chosen(draw_from):
    return draw_from


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 40))
    offset = draw(st.integers(0, 9))

    def by_value(*numbers):
        return sum(numbers) + offset

    shared = partial(add, 3)
    tasks = []
    for n in range(count):
        deps = draw(st.lists(st.integers(0, n - 1), max_size=3)) if n else []
        deps = list(dict.fromkeys(deps))
        func = draw(
            st.sampled_from([add, by_value, shared, partial(add, n), OnList(sum), Plan([(add, EACH, None, ())]), sum])
        )
        args, kwargs = EACH, None
        if func is sum:
            func, args = add, tuple([Ref(i) for i in range(len(deps))] + draw(st.lists(st.integers(), max_size=3)))
            kwargs = draw(st.sampled_from([None, {"plus": 2}, {"plus": Ref(0)} if deps else None]))
        note = draw(st.sampled_from([None, {"priority": 2}, {"retries": 1}]))
        tasks.append(TaskSpec(("k", n), func, args, kwargs, deps, note))
    return tasks


@given(graphs())
def test_any_graph_runs_as_it_would_here(tasks):
    results, specs = run(tasks, ship(tasks, [0, len(tasks) - 1] if len(tasks) > 1 else [0]))
    assert results == expected(tasks)
    for spec, sent in zip(tasks, specs, strict=True):
        assert sent.key == spec.key
        assert {k: v for k, v in (sent.annotations or {}).items() if k != BY_VALUE} == (spec.annotations or {})
        by_value = getattr(spec.func, "__name__", "") == "by_value"
        assert (sent.annotations or {}).get(BY_VALUE) == (HERE if by_value else None)


def test_a_large_graph_comes_in_parts_that_name_what_is_wanted():
    tasks = [TaskSpec(("x", n), operator.neg, (n,)) for n in range(4500)]
    parts = ship(tasks, [0, 1999, 2000, 4499])
    assert [(m.first, len(m.keys), m.wanted) for m, _ in parts] == [
        (0, 2000, (0, 1999)),
        (2000, 2000, (2000,)),
        (4000, 500, (4499,)),
    ]
    assert [payload[:2] for payload in parts[0][0].payloads] == [(256, 1)] * 7 + [(208, 1)]
    assert [len(m.functions) for m, _ in parts] == [1, 1, 1]
    assert run(tasks, parts)[0] == [-n for n in range(4500)]


def test_tasks_with_very_many_inputs_are_spread_over_parts(monkeypatch):
    monkeypatch.setattr(shipping, "_MOST_INPUTS", 100)
    tasks = [TaskSpec(n, add, EACH, None, list(range(n))) for n in range(40)]
    parts = ship(tasks)
    inputs = [sum(map(len, m.dependencies)) for m, _ in parts]
    assert max(inputs) <= 100 <= min(a + b for a, b in pairwise(inputs))
    assert run(tasks, parts)[0] == [0] * 40


def test_large_arguments_are_sent_alone_and_not_copied():
    arrays = [np.full(100_000, n) for n in range(4)]
    tasks = [TaskSpec(("a", n), np.sum, (array,)) for n, array in enumerate(arrays)]
    tasks += [TaskSpec(("b", n), operator.neg, (n,)) for n in range(100)]
    parts = ship(tasks)
    ((message, frames),) = parts
    assert [(count, n) for count, n, _ in message.payloads] == [(1, 2)] * 4 + [(100, 1)]
    assert np.shares_memory(np.frombuffer(frames[3], np.uint8), arrays[0])
    assert run(tasks, parts)[0] == expected(tasks)
    parts = ship(tasks, most_bytes=1_700_000)
    assert [len(m.keys) for m, _ in parts] == [3, 101]
    assert run(tasks, parts)[0] == expected(tasks)


def test_arguments_that_turn_out_large_are_cut_up():
    tasks = [TaskSpec(n, len, ({"text": "x" * 5000 + str(n)},)) for n in range(300)]
    ((message, frames),) = parts = ship(tasks)
    sizes = [len(frame) for frame in frames[1:]]
    assert sum(count for count, _, _ in message.payloads) == 300
    assert max(sizes) <= 2 * PAYLOAD_BYTES
    assert run(tasks, parts)[0] == [1] * 300


def test_only_tasks_with_code_inside_are_bound_to_this_python():
    tasks = [TaskSpec(n, chosen if n % 10 else map, (n,) if n % 10 else (lambda x: x, [n])) for n in range(100)]
    tasks.append(TaskSpec("f", lambda: 5))
    ((message, _),) = parts = ship(tasks)
    results, specs = run(tasks, parts)
    assert [spec.annotations for spec in specs] == [
        {BY_VALUE: HERE} if n % 10 == 0 else None for n in range(100)
    ] + [{BY_VALUE: HERE}]
    assert list(results[10]) == [10]
    assert results[-1] == 5
    assert len(message.notes) == 1


class Color(enum.Enum):
    RED = 1


class Strange:
    def __reduce__(self):
        raise RuntimeError("no pickle of me")


def test_keys_are_said_as_well_as_they_can_be():
    odd = [("x", np.int64(3)), Color.RED, ("d", datetime.date(2020, 1, 1)), 2**70, None.__class__, (1.5, None, b"x")]
    tasks = [TaskSpec(key, chosen, (n,)) for n, key in enumerate(odd)]
    ((message, _),) = ship(tasks)
    said = ["<Color.RED: 1>", ("d", "datetime.date(2020, 1, 1)"), repr(2**70), "<class 'NoneType'>", (1.5, None, b"x")]
    assert list(message.keys) == [("x", 3), *said]


def test_annotations_that_the_wire_cannot_say_are_the_tasks_alone():
    note = {"retries": 2, "mine": Color.RED, "yours": (1, "a"), "\udcff": 1, "big": 2**64}
    tasks = [TaskSpec(n, chosen, (1,), None, (), note) for n in range(3)]
    parts = ship(tasks)
    ((message, _),) = parts
    assert message.notes == ({"retries": 2, "yours": (1, "a")},)
    assert message.noted == (1,)
    depot, supplies, shelf = Depot(), Supplies(), Shelf()
    specs = depot.take(message, iter(parts[0][1])).tasks
    sent, frames = supplies.orders("w", [RunTask(0, 0, specs[0], "", "cpu", ())], {})
    (order,) = shelf.unpack(over_the_wire(sent, to_worker), iter(frames)).tasks
    assert order.spec.loaded().annotations == note


def test_an_annotation_by_value_keeps_its_task_on_this_python():
    ((message, _),) = ship([TaskSpec("a", chosen, (1,), None, (), {"mine": lambda: 1}), TaskSpec("b", chosen, (1,))])
    assert (message.notes, message.noted) == (({BY_VALUE: HERE},), (1, 0))


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ({"fine": 1, "mine": threading.Lock()}, r"the annotation 'mine' of the task \('a', 1\) cannot be sent to"),
        ({"workers": ("\udcff",)}, r"the annotation 'workers' of the task \('a', 1\) cannot be sent: \('\\udcff',\)"),
    ],
)
def test_an_annotation_that_cannot_be_sent_at_all_is_named(note, said):
    with pytest.raises(AnnotationError, match=said):
        ship([TaskSpec(("a", 1), chosen, (1,), None, (), note)])


def test_an_error_names_the_task():
    tasks = [TaskSpec(n, chosen, (Strange() if n == 70 else n,)) for n in range(100)]
    with pytest.raises(RuntimeError, match="no pickle of me") as caught:
        ship(tasks)
    assert caught.value.__notes__ == ["the arguments of the task 70 cannot be sent"]

    def bad(strange=Strange()):  # noqa: B008 - on purpose
        return strange

    with pytest.raises(RuntimeError, match="no pickle of me") as caught:
        ship([TaskSpec("t", bad)])
    assert caught.value.__notes__[-1].startswith("the function of the task 't' cannot be sent: <function test_an_error")
