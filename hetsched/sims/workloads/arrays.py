"""What people do with blocked arrays and frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetsched.sims.model import Workload

from .building import MB, Tasks

__all__ = ["ARRAYS"]


def tree(
    n: int = 256, of: int = 8, seconds: float = 0.5, nbytes: float = 64 * MB, spread: float = 0.2, layers: bool = False
) -> Workload:
    """Blocks that are loaded, mapped and summed up in a tree: a mean over an array. With ``layers``, layer by layer."""
    tasks = Tasks("tree", spread)
    mapped = []
    blocks = [tasks.add(("load", i), (), seconds, nbytes) for i in range(n)] if layers else []
    for i in range(n):
        block = blocks[i] if layers else tasks.add(("load", i), (), seconds, nbytes)
        mapped.append(tasks.add(("chunk", i), [block], seconds / 2, MB))
    tasks.reduce("aggregate", mapped, seconds / 5, MB, of)
    return tasks.done()


def shuffle(n: int = 24, seconds: float = 0.5, nbytes: float = 64 * MB, spread: float = 0.2) -> Workload:
    """A shuffle of n partitions: each is split into as many, and joined anew of one piece of each."""
    tasks = Tasks("shuffle", spread)
    pieces: list[list[int]] = []
    for i in range(n):
        part = tasks.add(("read", i), (), seconds, nbytes)
        split = tasks.add(("split", i), [part], seconds / 2, nbytes)
        pieces.append([tasks.add(("getitem", i, j), [split], 0.001, nbytes / n) for j in range(n)])
    for j in range(n):
        joined = tasks.add(("concat", j), [row[j] for row in pieces], seconds / 2, nbytes)
        tasks.add(("write", j), [joined], seconds / 2, 8)
    return tasks.done()


def stencil(n: int = 12, steps: int = 4, seconds: float = 0.5, nbytes: float = 32 * MB, halo: float = 0.02) -> Workload:
    """Map-overlap on n by n blocks: in each step a block reads the borders of its neighbours."""
    tasks = Tasks("stencil", 0.1)
    blocks = {(i, j): tasks.add(("load", i, j), (), seconds, nbytes) for i in range(n) for j in range(n)}
    for step in range(steps):
        kind = f"step-{'mnopqrstuvwxyz'[step % 14]}"
        borders = {p: tasks.add((f"{kind}-border", *p), [b], 0.002, nbytes * halo) for p, b in blocks.items()}
        new = {}
        for (i, j), block in blocks.items():
            around = [borders[p] for p in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)) if p in borders]
            new[i, j] = tasks.add((kind, i, j), [block, *around], seconds, nbytes)
        blocks = new
    for p, block in blocks.items():
        tasks.add(("store", *p), [block], seconds / 5, 8)
    return tasks.done()


def climatology(years: int = 30, parts: int = 12, seconds: float = 0.4, nbytes: float = 100 * MB) -> Workload:
    """Means of each month over all years, and how much each month of each year differs from its mean.

    The month is read for the mean and again for the anomaly, so it stays or has to be read anew: the graph whose order
    and placement decide the peak memory.
    """
    tasks = Tasks("climatology", 0.2)
    for m in range(parts):
        months = [tasks.add(("open", y, m), (), seconds, nbytes) for y in range(years)]
        chunks = [tasks.add(("mean_chunk", y, m), [month], seconds / 4, nbytes / 30) for y, month in enumerate(months)]
        mean = tasks.reduce("mean_agg", chunks, seconds / 10, nbytes / 30, 8)
        anomalies = [tasks.add(("anomaly", y, m), [month, mean], seconds / 2, MB) for y, month in enumerate(months)]
        tasks.add(("std", m), anomalies, seconds / 10, MB)
    return tasks.done()


def product(n: int = 8, seconds: float = 1.0, nbytes: float = 64 * MB) -> Workload:
    """The product of two arrays of n by n blocks."""
    tasks = Tasks("product", 0.1)
    left = [[tasks.add(("left", i, k), (), seconds / 4, nbytes) for k in range(n)] for i in range(n)]
    right = [[tasks.add(("right", k, j), (), seconds / 4, nbytes) for j in range(n)] for k in range(n)]
    for i in range(n):
        for j in range(n):
            terms = [tasks.add(("dot", i, j, k), [left[i][k], right[k][j]], seconds, nbytes) for k in range(n)]
            tasks.reduce("sum", terms, seconds / 8, nbytes, 4)
    return tasks.done()


ARRAYS: Mapping[str, Callable[..., Workload]] = {
    make.__name__: make for make in (tree, shuffle, stencil, climatology, product)
}
