"""The tasks and graphs of ``benchmarks/cluster.py``, in a module that workers can import."""

from __future__ import annotations

import operator
import time
from pathlib import Path
from typing import Any

import numpy as np

Graph = tuple[dict[Any, Any], Any]


def same(x: Any) -> Any:
    """Do nothing."""
    return x


def add(a: Any, b: Any) -> Any:
    """Do next to nothing."""
    return operator.add(a, b)


def independent(n: int) -> Graph:
    """Tasks that need nothing, and their sum."""
    graph: dict[Any, Any] = {("leaf", i): (same, i) for i in range(n)}
    graph["sum"] = (sum, [("leaf", i) for i in range(n)])
    return graph, "sum"


def chain(n: int) -> Graph:
    """Each needs the one before."""
    graph: dict[Any, Any] = {("link", 0): (same, 0)}
    graph |= {("link", i): (same, ("link", i - 1)) for i in range(1, n)}
    return graph, ("link", n - 1)


def tree(leaves: int) -> Graph:
    """A binary tree of sums."""
    graph: dict[Any, Any] = {("tree", 0, i): (same, i) for i in range(leaves)}
    level, width = 0, leaves
    while width > 1:
        for i in range(0, width, 2):
            pair = [("tree", level, j) for j in range(i, min(i + 2, width))]
            graph["tree", level + 1, i // 2] = (add, *pair) if len(pair) == 2 else (same, *pair)
        level, width = level + 1, (width + 1) // 2
    return graph, ("tree", level, 0)


def knock(first: str, gate: str) -> int:
    """Say that it runs, and wait for a file."""
    Path(first).touch()
    while not Path(gate).exists():
        time.sleep(0.01)
    return 0


def waiting(n: int, first: str, gate: str) -> Graph:
    """Tasks that all wait for one, which says that it runs and then waits for a file."""
    graph: dict[Any, Any] = {"knock": (knock, first, gate)}
    graph |= {("leaf", i): (add, i, "knock") for i in range(n)}
    graph["sum"] = (sum, [("leaf", i) for i in range(n)])
    return graph, "sum"


def fill(nbytes: int) -> Any:
    """An array that is really there."""
    return np.full(nbytes // 8, 1.5)


def touch(array: Any) -> int:
    """Need an array."""
    return int(array.nbytes)
