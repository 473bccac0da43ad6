"""Which pools tasks lead back to."""

from __future__ import annotations

import time

from hetsched.graph.strands import strands

A, B, BOTH, NONE = frozenset("A"), frozenset("B"), frozenset("AB"), frozenset()


def found(deps, kinds, said, pools=2):
    return strands(deps, kinds, said.get, pools)


def test_what_is_read_tells():
    deps = [(), (), (0,), (1,), (2, 3), (), (5,)]
    assert found(deps, "xxyyzfg", {0: A, 1: B}) == [A, B, A, B, BOTH, NONE, NONE]


def test_what_is_said_of_a_task_goes_before_what_it_reads():
    assert found([(), (0,), (1,), (0,), (3,)], "abcde", {0: A, 1: B, 3: NONE}) == [A, B, B, NONE, NONE]


def test_tasks_need_not_come_in_order():
    assert found([(1,), (2,), ()], "abc", {2: A}) == [A, A, A]


def test_rings_are_left_out():
    assert found([(), (0, 2), (1,)], "abc", {0: A}) == [A, NONE, NONE]


def test_a_reduction_that_mixes_in_all_ways_stays_one():
    said = {n: frozenset([str(n)]) for n in range(4)}
    deps = [(), (), (), (), *[(n, m) for n in range(4) for m in range(n)], (0, 1, 2), (0, 1, 3), (0, 2, 3)]
    mixed = found(deps, "dddd" + 9 * "m", said, 4)
    assert mixed[:4] == list(said.values())
    assert set(mixed[4:]) == {NONE}


def test_it_takes_little_time():
    deps = [(), *[(n,) for n in range(50_000)]]
    started = time.process_time()
    found(deps, range(len(deps)), {0: A})
    assert time.process_time() - started < 1
