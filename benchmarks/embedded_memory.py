"""How much memory results take while a graph runs, counted by the results themselves.

Blocks are numpy arrays of a class that adds its bytes to a sum when memory is taken and subtracts them when it is given
back. So what is counted is what is alive, what views keep and the insides of tasks included, on whichever scheduler,
and neither callbacks nor wrapped tasks change the way the graph runs.
"""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import dask.threaded
import numpy as np

import hetsched

__all__ = ["THREADS", "WORKLOADS", "compare"]

THREADS = 4


class Alive:
    """The bytes of all memory that counted blocks use, and the most there ever were."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self._lock = threading.RLock()  # memory may be collected, and so discounted, while other is counted
        self._owners: dict[int, weakref.ref[Any]] = {}

    def count(self, owner: Any) -> None:
        """Count an array that owns its memory, until it is gone; nothing if it was counted before."""
        place, nbytes = id(owner), owner.nbytes

        def discount(_: object) -> None:
            with self._lock:
                del self._owners[place]
                self.now -= nbytes

        with self._lock:
            if place not in self._owners:
                self._owners[place] = weakref.ref(owner, discount)
                self.now += nbytes
                self.peak = max(self.peak, self.now)


alive = Alive()


class Block(np.ndarray):  # type: ignore[type-arg]
    """An array whose memory is counted; what numpy makes of one is one too."""

    __array_priority__ = 1.0  # np.concatenate asks for it

    def __array_finalize__(self, obj: Any) -> None:
        owner: Any = self
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        alive.count(owner)


def load(shape: tuple[int, ...], value: float) -> Block:
    """Stands for reading a block from a file."""
    block = Block(shape)
    block[...] = value
    return block


def loaded(shape: tuple[int, int], chunks: tuple[int, int]) -> Any:
    """An array whose blocks are made by a task each."""
    rows, columns = (n // c for n, c in zip(shape, chunks, strict=True))
    name = f"load-{uuid4().hex}"
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
    """Products of blocks and their sums; each block is made once and read by twelve products."""
    return times(loaded((1_200, 1_200), (100, 100)), loaded((1_200, 1_200), (100, 100)))


def matmul_fused() -> Any:
    """The same where dask makes the second blocks in the tasks that read them."""
    x = loaded((1_200, 1_200), (100, 100))
    y = da.map_blocks(load, (100, 100), 1.0, chunks=x.chunks, dtype=float, meta=np.empty((0, 0)))
    return times(x, y + 1)


def times(x: Any, y: Any) -> Any:
    """The sum of a product."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.PerformanceWarning)  # more chunks in between is the point
        return (x @ y).sum()


def overlap() -> Any:
    """Each block with the edges of its neighbours."""
    return loaded((3_000, 3_000), (150, 150)).map_overlap(smoothed, depth=2, boundary="periodic").sum()


WORKLOADS: dict[str, Callable[[], Any]] = {
    "shuffle of rows": shuffle_rows,
    "rechunk, rows to columns": rechunk,
    "matmul": matmul,
    "matmul, fused": matmul_fused,
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
