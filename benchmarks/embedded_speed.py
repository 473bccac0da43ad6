"""The graphs whose time is compared by ``embedded.py``, and the comparison."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import dask.array as da
import dask.threaded
import numpy as np
from dask._task_spec import List, Task, TaskRef

import hetsched

__all__ = [
    "FORMS",
    "GROWING",
    "Workload",
    "chain",
    "compare",
    "compare_array",
    "compare_latency",
    "compare_two_threads",
    "grow",
    "independent",
    "tree",
    "warm_up",
]

clock: Callable[[], float] = perf_counter
"""What times are taken by."""

Get = Callable[..., Any]
Node = Callable[..., Any]


class Workload(NamedTuple):
    """A graph, the key that is wanted, and its value."""

    graph: dict[Any, Any]
    key: Any
    value: Any


# --- graphs of tasks that do nothing -----------------------------------------------------------------------------


def one(_: Any = None) -> int:
    """Do nothing."""
    return 1


def add(a: int, b: int) -> int:
    """Next to nothing."""
    return a + b


def as_task(key: Any, func: Callable[..., Any], *inputs: Any) -> Task:
    """One of dask's task objects; keys are tuples, and a list holds keys."""
    return Task(key, func, *(reference(value) for value in inputs))


def reference(value: Any) -> Any:
    """A key or a list of them as task objects have it."""
    if isinstance(value, tuple):
        return TaskRef(value)
    return List(*map(reference, value)) if isinstance(value, list) else value


def as_tuple(_key: Any, func: Callable[..., Any], *inputs: Any) -> tuple[Any, ...]:
    """The older form."""
    return (func, *inputs)


FORMS: dict[str, Node] = {"Task objects": as_task, "tuples": as_tuple}


def independent(n: int, node: Node) -> Workload:
    """n tasks, and one that sums them up."""
    keys = [("one", i) for i in range(n)]
    graph = {key: node(key, one, key[1]) for key in keys}
    graph["sum", 0] = node(("sum", 0), sum, keys)
    return Workload(graph, ("sum", 0), n)


def chain(n: int, node: Node) -> Workload:
    """Each task reads the one before."""
    graph = {("link", 0): node(("link", 0), one)}
    for i in range(1, n):
        graph["link", i] = node(("link", i), add, ("link", i - 1), 1)
    return Workload(graph, ("link", n - 1), n)


def tree(leaves: int, node: Node) -> Workload:
    """Leaves, added two and two until one is left."""
    level = [("leaf", 0, i) for i in range(leaves)]
    graph = {key: node(key, one) for key in level}
    depth = 0
    while len(level) > 1:
        depth += 1
        pairs = list(zip(level[::2], level[1::2], strict=False))
        rest = level[2 * len(pairs) :]
        level = [("add", depth, i) for i in range(len(pairs))]
        graph.update((key, node(key, add, *pair)) for key, pair in zip(level, pairs, strict=True))
        level += rest
    return Workload(graph, level[0], leaves)


GROWING: dict[str, Callable[[int, Node], Workload]] = {
    "independent tasks": independent,
    "chain": chain,
    "binary tree": lambda n, node: tree(n // 2, node),
}


# --- the comparison ----------------------------------------------------------------------------------------------


def timed(get: Get, workload: Workload) -> float:
    """Seconds of one ``get``; the answer is checked."""
    gc.collect()
    started = clock()
    value = get(workload.graph, workload.key)
    seconds = clock() - started
    assert value == workload.value, (value, workload.value)
    return seconds


def take_turns(runs: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float]:
    """Medians of both sides, run in turns so that both have the same noise; who is first changes too."""
    figures: dict[Callable[[], float], list[float]] = {ours: [], theirs: []}
    for run in range(runs):
        for side in (ours, theirs) if run % 2 == 0 else (theirs, ours):
            figures[side].append(side())
    return median(figures[ours]), median(figures[theirs])


def compare(workload: Workload, runs: int) -> tuple[float, float]:
    """Seconds of ours and of theirs."""
    return take_turns(runs, lambda: timed(hetsched.get, workload), lambda: timed(dask.threaded.get, workload))


def compare_array(runs: int) -> tuple[float, float, int]:
    """Seconds of both to compute an array's mean, and the tasks of its graph before optimising."""
    tasks = len(dict(mean_of_array().__dask_graph__()))

    def side(get: Get) -> Callable[[], float]:
        def run() -> float:
            mean = mean_of_array()
            gc.collect()
            started = clock()
            value = mean.compute(scheduler=get)
            seconds = clock() - started
            assert value == 2
            return seconds

        return run

    return *take_turns(runs, side(hetsched.get), side(dask.threaded.get)), tasks


def mean_of_array() -> Any:
    """The expression, made anew: dask remembers what it has optimised."""
    x = da.ones((1_000, 1_000), chunks=20)
    return (x + x.T).mean()


def compare_latency(calls: int) -> tuple[float, float]:
    """Seconds of a call with one task."""
    workload = Workload({"x": (one, 1)}, "x", 1)

    def side(get: Get) -> Callable[[], float]:
        def run() -> float:
            started = clock()
            get(workload.graph, workload.key)
            return clock() - started

        return run

    gc.collect()
    return take_turns(calls, side(hetsched.get), side(dask.threaded.get))


def compare_two_threads(runs: int) -> tuple[float, float]:
    """Seconds of numpy work in large pieces, on two threads, which let go of the interpreter's lock."""
    blocks = [np.linspace(0, 1, 2_000_000) + i for i in range(24)]
    graph: dict[Any, Any] = {("work", i): (work, block) for i, block in enumerate(blocks)}
    graph["all"] = (sum, list(graph))
    value = dask.get(graph, "all")

    def side(get: Get) -> Callable[[], float]:
        return lambda: timed(lambda dsk, key: get(dsk, key, num_workers=2), Workload(graph, "all", value))

    return take_turns(runs, side(hetsched.get), side(dask.threaded.get))


def work(block: Any) -> float:
    """Some mathematics on a large block."""
    return float(np.floor(np.sin(block) * 1_000).sum())


def grow(build: Callable[[int, Node], Workload], sizes: Sequence[int], runs: int) -> dict[int, float]:
    """Seconds per task of ours for graphs of these sizes, measured in turns; small graphs more often."""
    workloads = {size: build(size, as_tuple) for size in sizes}
    found: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(runs):
        for size, workload in workloads.items():
            times = [timed(hetsched.get, workload) for _ in range(max(1, min(5, 10_000 // size)))]
            found[size].append(median(times) / len(workload.graph))
    return {size: median(costs) for size, costs in found.items()}


def warm_up() -> None:
    """Start the threads of both."""
    for get in (hetsched.get, dask.threaded.get):
        for workload in (independent(500, as_tuple), chain(500, as_task)):
            timed(get, workload)
