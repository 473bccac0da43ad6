"""Several calls run as one task."""

from __future__ import annotations

import pickle
import weakref

import pytest

from hetsched.core.types import EACH, Ref
from hetsched.errors import TaskCancelled
from hetsched.worker.current import RunningBatch, check_stopped, enter, leave
from hetsched.worker.plan import Chain, OnList, Plan, make_dict, make_list, make_set, make_tuple


def inc(x):
    return x + 1


def sub(x, y=0):
    return x - y


def test_containers():
    assert make_list(1, 2) == [1, 2]
    assert make_tuple(1, 2) == (1, 2)
    assert make_set(1, 2, 1) == {1, 2}
    assert make_dict("a", 1, "b", 2) == {"a": 1, "b": 2}
    assert (make_list(), make_tuple(), make_set(), make_dict()) == ([], (), set(), {})


def test_on_list():
    assert OnList(sum)(1, 2, 3) == 6
    assert OnList(len)() == 0
    assert repr(OnList(sum)) == "OnList(sum)"


CHAIN = Chain([(sub, (Ref(1), Ref(0)), None), (inc, EACH, None), (sub, (100,), {"y": Ref(0)})])
PLAN = Plan(
    [
        (inc, EACH, None, (0,)),
        (sub, (Ref(1), 10), None, ()),
        (make_list, (Ref(1), Ref(2), "x"), None, (1,)),
        (make_tuple, (Ref(3),), None, (2, 3)),
    ]
)


def test_a_chain():
    assert CHAIN(1, 5) == 95
    assert repr(CHAIN) == "Chain(sub, inc, sub)"


def test_a_plan():
    assert PLAN(4) == ([5, -5, "x"],)
    assert repr(PLAN) == "Plan(inc, sub, make_list, make_tuple)"


@pytest.mark.parametrize("call", [CHAIN, PLAN, OnList(sum)])
def test_they_pickle(call):
    again = pickle.loads(pickle.dumps(call))
    inputs = (1, 5) if call is CHAIN else (4,)
    assert again(*inputs) == call(*inputs)
    assert type(again) is type(call)


def test_they_may_be_called_many_times():
    assert [PLAN(i)[0][0] for i in range(3)] == [1, 2, 3]


class Value:
    pass


def test_a_plan_forgets_what_nobody_reads_any_more():
    refs = []

    def make():
        value = Value()
        refs.append(weakref.ref(value))
        return value

    def look(*_):
        return [ref() is not None for ref in refs]

    plan = Plan(
        [
            (make, (), None, ()),
            (look, (Ref(0),), None, (0,)),
            (look, (), None, ()),
            (make_tuple, (Ref(1), Ref(2)), None, (1, 2)),
        ]
    )
    assert plan() == ([True], [False])


def test_a_chain_forgets_too():
    refs = []

    def make():
        value = Value()
        refs.append(weakref.ref(value))
        return value

    chain = Chain([(make, (), None), (lambda v: 1, EACH, None), (lambda x: refs[0]() is None, EACH, None)])
    assert chain() is True


@pytest.mark.parametrize("kind", ["chain", "plan"])
def test_both_end_between_calls_when_their_task_is_stopped(kind):
    ran = []
    batch = RunningBatch(1, "cpu", [], set())
    batch.task = 5

    def stop():
        batch.stopped.add(5)

    if kind == "chain":
        call = Chain([(stop, (), None), (ran.append, EACH, None)])
    else:
        call = Plan([(stop, (), None, ()), (ran.append, (Ref(0),), None, (0,))])
    before = enter(batch)
    try:
        check_stopped()
        with pytest.raises(TaskCancelled):
            call()
    finally:
        leave(before)
    assert ran == []
    check_stopped()
