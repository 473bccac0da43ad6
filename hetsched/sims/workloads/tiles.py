"""Factorisations of matrices that are cut into tiles, as tasks that take another time on a device than on a core.

The algorithms are the right-looking ones of A. Buttari, J. Langou, J. Kurzak and J. Dongarra, "A class of parallel
tiled linear algebra algorithms for multicore architectures", Parallel Computing 35 (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from hetsched.sims.model import Task, Workload

__all__ = ["FACTORISATIONS", "cholesky", "lu", "qr"]

Times: TypeAlias = Mapping[str, Mapping[str, float]]
"""For each kernel the seconds it takes on each class of hardware."""

_Tile: TypeAlias = "tuple[int, int]"


class _Tiles:
    """Tasks that read and write tiles: each depends on those that last wrote what it touches."""

    def __init__(self, times: Times, nbytes: int) -> None:
        self.tasks: list[Task] = []
        self._times = times
        self._nbytes = nbytes
        self._writer: dict[_Tile, int] = {}

    def __call__(self, kernel: str, place: tuple[int, ...], writes: tuple[_Tile, ...], *reads: _Tile) -> None:
        last = [self._writer[tile] for tile in (*reads, *writes) if tile in self._writer]
        self._writer.update(dict.fromkeys(writes, len(self.tasks)))
        self.tasks.append(Task((kernel, *place), list(dict.fromkeys(last)), self._times[kernel], self._nbytes))


def cholesky(n: int, times: Times, nbytes: int = 0) -> Workload:
    """The Cholesky factorisation of n by n tiles of ``nbytes`` each: kernels potrf, trsm, syrk, gemm."""
    add = _Tiles(times, nbytes)
    for k in range(n):
        add("potrf", (k,), ((k, k),))
        for i in range(k + 1, n):
            add("trsm", (i, k), ((i, k),), (k, k))
        for i in range(k + 1, n):
            add("syrk", (i, k), ((i, i),), (i, k))
            for j in range(k + 1, i):
                add("gemm", (i, j, k), ((i, j),), (i, k), (j, k))
    return Workload(f"cholesky-{n}", add.tasks)


def lu(n: int, times: Times, nbytes: int = 0) -> Workload:
    """The LU factorisation without pivoting: kernels getrf, trsm_ll (of a row), trsm_ru (of a column), gemm."""
    add = _Tiles(times, nbytes)
    for k in range(n):
        add("getrf", (k,), ((k, k),))
        for j in range(k + 1, n):
            add("trsm_ll", (k, j), ((k, j),), (k, k))
        for i in range(k + 1, n):
            add("trsm_ru", (i, k), ((i, k),), (k, k))
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                add("gemm", (i, j, k), ((i, j),), (i, k), (k, j))
    return Workload(f"lu-{n}", add.tasks)


_QR_NAMES = (("geqrt", "geqrf"), ("ormqr", "unmqr", "larfb"), ("tsqrt", "tsqrf"), ("tsmqr", "ssrfb"))


def qr(n: int, times: Times, nbytes: int = 0) -> Workload:
    """The QR factorisation by a flat tree: kernels geqrt, ormqr, tsqrt, tsmqr, or as PLASMA calls them."""
    there = {kernel.lower(): kernel for kernel in times}
    make, apply, join, update = (next(there[name] for name in names if name in there) for names in _QR_NAMES)
    add = _Tiles(times, nbytes)
    for k in range(n):
        add(make, (k,), ((k, k),))
        for j in range(k + 1, n):
            add(apply, (k, j), ((k, j),), (k, k))
        for i in range(k + 1, n):
            add(join, (i, k), ((k, k), (i, k)))
            for j in range(k + 1, n):
                add(update, (i, j, k), ((k, j), (i, j)), (i, k))
    return Workload(f"qr-{n}", add.tasks)


FACTORISATIONS: Mapping[str, Callable[..., Workload]] = {"cholesky": cholesky, "lu": lu, "qr": qr}
