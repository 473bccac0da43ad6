"""How much memory results take while a graph runs, counted by the results themselves.

Blocks are numpy arrays of a class that adds its bytes to a sum when its memory is taken and subtracts them when it is
given back. So what is counted is what is alive, views and the insides of tasks included, on whichever scheduler, and
neither callbacks nor wrapped tasks change the way the graph runs.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import dask
import dask.array as da
import dask.threaded
import numpy as np
from dask.base import tokenize

import hetsched

__all__ = ["WORKLOADS", "compare"]

THREADS = 4


class Alive:
    """The bytes of all counted blocks, and the most there ever were."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a block may be collected, and so subtract, while another is added
        self.now = 0
        self.peak = 0

    def add(self, nbytes: int) -> None:
        """Count, or with a negative number discount."""
        with self._lock:
            self.now += nbytes
            self.peak = max(self.peak, self.now)


alive = Alive()


class Block(np.ndarray):  # type: ignore[type-arg]
    """An array that counts the memory it owns; what numpy makes of one is one too."""

    counted = 0

    def __array_finalize__(self, obj: Any) -> None:
        if self.base is None:
            self.counted = self.nbytes
            alive.add(self.nbytes)

    def __del__(self) -> None:
        if self.counted:
            alive.add(-self.counted)


def load(shape: tuple[int, ...], value: float) -> Block:
    """Stands for reading a block from a file."""
    block = Block(shape)
    block[...] = value
    return block


def loaded(shape: tuple[int, int], chunks: tuple[int, int]) -> Any:
    """An array whose blocks are made by a task each."""
    rows, columns = (n // c for n, c in zip(shape, chunks, strict=True))
    name = f"load-{tokenize(shape, chunks)}"
    graph = {(name, i, j): (load, chunks, 1.0 + i) for i in range(rows) for j in range(columns)}
    return da.Array(graph, name, ((chunks[0],) * rows, (chunks[1],) * columns), dtype=float, meta=np.empty((0, 0)))


def smoothed(block: Any) -> Any:
    """A stencil of three by three."""
    return (block + np.roll(block, 1, 0) + np.roll(block, -1, 0) + np.roll(block, 1, 1) + np.roll(block, -1, 1)) / 5


def shuffle_rows() -> Any:
    """Rows that are moved to other blocks by a random index, every block to every block."""
    x = loaded((6_400, 500), (100, 500))
    order = np.random.default_rng(0).permutation(6_400)
    groups = [part.tolist() for part in np.split(order, 64)]
    return da.shuffle(x, groups, axis=0).sum(axis=1).sum()


def rechunk() -> Any:
    """Blocks of rows to blocks of columns: a shuffle too."""
    return loaded((3_200, 3_200), (100, 3_200)).rechunk((3_200, 100)).sum(axis=0).sum()


def matmul() -> Any:
    """Products of blocks, and their sums."""
    x, y = loaded((2_400, 2_400), (200, 200)), loaded((2_400, 2_400), (200, 200))
    return (x @ (y + 1)).sum()


def overlap() -> Any:
    """Each block with the edges of its neighbours."""
    return loaded((6_000, 6_000), (300, 300)).map_overlap(smoothed, depth=2, boundary="periodic").sum()


WORKLOADS: dict[str, Callable[[], Any]] = {
    "shuffle of rows": shuffle_rows,
    "rechunk, rows to columns": rechunk,
    "matmul": matmul,
    "map_overlap": overlap,
}


def peak(get: Callable[..., Any], collection: Any) -> tuple[int, Any]:
    """Compute a collection; the most bytes alive at a time, and its value."""
    gc.collect()
    assert alive.now == 0, f"{alive.now} bytes are alive before the run"
    alive.peak = 0
    value = float(collection.compute(scheduler=get, num_workers=THREADS))
    return alive.peak, value


def compare(build: Callable[[], Any], runs: int) -> tuple[float, float]:
    """The peak of ours and of theirs, in bytes: medians of runs that take turns."""
    found: Sequence[list[int]] = ([], [])
    values = set()
    with dask.config.set({"array.rechunk.method": "tasks"}):
        for run in range(runs):
            for side in (0, 1) if run % 2 == 0 else (1, 0):
                most, value = peak((hetsched.get, dask.threaded.get)[side], build())
                found[side].append(most)
                values.add(round(value, 3))
    assert len(values) == 1, f"results differ: {values}"
    return median(found[0]), median(found[1])
