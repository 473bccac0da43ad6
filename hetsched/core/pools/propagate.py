"""Which layers are restricted to a pool: those that a minimum cut puts there and that would cost more elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from .cut import multiway_cut
from .layers import Layer, Prices, Problem
from .running import not_left_free

__all__ = ["Plan", "Reason", "propagate"]

_SWEEPS: Final = 16


class Reason(Enum):
    """Why a layer is where it is."""

    GIVEN = "said"
    SAVES = "its neighbours are there"
    TOGETHER = "saves little, but with others left free more would cross"
    FREE = "free: a restriction would save too little"
    ALONE = "free: no neighbour of it is in a pool"
    FORBIDDEN = "free: pool=None was said"
    FOLLOWS = "free: it follows from what pool=None was said of"
    LOOSE = "its workers or resources say where it runs"


class Plan(NamedTuple):
    """For each layer: where the cut has it (None: nothing pulls it), what it is restricted to, and why.

    ``saves`` are the bytes (or steps, see :class:`Prices`) that the restriction saves, ``cost`` those that cross with
    every layer where the cut has it. ``problem`` is what was solved.
    """

    problem: Problem
    places: list[int]
    restricted: list[tuple[str, ...] | None]
    reasons: list[Reason]
    saves: list[int]
    cost: int

    def pool(self, layer: int) -> str | None:
        """The pool where the cut has a layer."""
        place = self.places[layer]
        return self.problem.pools[place] if place >= 0 else None


def propagate(layers: Sequence[Layer], prices: Prices | None = None, min_saving: float = 0.1) -> Plan:
    """Choose a pool for every layer of which none was said, both along the data's way and against it.

    A layer is left free where to restrict it saves less than ``min_saving`` of the bytes it reads (of those it makes,
    where it reads none), all others being where they were put; unless, as the graph would run, the layers left free
    would then cost more together than if each took over the pool that holds most of what it reads.

    Takes time in proportion to the layers and what they read, but for the cuts, which are only made where different
    pools meet.
    """
    problem = Problem(layers, prices or Prices())
    places = multiway_cut(problem)
    worth = _Worth(problem, places, min_saving)
    worth.spread()
    together = dict.fromkeys(not_left_free(problem, places, worth.pinned, worth.saves))
    restricted: list[tuple[str, ...] | None] = []
    reasons: list[Reason] = []
    for n, layer in enumerate(layers):
        pinned = worth.pinned[n] or n in together
        restricted.append((problem.pools[places[n]],) if pinned else layer.pools)
        reasons.append(Reason.TOGETHER if n in together else _reason(problem, n, places[n], pinned))
    return Plan(problem, places, restricted, reasons, worth.saves, problem.cost(places))


def _reason(problem: Problem, n: int, place: int, pinned: bool) -> Reason:
    layer = problem.layers[n]
    if layer.loose:
        return Reason.LOOSE
    if layer.forbidden:
        return Reason.FORBIDDEN
    if not problem.placed[n]:
        return Reason.FOLLOWS
    if layer.pools is not None and (len(layer.pools) == 1 or not pinned):
        return Reason.GIVEN
    if pinned:
        return Reason.SAVES
    return Reason.ALONE if place < 0 else Reason.FREE


class _Worth:
    """Pins layers outwards from those that were said, as long as leaving one free would cost enough.

    What a layer would cost elsewhere is counted by the neighbours that are pinned; what it costs where it is, by all
    neighbours that the cut has elsewhere, but for what crosses in any case for a layer that is pinned. So what it saves
    only grows while layers are pinned, and the order in which they are looked at does not matter; and layers that only
    hold each other hold nobody.
    """

    def __init__(self, problem: Problem, places: list[int], min_saving: float) -> None:
        self._problem = problem
        self._places = places
        self._min_saving = min_saving
        self._found = [pool for pool in range(len(problem.pools)) if pool in set(places)]
        if len(self._found) == 1:
            self._found.append(len(problem.pools))  # anywhere else
        self.pinned = [
            placed and layer.pools is not None and len(layer.pools) == 1
            for placed, layer in zip(problem.placed, problem.layers, strict=True)
        ]
        self.saves = [0] * len(places)
        # As sets of bits: the pools of each layer's readers, and of those that are pinned.
        self._readers = [0] * len(places)
        self._pinned = [0] * len(places)
        for n, inputs in enumerate(problem.inputs):
            for d in inputs if places[n] >= 0 else ():
                self._readers[d] |= 1 << places[n]
                if self.pinned[n]:
                    self._pinned[d] |= 1 << places[n]

    def spread(self) -> None:
        """Pin all that is worth it."""
        undecided = [n for n, place in enumerate(self._places) if place >= 0 and not self.pinned[n]]
        order = sorted(undecided, key=lambda n: (self._problem.depths[n], n))
        for _ in range(_SWEEPS):
            left = [n for n in order if not self._pin(n)]
            if len(left) == len(order):
                break
            order = left[::-1]

    def _pin(self, n: int) -> bool:
        problem = self._problem
        place = self._places[n]
        choice = self._found if problem.layers[n].pools is None else problem.allowed[n]
        costs = [(self._there(n, pool), pool) for pool in choice if pool != place]
        if not costs:
            return False
        there, pool = min(costs)
        self.saves[n] = saves = max(0, there - self._here(n))
        inputs = problem.inputs[n]
        yard = sum([problem.weights[d] for d in inputs]) if inputs else problem.weights[n]
        if saves <= 0 or saves < self._min_saving * yard * problem.price(place, pool):
            return False
        self.pinned[n] = True
        for d in inputs:
            self._pinned[d] |= 1 << place
        return True

    def _here(self, n: int) -> int:
        """What crosses because of the layer, where the cut has it."""
        problem, places = self._problem, self._places
        place = places[n]
        cost = 0
        for d in problem.inputs[n]:
            if places[d] >= 0 and places[d] != place and not self._pinned[d] >> place & 1:
                cost += problem.weights[d] * problem.price(places[d], place)
        return cost + self._outwards(n, place, self._readers[n])

    def _there(self, n: int, pool: int) -> int:
        """What would cross because of the layer in another pool, by what is known of its neighbours."""
        problem, places = self._problem, self._places
        cost = 0
        for d in problem.inputs[n]:
            if self.pinned[d] and places[d] != pool and not self._pinned[d] >> pool & 1:
                cost += problem.weights[d] * problem.price(places[d], pool)
        return cost + self._outwards(n, pool, self._pinned[n])

    def _outwards(self, n: int, pool: int, readers: int) -> int:
        cost = 0
        for other in self._found:
            if other != pool and readers >> other & 1:
                cost += self._problem.weights[n] * self._problem.price(pool, other)
        return cost
