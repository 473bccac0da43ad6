"""Workloads whose right results are known, for clusters that are harmed while they run."""

from __future__ import annotations

import time
from typing import Any

import dask
import numpy as np

__all__ = ["TASK_SECONDS", "Persist", "Shuffle", "Tree"]


TASK_SECONDS = 0.004
"""Some tasks last so long, so that there is something to be harmed."""


def _rows(seed: int, count: int) -> np.ndarray:
    time.sleep(TASK_SECONDS)
    return np.random.default_rng(seed).integers(0, 1 << 30, count)


def _split(rows: np.ndarray, parts: int) -> dict[int, np.ndarray]:
    time.sleep(TASK_SECONDS)
    return {n: rows[rows % parts == n] for n in range(parts)}


def _pick(split: dict[int, np.ndarray], n: int) -> np.ndarray:
    return split[n]


def _joined(pieces: list[np.ndarray]) -> tuple[int, int]:
    rows = np.concatenate(pieces)
    return len(rows), int(rows.sum())


class Shuffle:
    """Each of some partitions is split by value, and what belongs together put together: all to all."""

    def __init__(self, partitions: int = 8, rows: int = 100, seed: int = 0) -> None:
        count = range(partitions)
        self._graph: dict[Any, Any] = {("rows", n): (_rows, seed + n, rows) for n in count}
        self._graph |= {("split", n): (_split, ("rows", n), partitions) for n in count}
        self._graph |= {("piece", n, m): (_pick, ("split", n), m) for n in count for m in count}
        self._graph |= {("joined", m): (_joined, [("piece", n, m) for n in count]) for m in count}
        self._keys = [("joined", m) for m in count]
        everything = np.concatenate([_rows(seed + n, rows) for n in count])
        parts = [everything[everything % partitions == m] for m in count]
        self.right = tuple((len(part), int(part.sum())) for part in parts)

    def run(self, client: Any) -> Any:
        """Give what must equal ``right``."""
        return client.get(self._graph, self._keys)


def _add(*numbers: int) -> int:
    time.sleep(TASK_SECONDS)
    return sum(numbers)


class Tree:
    """Numbers that are added up by twos."""

    def __init__(self, leaves: int = 128, seed: int = 0) -> None:
        self._graph: dict[Any, Any] = {("leaf", 0, n): (_add, seed, n) for n in range(leaves)}
        row, level = [("leaf", 0, n) for n in range(leaves)], 0
        while len(row) > 1:
            level += 1
            pairs = [(("sum", level, n), row[2 * n : 2 * n + 2]) for n in range((len(row) + 1) // 2)]
            self._graph |= {key: (_add, *pair) for key, pair in pairs}
            row = [key for key, _ in pairs]
        self._key = row[0]
        self.right = leaves * seed + leaves * (leaves - 1) // 2

    def run(self, client: Any) -> Any:
        """Give what must equal ``right``."""
        return client.get(self._graph, self._key)


class Persist:
    """Results that stay on the workers, and others that are made of them later."""

    def __init__(self, parts: int = 12, size: int = 1000, seed: int = 0) -> None:
        self._loads = [dask.delayed(_rows)(seed + n, size) for n in range(parts)]
        rows = [_rows(seed + n, size) for n in range(parts)]
        self.right = [int(part.sum()) for part in rows], [int(part.max()) for part in rows]

    def run(self, client: Any) -> Any:
        """Give what must equal ``right``."""
        held = dask.persist(*self._loads, scheduler=client)
        sums = dask.compute(*[dask.delayed(int)(part.sum()) for part in held], scheduler=client)
        maxima = dask.compute(*[dask.delayed(int)(part.max()) for part in held], scheduler=client)
        return list(sums), list(maxima)
