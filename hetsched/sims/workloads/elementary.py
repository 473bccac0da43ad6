"""Small shapes, each of which asks one thing of a scheduler.

The shapes are those that J. Beranek, S. Böhm and V. Cima, "Analysis of workflow schedulers in simulated distributed
environments", J. Supercomputing 78 (2022), compare schedulers by; durations and sizes are our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetsched.sims.model import Workload

from .building import MB, Tasks

__all__ = ["ELEMENTARY"]


def independent(n: int = 100, seconds: float = 1.0, nbytes: float = MB, spread: float = 0.0) -> Workload:
    """Tasks that have nothing to do with each other."""
    tasks = Tasks("independent", spread)
    for i in range(n):
        tasks.add(("task", i), (), seconds, nbytes)
    return tasks.done()


def chains(
    n: int = 32, length: int = 10, seconds: float = 1.0, nbytes: float = 10 * MB, spread: float = 0.0
) -> Workload:
    """Chains that have nothing to do with each other."""
    tasks = Tasks("chains", spread)
    for i in range(n):
        last: list[int] = []
        for k in range(length):
            last = [tasks.add(("link", i, k), last, seconds, nbytes)]
    return tasks.done()


def fork(n: int = 50, seconds: float = 5.0, nbytes: float = 50 * MB, spread: float = 0.0) -> Workload:
    """Pairs of tasks that read the same result."""
    tasks = Tasks("fork", spread)
    for i in range(n):
        first = tasks.add(("make", i), (), seconds, nbytes)
        tasks.add(("left", i), [first], seconds, MB)
        tasks.add(("right", i), [first], seconds, MB)
    return tasks.done()


def merge_neighbours(n: int = 60, seconds: float = 2.0, nbytes: float = 100 * MB, spread: float = 0.0) -> Workload:
    """Tasks that read a result and the one beside it."""
    tasks = Tasks("merge_neighbours", spread)
    made = [tasks.add(("make", i), (), seconds, nbytes) for i in range(n)]
    for i in range(n):
        tasks.add(("merge", i), [made[i], made[(i + 1) % n]], seconds, MB)
    return tasks.done()


def crossv(folds: int = 5, models: int = 20, seconds: float = 10.0, nbytes: float = 200 * MB) -> Workload:
    """Cross-validation: every model is trained on every fold and scored, and the scores are summed up."""
    tasks = Tasks("crossv", 0.3)
    parts = [tasks.add(("split", i), (), 2.0, nbytes) for i in range(folds)]
    for m in range(models):
        scores = []
        for f in range(folds):
            rest = [part for i, part in enumerate(parts) if i != f]
            model = tasks.add(("train", m, f), rest, seconds, MB)
            scores.append(tasks.add(("score", m, f), [model, parts[f]], seconds / 5, 8))
        tasks.add(("mean", m), scores, 0.1, 8)
    return tasks.done()


def splitters(depth: int = 7, seconds: float = 1.0, nbytes: float = 128 * MB) -> Workload:
    """A tree that grows: each result is read by two."""
    tasks = Tasks("splitters", 0.2)
    level: list[int] = [tasks.add(("split", 0, 0), (), seconds, nbytes)]
    for d in range(1, depth + 1):
        level = [tasks.add(("split", d, i), [level[i // 2]], seconds, nbytes / 2**d) for i in range(2**d)]
    return tasks.done()


def conflux(depth: int = 7, seconds: float = 1.0, nbytes: float = 32 * MB) -> Workload:
    """A tree that shrinks: two results make one."""
    tasks = Tasks("conflux", 0.2)
    level = [tasks.add(("join", depth, i), (), seconds, nbytes) for i in range(2**depth)]
    for d in range(depth - 1, -1, -1):
        level = [tasks.add(("join", d, i), level[2 * i : 2 * i + 2], seconds, nbytes) for i in range(2**d)]
    return tasks.done()


def grid(n: int = 16, seconds: float = 1.0, nbytes: float = 32 * MB) -> Workload:
    """A wave front: each task reads those above and to the left."""
    tasks = Tasks("grid", 0.2)
    place: dict[tuple[int, int], int] = {}
    for i in range(n):
        for j in range(n):
            reads = [place[p] for p in ((i - 1, j), (i, j - 1)) if p in place]
            place[i, j] = tasks.add(("cell", i, j), reads, seconds, nbytes)
    return tasks.done()


ELEMENTARY: Mapping[str, Callable[..., Workload]] = {
    make.__name__: make for make in (independent, chains, fork, merge_neighbours, crossv, splitters, conflux, grid)
}
