"""The order of tasks: legal, repeatable, urgent first, and light on memory."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import dask.array as da
import pytest
from dask.core import get_dependencies
from dask.order import order as dask_order
from hypothesis import given, settings
from hypothesis import strategies as st

from hetsched.core.order import order
from hetsched.errors import AnnotationError, CycleError

Dependencies = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Dependencies:
    """A random graph without rings, numbered at random, its inputs in any order."""
    n = draw(st.integers(0, 15))
    names = draw(st.permutations(range(n)))
    graph: Dependencies = [[] for _ in range(n)]
    for i in range(1, n):
        inputs = draw(st.lists(st.integers(0, i - 1), unique=True, max_size=5))
        graph[names[i]] = [names[j] for j in inputs]
    return graph


def ranks_of(tasks: Sequence[int]) -> list[int]:
    ranks = [0] * len(tasks)
    for rank, task in enumerate(tasks):
        ranks[task] = rank
    return ranks


def assert_legal(graph: Dependencies, tasks: list[int]) -> None:
    assert sorted(tasks) == list(range(len(graph)))
    ranks = ranks_of(tasks)
    assert all(ranks[i] < ranks[task] for task, inputs in enumerate(graph) for i in inputs)


def peak(graph: Dependencies, ranks: Sequence[int], k: int, counted: range | None = None) -> int:
    """The most results (of the tasks ``counted``) held when k threads always start the ready task of lowest rank.

    Tasks take equally long; a result is held from the start of its task until its last reader has run, or for good.
    """
    counted = range(len(graph)) if counted is None else counted
    readers: Dependencies = [[] for _ in graph]
    for task, inputs in enumerate(graph):
        for i in inputs:
            readers[i].append(task)
    waiting, unread = [len(inputs) for inputs in graph], [len(tasks) for tasks in readers]
    ready = [(ranks[task], task) for task, inputs in enumerate(graph) if not inputs]
    heapify(ready)
    running: deque[int] = deque()
    held = most = 0
    while ready or running:
        while ready and len(running) < k:
            running.append(heappop(ready)[1])
            held += running[-1] in counted
        most = max(most, held)
        task = running.popleft()
        for i in graph[task]:
            unread[i] -= 1
            held -= not unread[i] and i in counted
        for reader in readers[task]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, (ranks[reader], reader))
    return most


def tree(leaves: int, fan: int) -> Dependencies:
    graph: Dependencies = [[] for _ in range(leaves)]
    level = list(range(leaves))
    while len(level) > 1:
        groups = [level[i : i + fan] for i in range(0, len(level), fan)]
        level = list(range(len(graph), len(graph) + len(groups)))
        graph += groups
    return graph


def reductions(loads: int, ways: int, fan: int) -> Dependencies:
    """``ways`` tree reductions, each of one task on every load."""
    graph: Dependencies = [[] for _ in range(loads)]
    for _ in range(ways):
        base = len(graph)
        graph += [[i] for i in range(loads)]
        graph += [[base + i for i in inputs] for inputs in tree(loads, fan)[loads:]]
    return graph


def shuffle(loads: int, pieces: int) -> Dependencies:
    """Each load is split, every piece cut from the split, and pieces of the same number put together."""
    graph: Dependencies = [[] for _ in range(loads)]
    graph += [[i] for i in range(loads)]
    graph += [[loads + i] for i in range(loads) for _ in range(pieces)]
    return graph + [[2 * loads + i * pieces + j for i in range(loads)] for j in range(pieces)]


# --- legal and repeatable ----------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_every_task_comes_once_and_after_its_inputs(graph: Dependencies) -> None:
    assert_legal(graph, order(graph))


@settings(max_examples=50, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_inputs_in_the_lists_does_not_matter(graph: Dependencies, rng: random.Random) -> None:
    mixed = [tuple(rng.sample(inputs, len(inputs))) for inputs in graph]
    assert order(mixed) == order(graph)
    assert order(mixed, [0] * len(graph)) == order(graph)


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_what_was_given_is_not_changed(graph: Dependencies) -> None:
    before = [list(inputs) for inputs in graph]
    order(graph, [1.0] * len(graph))
    assert graph == before


@pytest.mark.parametrize("seed", range(3))
def test_large_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    graph = [sorted(rng.sample(range(max(0, i - 50), i), min(i, rng.randint(0, 6)))) for i in range(3000)]
    assert_legal(graph, order(graph))
    levels = [float(rng.randint(0, 3)) for _ in graph]
    assert_legal(graph, order(graph, levels))


def test_a_long_chain_and_a_wide_fan() -> None:
    n = 100_000
    assert order([[], *([i] for i in range(n))]) == list(range(n + 1))
    n = 20_000
    assert order([*([i + 1] for i in range(n)), []]) == list(range(n, -1, -1))
    assert order([*([] for _ in range(n)), list(range(n))]) == list(range(n + 1))
    assert order([[], *([0] for _ in range(n))]) == list(range(n + 1))


# --- orders known by heart ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([[], [], []], [0, 1, 2], id="independent tasks"),
        pytest.param([[1], [2], []], [2, 1, 0], id="a chain"),
        pytest.param([[], [], [0], [1]], [0, 2, 1, 3], id="two chains, one after the other"),
        pytest.param([[], [], [], [0, 1, 2]], [0, 1, 2, 3], id="a sum"),
        pytest.param([[], [], [], [0], [1], [2], [3, 4, 5]], [0, 3, 1, 4, 2, 5, 6], id="each load reduced at once"),
        pytest.param([[], [], [], [1, 2], [0, 3]], [1, 2, 3, 0, 4], id="the needy side first"),
        pytest.param([[], [0], [0], [1, 2], [3], [3], [4, 5]], [0, 1, 2, 3, 4, 5, 6], id="diamonds"),
        pytest.param([[], [], [0, 1], [0, 1], [2], [3], [4, 5]], [0, 1, 2, 3, 5, 4, 6], id="x + x.T of two blocks"),
        pytest.param(
            [[], [], [], [], *([i] for i in range(4)), [4, 5], [6, 7], *([i] for i in range(4)), [10, 11], [12, 13]],
            [0, 4, 10, 1, 5, 11, 14, 8, 2, 6, 12, 3, 7, 13, 15, 9],
            id="two reductions side by side",
        ),
    ],
)
def test_known_orders(graph: Dependencies, expected: list[int]) -> None:
    assert order(graph) == expected


# --- rings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "ring"),
    [
        pytest.param([[0]], [0], id="itself"),
        pytest.param([[1], [0]], [0, 1], id="each other"),
        pytest.param([[], [0, 3], [1], [2], [3]], [1, 3, 2], id="three, and bystanders"),
        pytest.param([[1], [2], [3], [1], []], [1, 2, 3], id="found from outside"),
    ],
)
def test_a_ring_is_named(graph: Dependencies, ring: list[int]) -> None:
    with pytest.raises(CycleError) as caught:
        order(graph)
    assert caught.value.cycle == ring
    with pytest.raises(CycleError):
        order(graph, [1.0] * len(graph))


@settings(max_examples=50, deadline=None)
@given(graphs(), st.data())
def test_each_in_a_ring_depends_on_the_next(graph: Dependencies, data: st.DataObject) -> None:
    if not graph:
        return
    start = data.draw(st.integers(0, len(graph) - 1))
    below, todo = {start}, [start]
    while todo:
        new = set(graph[todo.pop()]) - below
        below |= new
        todo += sorted(new)
    low = data.draw(st.sampled_from(sorted(below)))
    graph[low] = sorted({*graph[low], start})  # closes a ring
    with pytest.raises(CycleError) as caught:
        order(graph)
    ring: list[Any] = caught.value.cycle
    assert len(set(ring)) == len(ring) > 0
    assert all(after in graph[task] for task, after in zip(ring, ring[1:] + ring[:1], strict=True))


# --- levels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "levels", "expected"),
    [
        pytest.param([[], [], []], [0, 2, 1], [1, 2, 0], id="independent"),
        pytest.param([[], [], [0], [1]], [0, 0, 0, 1], [1, 3, 0, 2], id="inputs of an urgent task"),
        pytest.param([[], [], [0], [1], [2, 3]], [0, 5, 0, 0, 0], [1, 0, 2, 3, 4], id="an urgent input"),
        pytest.param([[], [0], [0]], [0, -1, 0], [0, 2, 1], id="one that can wait"),
        pytest.param([[], [], [0], [1], [2, 3]], [0, 0, 0, 0, 9], [0, 2, 1, 3, 4], id="all through the sink"),
        pytest.param([[], [0], [], [2]], [0.5, 0.25, 0.75, 0.5], [2, 0, 3, 1], id="fractions"),
    ],
)
def test_levels(graph: Dependencies, levels: list[float], expected: list[int]) -> None:
    assert order(graph, levels) == expected


@settings(max_examples=50, deadline=None)
@given(graphs(), st.data())
def test_levels_come_in_turn(graph: Dependencies, data: st.DataObject) -> None:
    levels = data.draw(st.lists(st.integers(-2, 2), min_size=len(graph), max_size=len(graph)))
    tasks = order(graph, levels)
    assert_legal(graph, tasks)
    inherited = list(levels)
    for task in reversed(order(graph)):
        for i in graph[task]:
            inherited[i] = max(inherited[i], inherited[task])
    in_turn = [inherited[task] for task in tasks]
    assert in_turn == sorted(in_turn, reverse=True)


def test_a_level_that_cannot_be_compared() -> None:
    with pytest.raises(AnnotationError):
        order([[], [0]], [0.0, float("nan")])


# --- memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_load_is_reduced_before_the_next_but_k(k: int) -> None:
    n = 10_000
    graph = [*([] for _ in range(n)), *([i] for i in range(n)), list(range(n, 2 * n))]
    tasks = order(graph)
    assert tasks == [*(task for i in range(n) for task in (i, n + i)), 2 * n]
    assert peak(graph, ranks_of(tasks), k, counted=range(n)) <= k + 1


@pytest.mark.parametrize(
    ("graph", "peaks"),
    [
        pytest.param(tree(1024, 2), (12, 13, 17), id="binary tree"),
        pytest.param(reductions(512, 1, 8), (23, 24, 28), id="one reduction"),
        pytest.param(reductions(512, 2, 8), (45, 46, 49), id="two reductions of the same"),
        pytest.param(reductions(512, 4, 8), (88, 90, 92), id="four reductions of the same"),
        pytest.param(shuffle(20, 20), (59, 60, 63), id="shuffle"),
        pytest.param(shuffle(50, 3), (102, 103, 108), id="shuffle into few"),
    ],
)
def test_peaks_known(graph: Dependencies, peaks: tuple[int, int, int]) -> None:
    ranks = ranks_of(order(graph))
    assert tuple(peak(graph, ranks, k) for k in (1, 2, 4)) == peaks


def grid(n: int) -> Any:
    return da.ones((4 * n, 4 * n), chunks=4)


def statistics(x: Any) -> Any:
    return da.stack([(x * x).mean(axis=0), (x - 1).std(axis=0), x.max(axis=0)])


def smoothed(x: Any) -> Any:
    return x.map_overlap(lambda block: block, depth=1, boundary=0)


@pytest.mark.parametrize(
    ("build", "bounds"),
    [
        pytest.param(lambda: grid(12).sum(split_every=4), (11, 13, 17), id="sum"),
        pytest.param(lambda: grid(12) + grid(12).T, (146, 148, 152), id="x + x.T"),
        pytest.param(lambda: grid(8) @ grid(8), (117, 119, 122), id="matmul"),
        pytest.param(lambda: (grid(8) @ grid(8)).sum(), (77, 79, 83), id="sum of matmul"),
        pytest.param(lambda: grid(12).rechunk((48, 4)), (24, 25, 29), id="rechunk"),
        pytest.param(lambda: smoothed(grid(8)), (135, 138, 145), id="map_overlap"),
        pytest.param(lambda: smoothed(grid(8)).mean(), (116, 120, 127), id="mean of map_overlap"),
        pytest.param(lambda: statistics(grid(12)), (52, 53, 54), id="three statistics"),
        pytest.param(lambda: (grid(8) - grid(8).mean(axis=0)).std(axis=0), (21, 23, 28), id="detrended"),
    ],
)
def test_no_more_memory_than_with_dask(build: Callable[[], Any], bounds: tuple[int, int, int]) -> None:
    dsk = dict(build().__dask_graph__())
    positions = {key: i for i, key in enumerate(dsk)}
    graph = [sorted(positions[i] for i in get_dependencies(dsk, key)) for key in dsk]
    ours, theirs = ranks_of(order(graph)), dask_order(dsk)
    dask_ranks = [theirs[key] for key in dsk]
    for k, bound in zip((1, 2, 4), bounds, strict=True):
        held = peak(graph, ours, k)
        assert held <= bound
        assert held <= peak(graph, dask_ranks, k)
