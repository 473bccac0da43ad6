"""What would cross as a graph runs, and which layers are therefore not left free after all.

A layer that is not restricted runs where what it lacks is cheapest to bring, as placement has it; one that reads
nothing runs in any pool alike. So layers that save little one by one may cost more together than they save. They are
measured against the simplest rule there is: a layer takes over the pool that holds most of what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from .cut import components
from .layers import Problem

__all__ = ["not_left_free"]

_CHOICES: Final = 64  # ways to choose pools for what reads nothing, up to which all are counted
_SMALL: Final = 100  # layers up to which the fewest to be restricted are sought


def not_left_free(problem: Problem, places: Sequence[int], pinned: Sequence[bool], saves: Sequence[int]) -> list[int]:
    """Which of the layers that were left free to restrict, so that no more crosses than by the simple rule.

    ``places`` and ``pinned`` tell where the cut has each layer, and which are restricted to that; ``saves`` which of
    the others go first. With none of them free what crosses is the cost of the cut.
    """
    found: list[int] = []
    if len(problem.pools) < 2:
        return found
    for members in components(problem):
        free = [n for n in members if places[n] >= 0 and not pinned[n] and len(problem.allowed[n]) > 1]
        if free:
            free.sort(key=lambda n: (-saves[n], problem.depths[n], n))
            found += _first_of(problem, members, free, places)
    return found


def _first_of(problem: Problem, members: list[int], free: list[int], places: Sequence[int]) -> list[int]:
    """The first of the free ones, as many as it takes (all of them, where there are many layers)."""
    running = _Running(problem, members)
    most = running.bytes(_forward_only(problem, running.order))
    restricted = {n: places[n] for n in members}
    for n in free:
        restricted[n] = -1
    if running.bytes(restricted) <= most:
        return []
    enough = len(free)
    too_few = 0 if len(members) <= _SMALL else enough - 1
    while enough - too_few > 1:
        count = (enough + too_few) // 2
        for place, n in enumerate(free):
            restricted[n] = places[n] if place < count else -1
        if running.bytes(restricted) <= most:
            enough = count
        else:
            too_few = count
    return free[:enough]


def _forward_only(problem: Problem, order: Sequence[int]) -> dict[int, int]:
    """The pools by the simple rule, -1 for layers that read nothing, or nothing that is in a pool."""
    found: dict[int, int] = {}
    for n in order:
        allowed = problem.allowed[n]
        held = [0] * len(problem.pools)
        reads = problem.layers[n].pools is not None
        for d in problem.inputs[n]:
            place = found.get(d, -1)
            if place >= 0:
                held[place] += problem.weights[d]
                reads = True
        found[n] = max(allowed, key=held.__getitem__) if reads else -1
    return found


class _Running:
    """The layers of a component in the order in which they run, and what crosses when they do."""

    def __init__(self, problem: Problem, members: Sequence[int]) -> None:
        self._problem = problem
        placed = [n for n in members if problem.placed[n]]
        self.order = sorted(placed, key=lambda n: (problem.depths[n], n))
        self._inputs = {n: [d for d in problem.inputs[n] if problem.placed[d]] for n in self.order}

    def bytes(self, restricted: dict[int, int]) -> float:
        """What crosses in the mean, in steps (see :class:`Prices`), where layers are restricted so (-1: are free)."""
        anywhere = [n for n in self.order if restricted[n] < 0 and not self._inputs[n]]
        total = count = 0
        for choice in self._choices([self._problem.allowed[n] for n in anywhere]):
            total += self._once(restricted, dict(zip(anywhere, choice, strict=True)))
            count += 1
        return total / count

    def _choices(self, allowed: list[tuple[int, ...]]) -> Iterator[Sequence[int]]:
        """Pools for what reads nothing: all ways to choose, or so many that each is everywhere equally often."""
        ways = 1
        for pools in allowed:
            ways *= len(pools)
            if ways > _CHOICES:
                break
        if ways == 1 or (ways <= _CHOICES and len(self.order) <= _SMALL):
            yield from product(*allowed)
            return
        for turn in range(len(self._problem.pools)):
            yield [pools[(place + turn) % len(pools)] for place, pools in enumerate(allowed)]

    def _once(self, restricted: dict[int, int], chosen: dict[int, int]) -> int:
        problem = self._problem
        weights, price = problem.weights, problem.price
        ran: dict[int, int] = {}
        into: dict[int, set[int]] = {n: set() for n in self.order}
        for n in self.order:
            place = restricted[n]
            if place < 0:
                place = chosen[n] if n in chosen else self._cheapest(n, ran)
            ran[n] = place
            for d in self._inputs[n]:
                into[d].add(place)
        total = 0
        for n, pools in into.items():
            here = ran[n]
            for there in pools:
                if there != here:
                    total += weights[n] * price(here, there)
        return total

    def _cheapest(self, n: int, ran: dict[int, int]) -> int:
        """The pool to which least has to be brought, by what has run."""
        problem = self._problem
        inputs = [(ran[d], problem.weights[d]) for d in self._inputs[n] if d in ran]
        return min(
            problem.allowed[n],
            key=lambda pool: sum([weight * problem.price(place, pool) for place, weight in inputs]),
        )
