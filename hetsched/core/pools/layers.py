"""The problem: layers of tasks, what they read of each other, and what a byte costs between two pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["Layer", "Prices", "Problem"]

_STEPS: Final = 1000


class Layer(NamedTuple):
    """Tasks that are placed together.

    ``inputs`` are the positions of the layers it reads. ``nbytes`` are those of all its results, None where they are
    not known. ``pools`` are the pools a person said; None: nothing was said. ``forbidden``: it takes no pool over, and
    what follows from it alone does not either. ``loose``: something else than a pool says where it runs.
    """

    name: str
    inputs: Sequence[int] = ()
    nbytes: int | None = None
    pools: tuple[str, ...] | None = None
    forbidden: bool = False
    loose: bool = False


class Prices:
    """What a byte costs on the way between two pools, in whole steps of a thousandth of the dearest link's price.

    A link of which no price is told costs as much as the dearest. Where no link has a price, each byte costs one step
    and a cost is a number of bytes.
    """

    __slots__ = ("_steps", "dearest")

    def __init__(self, per_byte: Mapping[tuple[str, str], float] | None = None) -> None:
        told = {pair: price for pair, price in (per_byte or {}).items() if pair[0] != pair[1]}
        most = max(told.values(), default=0.0)
        self.dearest = _STEPS if most > 0 else 1
        self._steps: dict[tuple[str, str], int] = {}
        if most > 0:
            for (one, other), price in told.items():
                steps = max(1, round(_STEPS * price / most))
                self._steps[one, other] = self._steps[other, one] = steps

    def between(self, one: str, other: str) -> int:
        """Steps for each byte from the one to the other pool."""
        return 0 if one == other else self._steps.get((one, other), self.dearest)


class Problem:
    """Layers read once: who reads whom, which pools each may be in, and what each weighs.

    ``weights`` are bytes. A layer of unknown size counts as the middle one of the known (1 where none is known), so
    that it is never taken for nothing; those are ``unknown``. ``placed`` tells which layers take part at all.
    """

    __slots__ = (
        "allowed", "depths", "inputs", "layers", "placed", "placed_readers", "pools", "prices", "readers", "unknown",
        "weights",
    )  # fmt: skip

    def __init__(self, layers: Sequence[Layer], prices: Prices) -> None:
        self.layers = layers
        self.prices = prices
        self.inputs: list[Sequence[int]] = [
            [d for d in dict.fromkeys(layer.inputs) if d != n] if layer.inputs else () for n, layer in enumerate(layers)
        ]
        self.readers: list[list[int]] = [[] for _ in layers]
        for n, inputs in enumerate(self.inputs):
            for d in inputs:
                self.readers[d].append(n)
        self.unknown = [layer.nbytes is None for layer in layers]
        known = sorted(layer.nbytes for layer in layers if layer.nbytes is not None)
        middle = max(1, known[len(known) // 2]) if known else 1
        self.weights = [middle if layer.nbytes is None else layer.nbytes for layer in layers]
        self.placed = [not (layer.forbidden or layer.loose) for layer in layers]
        order = self._loosen_followers()
        self.depths = self._depths(order)
        self.placed_readers = [[r for r in readers if self.placed[r]] for readers in self.readers]
        named: dict[str, None] = {}
        for layer in layers:
            named.update(dict.fromkeys(layer.pools or ()))
        self.pools = tuple(sorted(named))
        place = {pool: n for n, pool in enumerate(self.pools)}
        everywhere = tuple(range(len(self.pools)))
        self.allowed: list[tuple[int, ...]] = [
            everywhere if layer.pools is None else tuple(place[pool] for pool in layer.pools) for layer in layers
        ]

    def price(self, one: int, other: int) -> int:
        """Steps per byte between two pools, told by number."""
        if one == other:
            return 0
        count = len(self.pools)
        if one >= count or other >= count:  # outside of all pools
            return self.prices.dearest
        return self.prices.between(self.pools[one], self.pools[other])

    def _loosen_followers(self) -> list[int]:
        """Take out what follows from forbidden layers alone; returns the layers, inputs first, without rings."""
        left = [len(inputs) for inputs in self.inputs]
        bound = [0] * len(left)
        order = [n for n, count in enumerate(left) if not count]
        unbound = [layer.forbidden for layer in self.layers]
        for n in order:
            layer = self.layers[n]
            if self.inputs[n] and not bound[n] and layer.pools is None:
                unbound[n] = True
                self.placed[n] = False
            for reader in self.readers[n]:
                bound[reader] += not unbound[n]
                left[reader] -= 1
                if not left[reader]:
                    order.append(reader)
        return order

    def _depths(self, order: Sequence[int]) -> list[int]:
        depths = [0] * len(self.layers)
        for n in order:
            deeper = depths[n] + 1
            for reader in self.readers[n]:
                if depths[reader] < deeper:
                    depths[reader] = deeper
        return depths

    def cost(self, places: Sequence[int]) -> int:
        """Steps for all bytes that cross: a result crosses once to each other pool that reads it (-1: is nowhere)."""
        total = 0
        for n, here in enumerate(places):
            if here < 0:
                continue
            for there in {places[reader] for reader in self.readers[n]}:
                if there >= 0 and there != here:
                    total += self.weights[n] * self.price(here, there)
        return total
