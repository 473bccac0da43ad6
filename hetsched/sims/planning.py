"""Plans made before a run, on related machines without contention: HEFT, and a search that betters such plans.

HEFT: H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
computing", IEEE TPDS 13 (2002), section 4.2: tasks by falling upward rank, each into the gap where it ends first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .noise import uniform

__all__ = ["Plan", "Problem", "heft", "improve", "upward_ranks"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Tasks of some cost with ``inputs[task] = [(maker, size), ...]``, nodes of some speed, links of some speed.

    One node runs one task at a time, for ``cost / speed``; a result crosses in ``size / link`` and stays where it is
    for nothing.
    """

    costs: Sequence[float]
    inputs: Sequence[Sequence[tuple[int, float]]]
    speeds: Sequence[float]
    links: Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Plan:
    """For each task its node, start and end (seconds)."""

    nodes: list[int]
    starts: list[float]
    ends: list[float]

    @property
    def makespan(self) -> float:
        """When the last task ends."""
        return max(self.ends, default=0.0)


def upward_ranks(problem: Problem) -> list[float]:
    """How long it takes from the start of each task to the end of all, by mean times.

    The mean time to cross is that over all unordered pairs of nodes, those of a node with itself, which take no time,
    among them: so the SAGA library has it, whose makespans these ranks reproduce.
    """
    nodes = range(len(problem.speeds))
    slowness = sum(1.0 / speed for speed in problem.speeds) / len(problem.speeds)
    crossing = sum(1.0 / problem.links[a][b] for a in nodes for b in range(a))
    per_byte = crossing / (len(nodes) * (len(nodes) + 1) / 2)
    readers = _readers(problem)
    ranks = [0.0] * len(problem.costs)
    for task in reversed(_topological(problem)):
        after = max((size * per_byte + ranks[reader] for reader, size in readers[task]), default=0.0)
        ranks[task] = problem.costs[task] * slowness + after
    return ranks


def heft(problem: Problem) -> Plan:
    """The plan of HEFT; equal ranks go by number, equal ends by node."""
    ranks = upward_ranks(problem)
    depth = {task: n for n, task in enumerate(_topological(problem))}
    return place(problem, sorted(range(len(ranks)), key=lambda task: (-ranks[task], depth[task])))


def place(problem: Problem, order: Sequence[int], fixed: Sequence[int] | None = None) -> Plan:
    """Put each task, in this order, into the gap where it ends first; with ``fixed`` on the node that says."""
    count = len(problem.costs)
    plan = Plan([-1] * count, [0.0] * count, [0.0] * count)
    busy: list[list[tuple[float, float]]] = [[] for _ in problem.speeds]
    for task in order:
        best: tuple[float, float, int] | None = None
        for node in range(len(problem.speeds)) if fixed is None else (fixed[task],):
            lasts = problem.costs[task] / problem.speeds[node]
            start = _gap(busy[node], _there(problem, plan, task, node), lasts)
            if best is None or start + lasts < best[0]:
                best = (start + lasts, start, node)
        assert best is not None
        plan.ends[task], plan.starts[task], node = best
        plan.nodes[task] = node
        busy[node].append((plan.starts[task], plan.ends[task]))
        busy[node].sort()
    return plan


def _there(problem: Problem, plan: Plan, task: int, node: int) -> float:
    """When all inputs of a task are on a node."""
    when = 0.0
    for maker, size in problem.inputs[task]:
        source = plan.nodes[maker]
        comes = plan.ends[maker] + (0.0 if source == node else size / problem.links[source][node])
        when = max(when, comes)
    return when


def _gap(busy: Sequence[tuple[float, float]], ready: float, lasts: float) -> float:
    """The first time from which a node is free for so long."""
    start = ready
    for begin, end in busy:
        if start + lasts <= begin:
            return start
        start = max(start, end)
    return start


def improve(problem: Problem, plan: Plan, tries: int = 3000, seed: int = 0) -> Plan:
    """Search for a better plan: put tasks on other nodes or at other places in the order, and keep what is no worse.

    The order is that of the starts, so a task may be moved to anywhere between those it reads and those that read it.
    """
    best = plan
    readers = _readers(problem)
    depth = {task: n for n, task in enumerate(_topological(problem))}  # what takes no time ends as it starts
    for n in range(tries):
        order = sorted(depth, key=lambda task: (best.starts[task], best.ends[task], depth[task]))
        nodes = list(best.nodes)
        for k in range(1 + int(3 * uniform(seed, n, 0))):
            at = int(len(order) * uniform(seed, n, 1, k))
            task = order[at]
            if uniform(seed, n, 2, k) < 0.6:
                nodes[task] = int(len(problem.speeds) * uniform(seed, n, 3, k))
            place_of = {t: i for i, t in enumerate(order)}
            first = max((place_of[maker] for maker, _ in problem.inputs[task]), default=-1) + 1
            last = min((place_of[reader] for reader, _ in readers[task]), default=len(order)) - 1
            order.pop(at)
            order.insert(first + int((last - first + 1) * uniform(seed, n, 4, k)), task)
        found = place(problem, order, nodes)
        if found.makespan <= best.makespan:
            best = found
    return best


def _readers(problem: Problem) -> list[list[tuple[int, float]]]:
    readers: list[list[tuple[int, float]]] = [[] for _ in problem.costs]
    for task, inputs in enumerate(problem.inputs):
        for maker, size in inputs:
            readers[maker].append((task, size))
    return readers


def _topological(problem: Problem) -> list[int]:
    """The tasks, each after all it reads, else by number."""
    readers = _readers(problem)
    waiting = [len(inputs) for inputs in problem.inputs]
    order = [task for task, count in enumerate(waiting) if not count]
    for task in order:
        for reader, _ in readers[task]:
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    return order
