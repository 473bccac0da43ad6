"""Tasks of one name are told apart by the pools that they lead back to."""

from __future__ import annotations

import time

from hetsched.graph.strands import strands

A, B, NONE = frozenset("A"), frozenset("B"), frozenset()


def groups(deps, kinds, said, pools=2):
    """The kinds of the tasks, with a number where there is more than one group of a kind; and the pools of each."""
    found = strands(deps, kinds, said.get, pools)
    seen: dict[object, list[object]] = {}
    for kind, strand in zip(kinds, found, strict=True):
        if strand not in seen.setdefault(kind, []):
            seen[kind].append(strand)
    names = [
        f"{kind}{seen[kind].index(strand)}" if len(seen[kind]) > 1 else str(kind)
        for kind, strand in zip(kinds, found, strict=True)
    ]
    return names, ["".join(sorted(strand.pools)) for strand in found]


def test_what_is_read_tells():
    deps = [(), (), (0,), (1,), (2, 3), (), (5,)]
    names, pools = groups(deps, "abxxzfg", {0: A, 1: B})
    assert names == ["a", "b", "x0", "x1", "z", "f", "g"]
    assert pools == ["A", "B", "A", "B", "AB", "", ""]


def test_what_leads_back_to_all_pools_is_told_by_what_it_reads():
    # Of two pools the mean is taken, and from each that mean; the differences are read one by one, and then together.
    deps = [(), (), (0, 1), (0, 2), (1, 2), (3,), (4,), (5, 6)]
    names, pools = groups(deps, "abmddeer", {0: A, 1: B})
    assert names == ["a", "b", "m", "d0", "d1", "e0", "e1", "r"]
    assert pools == ["A", "B", *["AB"] * 6]


def test_tasks_of_one_pool_are_alike_whatever_they_read():
    assert groups([(), (), (0,), (1,)], "abcc", {0: A, 1: A})[0] == ["a", "b", "c", "c"]


def test_what_is_said_of_a_task_goes_before_what_it_reads():
    assert groups([(), (0,), (1,), (0,), (3,)], "abcde", {0: A, 1: B, 3: NONE})[1] == ["A", "B", "B", "", ""]


def test_tasks_need_not_come_in_order():
    assert groups([(1,), (2,), ()], "abc", {2: A})[1] == ["A", "A", "A"]


def test_one_after_the_other_in_a_layer_go_together():
    deps = [(), (), (0, 1), (2,), (3,), (4,)]
    assert groups(deps, "abcccd", {0: A, 1: B})[0] == ["a", "b", "c", "c", "c", "d"]


def test_rings_are_left_out():
    assert groups([(), (0, 2), (1,)], "abc", {0: A})[1] == ["A", "", ""]


def test_a_reduction_that_mixes_in_all_ways_stays_one():
    said = {n: frozenset([str(n)]) for n in range(4)}
    deps = [(), (), (), (), *[(n, m) for n in range(4) for m in range(n)], (0, 1, 2), (0, 1, 3), (0, 2, 3)]
    names, _ = groups(deps, "dddd" + 9 * "m", said, 4)
    assert names == ["d0", "d1", "d2", "d3", *["m"] * 9]


def test_it_takes_little_time():
    deps = [(), (), (0, 1), *[(n + 2,) for n in range(50_000)]]
    started = time.process_time()
    groups(deps, range(len(deps)), {0: A, 1: B})
    assert time.process_time() - started < 2
