"""The minimum multiway cut: exact between two pools, isolating cuts and exact swaps of two pools for more.

A layer's result crosses once to each other pool that reads it, so it is an edge of a hypergraph: the layer and its
readers. Between two pools such a cut is a minimum cut of a network (Lawler 1973). For more, each pool is cut off from
all others by itself and the dearest of these cuts is left out, which is within 2 - 2/k of the least (Dahlhaus, Johnson,
Papadimitriou, Seymour, Yannakakis 1994); then the layers of two pools are dealt out anew between those, exactly, as
long as that helps (the swap moves of Boykov, Veksler, Zabih 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Final

from .flow import SINK, SOURCE, UNBOUNDED, Network
from .layers import Problem

__all__ = ["components", "multiway_cut"]

_ROUNDS: Final = 50  # pairs of pools looked at, at most
_LARGE: Final = 3000  # layers from which each pair is looked at once
_SMALL: Final = 40  # layers up to which other starts are tried too


def multiway_cut(problem: Problem) -> list[int]:
    """For each layer the number of its pool, -1 for those that nothing pulls anywhere."""
    places = [-1] * len(problem.layers)
    for component in components(problem):
        if len(component) == 1 and problem.layers[component[0]].pools is None:
            continue
        pools = sorted({pool for n in component if problem.layers[n].pools for pool in problem.allowed[n]})
        if len(pools) == 1:
            for n in component:
                places[n] = pools[0]
        elif pools:
            if problem.prices.dearest > 1:
                pools = list(range(len(problem.pools)))  # by way of a third pool it may be cheaper
            _cut(problem, component, pools, places)
    return places


def components(problem: Problem) -> list[list[int]]:
    """The layers that are linked, in their order; those that take no part link nothing."""
    seen = [not placed for placed in problem.placed]
    found = []
    for first in range(len(seen)):
        if seen[first]:
            continue
        seen[first] = True
        if not problem.inputs[first] and not problem.readers[first]:
            found.append([first])
            continue
        component = [first]
        for n in component:
            for links in (problem.inputs[n], problem.readers[n]):
                for other in links:
                    if not seen[other]:
                        seen[other] = True
                        component.append(other)
        found.append(sorted(component))
    return found


def _cut(problem: Problem, component: list[int], pools: list[int], places: list[int]) -> None:
    fixed = {n for n in component if len(problem.allowed[n]) == 1}
    for n in component:
        mine = [pool for pool in problem.allowed[n] if pool in pools]
        places[n] = mine[0]
    if len(pools) == 2:
        _swap(problem, component, fixed, pools[0], pools[1], places)
        return
    best, isolated = _isolated(problem, component, pools, places)
    if len(component) > _SMALL and problem.prices.dearest == 1:
        fixed |= isolated  # some least cut leaves them where they are
    _improve(problem, component, fixed, pools, best)
    if len(component) <= _SMALL:
        _move_pairs(problem, component, best)
        for pool in pools:  # other starts: all in one pool
            start = list(places)
            for n in component:
                if pool in problem.allowed[n]:
                    start[n] = pool
            _improve(problem, component, fixed, pools, start)
            _move_pairs(problem, component, start)
            if _cost(problem, component, start) < _cost(problem, component, best):
                best = start
    places[:] = best


def _improve(problem: Problem, component: list[int], fixed: set[int], pools: list[int], places: list[int]) -> None:
    """Swap between two pools after two pools, until no pair has been changed since it was looked at."""
    pairs = list(combinations(pools, 2))
    stale = dict.fromkeys(pairs)
    cost = _cost(problem, component, places)
    for _ in range(_ROUNDS if len(component) <= _LARGE else len(pairs)):
        if not stale:
            return
        pair = next(iter(stale))
        del stale[pair]
        tried = list(places)
        _swap(problem, component, fixed, *pair, tried)
        then = _cost(problem, component, tried)
        if then < cost:
            places[:], cost = tried, then
            stale.update(dict.fromkeys(other for other in pairs if other != pair and {*other} & {*pair}))


def _move_pairs(problem: Problem, component: list[int], places: list[int]) -> None:
    """Try all places of each layer together with one that it is linked with, as long as that helps."""
    pairs = [(n, reader) for n in component for reader in problem.placed_readers[n]]
    cost = _cost(problem, component, places)
    for _ in range(_ROUNDS):
        before = cost
        for one, other in pairs:
            choices = product(problem.allowed[one], problem.allowed[other])
            kept = places[one], places[other]
            for places[one], places[other] in choices:
                then = _cost(problem, component, places)
                if then < cost:
                    cost, kept = then, (places[one], places[other])
            places[one], places[other] = kept
        if cost == before:
            return


def _cost(problem: Problem, component: list[int], places: Sequence[int]) -> int:
    total = 0
    for n in component:
        here = places[n]
        for there in {places[reader] for reader in problem.readers[n]}:
            if there >= 0 and there != here:
                total += problem.weights[n] * problem.price(here, there)
    return total


def _isolated(
    problem: Problem, component: list[int], pools: list[int], places: Sequence[int]
) -> tuple[list[int], set[int]]:
    """Cut off each pool by itself, whatever the prices; the layers left over go to the pool that is dearest so.

    Returns the places, and which layers are in the part that was cut off for their pool.
    """
    found = list(places)
    cuts = sorted(_isolate(problem, component, pool) for pool in pools)
    taken: set[int] = set()
    for _, pool, inside in cuts[:-1]:
        for n in inside:
            if n not in taken:
                taken.add(n)
                found[n] = pool
    _, rest, inside = cuts[-1]
    for n in component:
        if n not in taken and rest in problem.allowed[n]:
            found[n] = rest
    return found, taken | {n for n in inside if found[n] == rest}


def _isolate(problem: Problem, component: list[int], pool: int) -> tuple[int, int, list[int]]:
    """The bytes by which a pool can be cut off from all others, the pool, and the layers that stay in it."""
    cutting = _Cutting(problem, component)
    for n in component:
        if problem.allowed[n] == (pool,):
            cutting.nodes[n] = SOURCE
        elif pool not in problem.allowed[n]:
            cutting.nodes[n] = SINK
    for n in component:
        cutting.keep_together([n, *problem.placed_readers[n]], problem.weights[n], problem.depths[n])
    inside = cutting.solve()
    chosen = set(inside)
    crossing = 0
    for n in component:
        sides = {m in chosen for m in (n, *problem.placed_readers[n])}
        crossing += problem.weights[n] * (len(sides) - 1)
    return crossing, pool, inside


def _swap(
    problem: Problem, component: list[int], fixed: set[int], one: int, other: int, places: list[int]
) -> None:
    """Deal the layers that are in one of two pools out between the two at the least cost, all others staying."""
    cutting = _Cutting(problem, component)
    moving: list[int] = []
    for n in component:
        here = places[n]
        if here not in (one, other):
            continue
        allowed = problem.allowed[n]
        if n in fixed or not (one in allowed and other in allowed):
            cutting.nodes[n] = SOURCE if here == one else SINK
        else:
            moving.append(n)
    if not moving:
        return
    concerned = set(moving)
    for n in moving:
        concerned.update([d for d in problem.inputs[n] if problem.placed[d]])
    for n in sorted(concerned):  # what all others cost stays as it is
        _price_result(problem, cutting, n, one, other, places)
    inside = set(cutting.solve())
    for n in moving:
        places[n] = one if n in inside else other


def _price_result(
    problem: Problem, cutting: _Cutting, n: int, one: int, other: int, places: Sequence[int]
) -> None:
    """Say what a layer's result costs, by which of its readers are in which of the two pools."""
    pair = (one, other)
    readers = [r for r in problem.placed_readers[n] if places[r] in pair]
    weight, depth = problem.weights[n], problem.depths[n]
    here = places[n]
    if here in pair:
        cutting.keep_together([n, *readers], weight * problem.price(one, other), depth)
        for pool in sorted({places[r] for r in problem.placed_readers[n]} - {one, other}):
            cutting.charge([n], SOURCE, weight * problem.price(one, pool), depth)
            cutting.charge([n], SINK, weight * problem.price(other, pool), depth)
    elif readers:
        cutting.charge(readers, SOURCE, weight * problem.price(here, one), depth)
        cutting.charge(readers, SINK, weight * problem.price(here, other), depth)


class _Cutting:
    """A network in which a layer on the source's side is in the one pool, on the sink's side in the other.

    Of two cuts of equal cost, that one is found which has results cross late: what is nearer to the end of the graph
    is a little cheaper, by less than any byte.
    """

    def __init__(self, problem: Problem, component: list[int]) -> None:
        self._problem = problem
        self._network = Network()
        self._component = component
        self._deepest = max((problem.depths[n] for n in component), default=0)
        links = sum(len(problem.readers[n]) + 1 for n in component)
        self._scale = 4 * (self._deepest + 2) * (links + 1)
        self.nodes: dict[int, int] = {}

    def _node(self, n: int) -> int:
        node = self.nodes.get(n)
        if node is None:
            node = self.nodes[n] = self._network.node()
        return node

    def _capacity(self, cost: int, depth: int) -> int:
        return cost * self._scale + self._deepest - depth + 1

    def keep_together(self, members: Sequence[int], cost: int, depth: int) -> None:
        """Let it cost this much if these are not all in one pool."""
        nodes = list(dict.fromkeys(self._node(n) for n in members))
        if len(nodes) < 2 or not cost:
            return
        capacity = self._capacity(cost, depth)
        join = self._network.join
        if len(nodes) == 2:
            join(nodes[0], nodes[1], capacity, capacity)
            return
        into, out = self._network.node(), self._network.node()
        join(into, out, capacity)
        for node in nodes:
            join(node, into, UNBOUNDED)
            join(out, node, UNBOUNDED)

    def charge(self, members: Sequence[int], side: int, cost: int, depth: int) -> None:
        """Let it cost this much if any of these is on that side, SOURCE or SINK."""
        nodes = list(dict.fromkeys(self._node(n) for n in members))
        if side in nodes or not cost:
            return  # it is paid in any case
        nodes = [node for node in nodes if node not in (SOURCE, SINK)]
        if not nodes:
            return
        capacity = self._capacity(cost, depth)
        if len(nodes) == 1:
            node = nodes[0]
        else:
            node = self._network.node()
            for each in nodes:
                if side == SOURCE:
                    self._network.join(each, node, UNBOUNDED)
                else:
                    self._network.join(node, each, UNBOUNDED)
        if side == SOURCE:
            self._network.join(node, SINK, capacity)
        else:
            self._network.join(SOURCE, node, capacity)

    def solve(self) -> list[int]:
        """The layers on the source's side."""
        side = self._network.cut()
        return [n for n in self._component if n in self.nodes and side[self.nodes[n]]]
