"""In which order to start the tasks of a graph, so that few results are held at once.

The order is found by pretending to run the graph on one thread, depth first from the tasks nobody reads (the goals,
in their own order), by four rules:

1. *Neediest input first.* Before a task can run its inputs are made, the one that needs the most memory first, for
   while the others are made only its result is held. The need of a task is its Sethi-Ullman number: with its inputs
   sorted by falling need, the largest of ``need(input i) + i``, and at least the inputs and the result together.
   Shared inputs are counted as if they were not shared. Equal needs go by position.
2. *Finish what frees.* A task that becomes ready, and is the last reader of one of its inputs, runs at once: it
   makes one result and frees at least one. So does the last reader of a result as soon as the others have run.
3. *Free what a few read.* When the first of at most ``FEW`` readers of a result has run and the others are ready too,
   they run at once if that looks cheaper than to hold the result until the goal asks for it again: when the results
   that will have to wait together until they are reduced are fewer than the sources the goal is made of. That tells
   the mean and the deviation of one array (a few chunks are reduced together, out of many) from a shuffle (every
   piece waits for all the others).
4. *Urgent tasks first.* With levels, the tasks of the highest level run as if they were the whole graph, then those
   of the next level, and so on. A task takes the highest level among its own and its dependents', so the inputs of
   an urgent task are urgent.

Every task and every edge is looked at a fixed number of times, and only the inputs of one task are ever sorted.

Sources: R. Sethi and J. D. Ullman, "The generation of optimal code for arithmetic expressions", JACM 17 (1970), for
rule 1; A. B. Kahn, "Topological sorting of large networks", CACM 5 (1962), for the pass that finds needs and rings;
the documentation of ``dask.order`` for the idea to release memory before making more. ``benchmarks/order.py``
compares the memory held with that under dask's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import Final

from hetsched.errors import AnnotationError, CycleError

__all__ = ["order"]

FEW: Final = 4


def order(dependencies: Sequence[Sequence[int]], levels: Sequence[float] | None = None) -> list[int]:
    """Return the tasks ``0 .. n-1`` in the order to start them; each comes after all it depends on.

    ``dependencies[i]`` holds the distinct tasks that task ``i`` reads, in any order. ``levels`` gives each task a
    user priority: higher levels start first, as far as dependencies allow.

    >>> order([[], [], [0], [1], [2, 3]])
    [0, 2, 1, 3, 4]
    """
    if levels is None and not any(dependencies):
        return list(range(len(dependencies)))
    run = _Run(dependencies)
    if levels is None:
        run.reach([task for task, readers in enumerate(run.dependents) if not readers])
        return run.started
    inherited = run.inherit(levels)
    run.lock()
    for tasks in _batches(inherited):
        run.unlock(tasks)
        run.reach([t for t in tasks if all(inherited[d] != inherited[t] for d in run.dependents[t])])
    return run.started


class _Run:
    """A pretended run of the whole graph on one thread."""

    __slots__ = ("dependents", "gathers", "inputs", "readers", "sources", "started", "topological", "waiting")

    def __init__(self, dependencies: Sequence[Sequence[int]]) -> None:
        self.inputs: list[tuple[int, ...]] = list(map(tuple, dependencies))  # of each task, the first to be made first
        self.dependents = _dependents(self.inputs)
        self.waiting = list(map(len, dependencies))  # how many inputs are yet to be made; -1 once the task has run
        self.readers = list(map(len, self.dependents))  # how many readers of the result are yet to run
        self.started: list[int] = []
        self.sources: list[int] = []  # see sources_below
        self.gathers: dict[int, int] = {}  # see gathered
        self.topological = self.arrange()

    def arrange(self) -> list[int]:
        """Sort the inputs of every task by rule 1. Returns the tasks, each after its inputs."""
        inputs, dependents = self.inputs, self.dependents
        waiting = self.waiting.copy()
        needs = [1] * len(inputs)
        topological = [task for task, count in enumerate(waiting) if not count]
        for task in topological:
            mine = inputs[task]
            if len(mine) == 1:
                need = needs[mine[0]]
                needs[task] = need if need > 2 else 2
            elif mine:
                inputs[task], needs[task] = _neediest_first(mine, needs)
            for d in dependents[task]:
                waiting[d] = left = waiting[d] - 1
                if not left:
                    topological.append(d)
        if len(topological) < len(waiting):
            raise CycleError(_ring(inputs, waiting))
        return topological

    def reach(self, goals: list[int]) -> None:
        """Run the goals and all they need."""
        inputs, waiting = self.inputs, self.waiting
        stack: list[int] = []
        for goal in goals:
            stack.append(goal)
            while stack:
                task = stack.pop()
                left = waiting[task]
                if not left:
                    self.finish(task, goal, stack)
                elif left > 0:
                    stack.append(task)
                    for i in reversed(inputs[task]):
                        if waiting[i] >= 0:
                            stack.append(i)  # noqa: PERF401 - a comprehension is slower for one or two

    def finish(self, task: int, goal: int, stack: list[int]) -> None:
        """Note that the task has run; push whatever should run next because of that."""
        waiting, readers, dependents, inputs = self.waiting, self.readers, self.dependents, self.inputs
        self.started.append(task)
        waiting[task] = -1
        for d in dependents[task]:
            waiting[d] = left = waiting[d] - 1
            if not left:
                for i in inputs[d]:
                    if readers[i] == 1:
                        stack.append(d)
                        break
        for i in inputs[task]:
            readers[i] = left = readers[i] - 1
            if left == 1 or (0 < left < FEW and left + 1 == len(dependents[i])):
                self.free(i, goal, stack)

    def free(self, result: int, goal: int, stack: list[int]) -> None:
        """Push the remaining readers of a result if they are ready and rule 2 or 3 wants them to run at once."""
        waiting = self.waiting
        ready = []
        for d in self.dependents[result]:
            if waiting[d] > 0:
                return
            if not waiting[d]:
                ready.append(d)
        if len(ready) == 1 or sum(map(self.gathered, ready)) < self.sources_below(goal):
            stack.extend(reversed(ready))

    def gathered(self, task: int) -> int:
        """How many results wait together, that of ``task`` or what is made of it alone among them, to be reduced."""
        known = self.gathers.get(task)
        if known is None:
            readers = self.dependents[task]
            while len(readers) == 1 and len(self.inputs[readers[0]]) == 1:
                readers = self.dependents[readers[0]]
            known = self.gathers[task] = max((len(self.inputs[d]) for d in readers), default=1)
        return known

    def sources_below(self, goal: int) -> int:
        """How many sources the goal is made of, at most all; a source reached in two ways may count twice."""
        if not self.sources:
            inputs = self.inputs
            everything = sum(1 for mine in inputs if not mine)
            self.sources = sources = [1] * len(inputs)
            count = sources.__getitem__
            for task in self.topological:
                if inputs[task]:
                    sources[task] = min(everything, sum(map(count, inputs[task])))
        return self.sources[goal]

    def inherit(self, levels: Sequence[float]) -> list[float]:
        """The levels, each raised to the highest among the task's dependents."""
        inherited = list(levels)
        if any(level != level for level in inherited):
            raise AnnotationError("a priority is not a number (nan), so it is neither higher nor lower than another")
        for task in reversed(self.topological):
            level = inherited[task]
            for i in self.inputs[task]:
                if inherited[i] < level:
                    inherited[i] = level
        return inherited

    def lock(self) -> None:
        """Let every task wait for one thing more, until it is unlocked."""
        self.waiting = [left + 1 for left in self.waiting]

    def unlock(self, tasks: list[int]) -> None:
        for task in tasks:
            self.waiting[task] -= 1


def _dependents(dependencies: list[tuple[int, ...]]) -> list[list[int]]:
    """The readers of each result; those that nobody reads share one empty list."""
    nobody: list[int] = []
    dependents = [nobody] * len(dependencies)
    for task, inputs in enumerate(dependencies):
        for i in inputs:
            known = dependents[i]
            if known:
                known.append(task)
            else:
                dependents[i] = [task]
    return dependents


def _neediest_first(inputs: tuple[int, ...], needs: list[int]) -> tuple[tuple[int, ...], int]:
    """Two or more inputs of a task, sorted by falling need, then position; and the need of the task."""
    count = len(inputs)
    if count == 2:  # only to be quick
        a, b = inputs
        need, other = needs[a], needs[b]
        if need == other:
            return inputs if a < b else (b, a), max(need + 1, 3)
        return inputs if need > other else (b, a), max(need, other, 3)
    ranked = sorted(inputs)
    ranked_needs = [needs[i] for i in ranked]
    need = ranked_needs[0]
    if ranked_needs.count(need) == count:
        return tuple(ranked), max(need, 2) + count - 1
    ranked.sort(key=needs.__getitem__, reverse=True)
    return tuple(ranked), max(count + 1, *map(add, map(needs.__getitem__, ranked), range(count)))


def _batches(levels: Sequence[float]) -> list[list[int]]:
    """The tasks of each level, the highest level first."""
    batches: dict[float, list[int]] = {}
    for task, level in enumerate(levels):
        batches.setdefault(level, []).append(task)
    return [batches[level] for level in sorted(batches, reverse=True)]


def _ring(inputs: Sequence[Sequence[int]], waiting: Sequence[int]) -> list[object]:
    """A ring among the tasks still waiting, from its lowest task on: each depends on the next one."""
    task = next(task for task, left in enumerate(waiting) if left)
    seen: dict[int, int] = {}
    while task not in seen:
        seen[task] = len(seen)
        task = min(i for i in inputs[task] if waiting[i])
    ring = list(seen)[seen[task] :]
    lowest = ring.index(min(ring))
    return [*ring[lowest:], *ring[:lowest]]
