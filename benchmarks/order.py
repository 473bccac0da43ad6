"""How much memory does hetsched's order of tasks need, and how long does it take to find, against dask's own?

Every graph is run by a model of ``k`` threads: each thread takes the ready task that stands first in the order, tasks
take equally long, a result exists from the moment its task starts until its last dependent has run, and the results
nobody depends on stay. The peak is the most memory held at once, counting each result as 1 and (graphs of real
arrays and frames) as the bytes it really has.

Run it with ``python benchmarks/order.py``, or with words that must all be in the names of the graphs wanted. Ratios
are ours / dask's: below 1 is better than dask. (dask's own numbers vary a little with PYTHONHASHSEED.)
"""

from __future__ import annotations

import math
import random
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask._task_spec import Alias, DataNode
from dask.callbacks import Callback
from dask.core import get_dependencies
from dask.local import get_sync
from dask.order import order as dask_order
from dask.sizeof import sizeof

from hetsched.core.order import order

THREADS = (1, 2, 4)
DASK_LIMIT = 20_000  # dask.order is timed on graphs up to this size


class Graph(NamedTuple):
    """A graph by position, dask's rank of each task (None: too large to ask), and measured sizes (None: unit)."""

    dependencies: list[list[int]]
    dask_ranks: list[int] | None
    dask_seconds: float
    sizes: list[int] | None


def peak(dependencies: Sequence[Sequence[int]], ranks: Sequence[int], k: int, sizes: Sequence[int]) -> int:
    """The most memory held when ``k`` threads run the tasks, always the ready one of the lowest rank."""
    dependents: list[list[int]] = [[] for _ in dependencies]
    for task, inputs in enumerate(dependencies):
        for i in inputs:
            dependents[i].append(task)
    waiting = [len(inputs) for inputs in dependencies]
    unread = [len(readers) for readers in dependents]
    ready = [(ranks[task], task) for task, inputs in enumerate(dependencies) if not inputs]
    heapify(ready)
    running: deque[int] = deque()
    held = most = 0
    while ready or running:
        while ready and len(running) < k:
            running.append(heappop(ready)[1])
            held += sizes[running[-1]]
        most = max(most, held)
        task = running.popleft()
        for i in dependencies[task]:
            unread[i] -= 1
            held -= 0 if unread[i] else sizes[i]
        for d in dependents[task]:
            waiting[d] -= 1
            if not waiting[d]:
                heappush(ready, (ranks[d], d))
    return most


# --- graphs of real collections ----------------------------------------------------------------------------------


def measured(collection: Any) -> dict[Any, int]:
    """The bytes of every result, found by running the graph once."""
    sizes: dict[Any, int] = {}

    def note(key: Any, value: Any, *_: Any) -> None:
        sizes[key] = sizeof(value)

    with Callback(posttask=note):
        get_sync(dict(collection.__dask_graph__()), collection.__dask_keys__())
    return sizes


def layer(key: Any) -> Any:
    return key[0] if isinstance(key, tuple) else key


def indices(key: Any) -> list[tuple[bool, Any]]:
    """What comes after the name in a key, so that numbers and words can be sorted together."""
    return [(isinstance(part, str), part) for part in key[1:]] if isinstance(key, tuple) else []


def from_collection(collection: Any, sized: bool = True) -> Graph:
    """The tasks of a collection, layer by layer. Aliases and plain data are no tasks, so they are resolved away."""
    # Culling leaves the keys in the order of a set, so what is in a layer is sorted here.
    dsk = dict(collection.__dask_graph__())
    started = time.perf_counter()
    dask_ranks = dask_order(dsk)
    dask_seconds = time.perf_counter() - started

    def real(key: Any) -> Any:
        while isinstance(dsk[key], Alias):
            key = dsk[key].target
        return key

    layers = {name: i for i, name in enumerate(dict.fromkeys(map(layer, dsk)))}
    tasks = [key for key, node in dsk.items() if not isinstance(node, Alias | DataNode)]
    tasks.sort(key=lambda key: (layers[layer(key)], indices(key)))
    positions = {key: i for i, key in enumerate(tasks)}
    dependencies = []
    for key in tasks:
        inputs = {real(i) for i in get_dependencies(dsk, key)}
        dependencies.append(sorted(positions[i] for i in inputs if i in positions))
    sizes = measured(collection) if sized else {}
    return Graph(
        dependencies,
        [dask_ranks[key] for key in tasks],
        dask_seconds,
        [sizes.get(key, 0) for key in tasks] if sized else None,
    )


def loaded(chunks: tuple[tuple[int, ...], ...]) -> Any:
    """An array of ones, each chunk made by a task of its own."""
    shape = tuple(c[0] for c in chunks)
    return da.map_blocks(lambda block_info: np.ones(shape), chunks=chunks, dtype="f8", meta=np.ones((0, 0)))


def blocks(n: int, side: int = 8) -> Any:
    """n x n square chunks."""
    return loaded(((side,) * n, (side,) * n))


def rows(n: int, width: int = 8) -> Any:
    """n chunks below each other."""
    return loaded(((4,) * n, (width,)))


def climatology(years: int, tiles: int) -> Any:
    """Months as they differ from the mean of that month over the years."""
    x = loaded(((1,) * (12 * years), (8,) * tiles))
    return da.concatenate([x[m::12] - x[m::12].mean(axis=0) for m in range(12)])


def frame_shuffle(n: int) -> Any:
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_map(lambda i: pd.DataFrame({"a": np.arange(i, i + 50), "b": 1.0}), list(range(n)))
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        return frame.shuffle("a", npartitions=n).map_partitions(len).optimize()


def frame_groupby(n: int) -> Any:
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_map(lambda i: pd.DataFrame({"a": np.arange(i, i + 50) % 7, "b": 1.0}), list(range(n)))
    return frame.groupby("a").b.mean().optimize()


def two_means(n: int) -> Any:
    x, y = blocks(n), blocks(n)
    return da.stack([(x * y).mean(axis=0), (x - y).std(axis=0), x.max(axis=0)])


def detrended(n: int) -> Any:
    x = rows(n)
    return (x - x.mean(axis=0)).std(axis=0)


def svd(n: int) -> Any:
    u, _, _ = da.linalg.svd(rows(n, 4))
    return u


def reduced(x: Any, split_every: int) -> Any:
    return x.sum(split_every=split_every)


COLLECTIONS: dict[str, Callable[[], Any]] = {
    "sum, split_every=4": lambda: reduced(blocks(24), 4),
    "sum, split_every=8": lambda: reduced(blocks(24), 8),
    "sum of rows, split_every=4": lambda: reduced(rows(500), 4),
    "mean(axis=0)": lambda: blocks(20).mean(axis=0, split_every=4),
    "std": lambda: blocks(16).std(),
    "(x + x.T).mean()": lambda: (blocks(20) + blocks(20).T).mean(),
    "(x + x.T).mean(), one x": lambda: (lambda x: (x + x.T).mean())(blocks(20)),
    "(x + x.T)": lambda: (lambda x: x + x.T)(blocks(16)),
    "x @ y": lambda: blocks(10) @ blocks(10),
    "x @ x.T": lambda: (lambda x: x @ x.T)(blocks(10)),
    "(x @ y).sum()": lambda: (blocks(10) @ blocks(10)).sum(),
    "tensordot": lambda: da.tensordot(blocks(8), blocks(8), axes=(1, 0)).sum(axis=0),
    "rechunk rows to columns": lambda: blocks(16).rechunk((128, 8)),
    "rechunk into few": lambda: rows(100, 8).rechunk((400, 2)),
    "rechunk, then sum": lambda: blocks(16).rechunk((128, 8)).rechunk((8, 128)).sum(axis=1),
    "rechunk by thirds": lambda: blocks(18).rechunk((12, 12)).mean(),
    "map_overlap": lambda: blocks(12).map_overlap(lambda b: b + 1, depth=1, boundary=0),
    "map_overlap, mean": lambda: blocks(12).map_overlap(lambda b: b + 1, depth=1, boundary=0).mean(),
    "map_overlap twice": lambda: (
        blocks(10).map_overlap(lambda b: b + 1, depth=1, boundary=0).map_overlap(lambda b: b + 1, depth=1, boundary=0)
    ),
    "cumsum": lambda: da.cumsum(blocks(16), axis=0),
    "cumsum of rows": lambda: da.cumsum(rows(200), axis=0),
    "cumsum, sum": lambda: da.cumsum(blocks(16), axis=0).sum(),
    "climatology": lambda: climatology(6, 4),
    "climatology, mean": lambda: climatology(6, 4).mean(axis=0),
    "detrended std": lambda: detrended(200),
    "mean, std and max": lambda: two_means(12),
    "svd": lambda: svd(64),
    "qr": lambda: da.linalg.qr(rows(64, 4))[0],
    "histogram": lambda: da.histogram(blocks(12), bins=4, range=(0, 2))[0],
    "shuffle a frame": lambda: frame_shuffle(24),
    "group a frame": lambda: frame_groupby(200),
}


# --- graphs made up ----------------------------------------------------------------------------------------------


def independent_sum(n: int) -> list[list[int]]:
    return [*([] for _ in range(n)), list(range(n))]


def chain(n: int) -> list[list[int]]:
    return [[], *([i] for i in range(n - 1))]


def tree(leaves: int, fan: int) -> list[list[int]]:
    """Leaves reduced ``fan`` at a time."""
    deps: list[list[int]] = [[] for _ in range(leaves)]
    level = list(range(leaves))
    while len(level) > 1:
        groups = [level[i : i + fan] for i in range(0, len(level), fan)]
        level = []
        for group in groups:
            level.append(len(deps))
            deps.append(group)
    return deps


def loads_reduced(n: int) -> list[list[int]]:
    """Loads first, then their reductions, then the sum: the numbering tells nothing about what belongs together."""
    return [*([] for _ in range(n)), *([i] for i in range(n)), list(range(n, 2 * n))]


def shuffle(n: int, *, sinks: bool = True) -> list[list[int]]:
    """n loads, n splits, n x n pieces, n concatenations (and a sum of them)."""
    deps: list[list[int]] = [[] for _ in range(n)]
    deps += [[i] for i in range(n)]
    deps += [[n + i] for i in range(n) for _ in range(n)]
    first = 2 * n
    deps += [[first + i * n + j for i in range(n)] for j in range(n)]
    if not sinks:
        deps.append(list(range(len(deps) - n, len(deps))))
    return deps


def uneven_shuffle(n: int, m: int) -> list[list[int]]:
    """n loads, each split into m pieces, each renamed, m concatenations."""
    deps: list[list[int]] = [[] for _ in range(n)]
    deps += [[i] for i in range(n) for _ in range(m)]
    deps += [[n + i] for i in range(n * m)]
    first = n + n * m
    deps += [[first + i * m + j for i in range(n)] for j in range(m)]
    return deps


def shared_root(n: int, fan: int = 8) -> list[list[int]]:
    """One root that n loads' reductions all read, then a tree."""
    deps: list[list[int]] = [[]]
    deps += [[] for _ in range(n)]
    deps += [[0, 1 + i] for i in range(n)]
    offset = len(deps) - n
    deps += [[i + offset for i in inputs] for inputs in tree(n, fan)[n:]]
    return deps


def ladder(n: int) -> list[list[int]]:
    """A ladder of diamonds: a splits into b and c, which d joins, and d is the next a."""
    deps: list[list[int]] = [[]]
    for _ in range(n):
        a = len(deps) - 1
        deps += [[a], [a], [a + 1, a + 2]]
    return deps


def layered(n: int, width: int, reads: int, seed: int) -> list[list[int]]:
    """Each task reads up to ``reads`` random tasks of the layer before."""
    rng = random.Random(seed)
    deps: list[list[int]] = []
    for i in range(n):
        layer = i // width
        before = range((layer - 1) * width, layer * width)
        deps.append(sorted(rng.sample(before, rng.randint(1, reads))) if layer else [])
    return deps


def recent(n: int, window: int, reads: int, seed: int) -> list[list[int]]:
    """Each task reads up to ``reads`` random tasks among the ``window`` before it."""
    rng = random.Random(seed)
    deps: list[list[int]] = []
    for i in range(n):
        before = range(max(0, i - window), i)
        deps.append(sorted(rng.sample(before, min(len(before), rng.randint(0, reads)))))
    return deps


def cholesky(n: int) -> list[list[int]]:
    """Tiled Cholesky of an n x n grid: loads, potrf, trsm, then updates of what remains."""
    deps: list[list[int]] = []
    tile = {}
    for i in range(n):
        for j in range(i + 1):
            tile[i, j] = len(deps)
            deps.append([])
    for k in range(n):
        deps.append([tile[k, k]])
        tile[k, k] = len(deps) - 1
        for i in range(k + 1, n):
            deps.append([tile[i, k], tile[k, k]])
            tile[i, k] = len(deps) - 1
        for i in range(k + 1, n):
            for j in range(k + 1, i + 1):
                deps.append(sorted({tile[i, j], tile[i, k], tile[j, k]}))
                tile[i, j] = len(deps) - 1
    return deps


def stencil(n: int, steps: int) -> list[list[int]]:
    """``steps`` rounds of a 1-d stencil of three over n tiles."""
    deps: list[list[int]] = [[] for _ in range(n)]
    for s in range(steps):
        deps += [[s * n + j for j in (i - 1, i, i + 1) if 0 <= j < n] for i in range(n)]
    return deps


def fft(bits: int) -> list[list[int]]:
    n = 1 << bits
    deps: list[list[int]] = [[] for _ in range(n)]
    for s in range(bits):
        deps += [sorted((s * n + i, s * n + (i ^ (1 << s)))) for i in range(n)]
    return deps


def matmul(n: int, fan: int) -> list[list[int]]:
    """n^3 products of the tiles of two n x n matrices, summed ``fan`` at a time."""
    deps: list[list[int]] = [[] for _ in range(2 * n * n)]
    for i in range(n):
        for j in range(n):
            base = len(deps)
            deps += [[i * n + k, n * n + k * n + j] for k in range(n)]
            deps += [[x + base for x in inputs] for inputs in tree(n, fan)[n:]]
    return deps


def several_means(n: int, ways: int, fan: int = 8) -> list[list[int]]:
    """Each of n loads feeds ``ways`` tree reductions."""
    deps: list[list[int]] = [[] for _ in range(n)]
    for _ in range(ways):
        base = len(deps)
        deps += [[i] for i in range(n)]
        deps += [[x + base for x in inputs] for inputs in tree(n, fan)[n:]]
    return deps


def shuffled(deps: list[list[int]], seed: int) -> list[list[int]]:
    """The same graph with its tasks numbered at random."""
    new = list(range(len(deps)))
    random.Random(seed).shuffle(new)
    result: list[list[int]] = [[] for _ in deps]
    for i, inputs in enumerate(deps):
        result[new[i]] = sorted(new[d] for d in inputs)
    return result


SYNTHETIC: dict[str, Callable[[], list[list[int]]]] = {
    "independent, then sum": lambda: independent_sum(2000),
    "chain": lambda: chain(2000),
    "binary tree": lambda: tree(2048, 2),
    "tree of 3, uneven": lambda: tree(1000, 3),
    "10000 loads each reduced": lambda: loads_reduced(10_000),
    "shuffle": lambda: shuffle(30),
    "shuffle, then sum": lambda: shuffle(30, sinks=False),
    "shared root": lambda: shared_root(1000),
    "diamond ladder": lambda: ladder(500),
    "matmul, sums of 4": lambda: matmul(8, 4),
    "shuffle 100 to 10": lambda: uneven_shuffle(100, 10),
    "shuffle 100 to 4": lambda: uneven_shuffle(100, 4),
    "shuffle 100 to 3": lambda: uneven_shuffle(100, 3),
    "shuffle 10 to 100": lambda: uneven_shuffle(10, 100),
    "six reductions of one": lambda: several_means(500, 6),
    "two reductions of one": lambda: several_means(500, 2),
    "four reductions of one": lambda: several_means(500, 4),
    "stencil": lambda: stencil(60, 5),
    "fft": lambda: fft(7),
    "cholesky tiles": lambda: cholesky(14),
    "layered, 10 wide": lambda: layered(1000, 10, 4, 0),
    "layered, 50 wide": lambda: layered(1000, 50, 4, 0),
    "layered, 50 wide, sparse": lambda: layered(1000, 50, 2, 0),
    "random, near": lambda: recent(1000, 10, 4, 0),
    "random, far": lambda: recent(1000, 100, 4, 0),
    "random, far, sparse": lambda: recent(1000, 100, 2, 0),
    "layered, 50 wide, mixed": lambda: shuffled(layered(1000, 50, 4, 0), 0),
    "random, far, mixed": lambda: shuffled(recent(1000, 100, 4, 0), 0),
}


def from_positions(deps: list[list[int]]) -> Graph:
    if len(deps) > DASK_LIMIT + 1:
        return Graph(deps, None, 0.0, None)
    dsk: dict[Any, Any] = {("t", i): (sum, [("t", d) for d in inputs]) for i, inputs in enumerate(deps)}
    started = time.perf_counter()
    ranks = dask_order(dsk)
    return Graph(deps, [ranks["t", i] for i in range(len(deps))], time.perf_counter() - started, None)


# --- the table ---------------------------------------------------------------------------------------------------

# Graphs to time only: how the cost of a task grows with the graph.
TIMED: dict[str, Callable[[int], list[list[int]]]] = {
    "independent, then sum": independent_sum,
    "chain": chain,
    "binary tree": lambda n: tree(n // 2, 2),
    "loads each reduced": lambda n: loads_reduced(n // 2),
    "shuffle": lambda n: shuffle(math.isqrt(n)),
    "diamond ladder": lambda n: ladder(n // 3),
    "stencil": lambda n: stencil(n // 100, 100),
    "random, far": lambda n: recent(n, 100, 4, 0),
}


def timed(dependencies: list[list[int]]) -> float:
    """Microseconds of this thread per task, the best of some."""
    best = math.inf
    for _ in range(20 if len(dependencies) < DASK_LIMIT else 3):
        started = time.thread_time()
        order(dependencies)
        best = min(best, time.thread_time() - started)
    return best / len(dependencies) * 1e6


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def compare(name: str, graph: Graph, units: list[float], sized: list[float]) -> None:
    """Print one line; add the ratios of the peaks to ``units`` and ``sized``."""
    n = len(graph.dependencies)
    ranks = [0] * n
    for rank, task in enumerate(order(graph.dependencies)):
        ranks[task] = rank

    def peaks(of: Sequence[int], sizes: Sequence[int]) -> list[int]:
        return [peak(graph.dependencies, of, k, sizes) for k in THREADS]

    line = f"{name:32} {n:6} {timed(graph.dependencies):6.2f} "
    if graph.dask_ranks is None:
        print(line)
        return
    ours, theirs = peaks(ranks, [1] * n), peaks(graph.dask_ranks, [1] * n)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    units += ratios
    line += f"{graph.dask_seconds / n * 1e6:6.1f}  "
    line += " ".join(f"{a:5}/{b:<5}" for a, b in zip(ours, theirs, strict=True))
    line += "  " + " ".join(f"{r:.2f}" for r in ratios)
    if graph.sizes:
        pairs = zip(peaks(ranks, graph.sizes), peaks(graph.dask_ranks, graph.sizes), strict=True)
        ratios = [a / b for a, b in pairs]
        sized += ratios
        line += "  " + " ".join(f"{r:.2f}" for r in ratios)
    print(line)


def main(words: Sequence[str]) -> None:
    warnings.simplefilter("ignore", da.PerformanceWarning)
    units: list[float] = []
    sized: list[float] = []
    print(f"{'':32} {'':6} {'us per task':^13}  {'most results held, ours/dask':^35}  {'ratio':^14}  ratio in bytes")
    head = " ".join(f"{'k=' + str(k):^11}" for k in THREADS)
    print(f"{'graph':32} {'tasks':>6} {'ours':>6} {'dask':>6}  {head}  {'k=1  2    4':14}  k=1  2    4")
    for name, build in COLLECTIONS.items():
        if all(word in name for word in words):
            collection = build()
            compare(name, from_collection(collection), units, sized)
            if "frame" not in name:
                compare(f"{name}, fused", from_collection(*dask.optimize(collection)), units, sized)
    for name, make in SYNTHETIC.items():
        if all(word in name for word in words):
            compare(name, from_positions(make()), units, sized)
    print(f"geometric mean: {geometric_mean(units):.3f} in results, {geometric_mean(sized):.3f} in bytes; ", end="")
    print(f"worst: {max(units, default=math.nan):.2f} in results, {max(sized, default=math.nan):.2f} in bytes")
    print("\nour us per task as graphs grow, and edges per task")
    for name, grow in TIMED.items():
        if all(word in name for word in words):
            graphs = [grow(n) for n in (1000, 20_000, 200_000)]
            edges = sum(map(len, graphs[-1])) / len(graphs[-1])
            print(f"{name:32} " + " ".join(f"{timed(g):6.2f}" for g in graphs) + f"  {edges:5.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
