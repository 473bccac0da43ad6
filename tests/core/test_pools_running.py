"""As a graph runs, with layers left free, no more bytes cross than if layers took over pools along the data's way."""

from __future__ import annotations

import itertools
import random
import statistics

import pytest

from hetsched.core.pools import Layer, Reason, propagate

A, B = ("A",), ("B",)


def ran(problem, restricted):
    """The bytes that cross, by what was restricted, in the mean over all places of what reads nothing."""
    count = len(problem.pools)
    anywhere = [n for n, place in enumerate(restricted) if place is None and not problem.inputs[n]]
    found = []
    for choice in itertools.product(range(count), repeat=len(anywhere)):
        places = list(restricted)
        for n, place in zip(anywhere, choice, strict=True):
            places[n] = place
        for n, place in enumerate(places):
            if place is None:
                held = [0] * count
                for d in problem.inputs[n]:
                    held[places[d]] += problem.weights[d]
                places[n] = held.index(max(held))
        found.append(problem.cost(places))
    return statistics.fmean(found)


def along(problem):
    """The pool that holds most of what a layer reads, one layer after the other."""
    places: list[int | None] = []
    for layer in problem.layers:
        held = dict.fromkeys(range(len(problem.pools)), 0)
        taken = [d for d in layer.inputs if places[d] is not None]
        for d in taken:
            held[places[d]] += problem.weights[d]
        said = None if layer.pools is None else problem.pools.index(layer.pools[0])
        places.append(said if said is not None else max(held, key=held.__getitem__) if taken else None)
    return places


def graph(rng, pools):
    """Data in pools, data that may be anywhere and that several read, and layers that read all of these."""
    layers = [Layer(f"data{n}", [], rng.randrange(100, 1000), ("ABCD"[n],)) for n in range(pools)]
    shared = range(pools, pools + rng.randint(1, 3))
    layers += [Layer(f"shared{n}", [], rng.randrange(100, 1000)) for n in shared]
    for n in range(len(layers), len(layers) + rng.randint(4, 10)):
        inputs = sorted({rng.choice(shared), rng.randrange(n), *([rng.randrange(n)] if rng.random() < 0.5 else [])})
        largest = max(layers[d].nbytes for d in inputs)
        said = ("ABCD"[rng.randrange(pools)],) if rng.random() < 0.15 else None
        layers.append(Layer(f"layer{n}", inputs, largest if rng.random() < 0.6 else 8, said))
    return layers


@pytest.mark.parametrize("min_saving", [0, 0.1, 0.5])
@pytest.mark.parametrize("count", [2, 3])
def test_never_more_than_along_the_data(count, min_saving):
    rng = random.Random(count)
    for _ in range(150):
        plan = propagate(graph(rng, count), min_saving=min_saving)
        pools = plan.problem.pools
        mine = ran(plan.problem, [pools.index(r[0]) if r else None for r in plan.restricted])
        assert mine <= ran(plan.problem, along(plan.problem)) * (1 + 1e-9)


def test_what_is_apart_stays_free():
    """Only where more would cross is anything restricted for that; equals of two pools beside it are not."""
    apart = [Layer("x", [], 800, A), Layer("y", [], 800, B), Layer("x + y", [0, 1], 800)]
    rng = random.Random(3)
    together = 0
    for _ in range(150):
        layers = [layer._replace(inputs=[n + 3 for n in layer.inputs]) for layer in graph(rng, 3)]
        plan = propagate([*apart, *layers])
        together += Reason.TOGETHER in plan.reasons
        assert plan.restricted[2] is None
        assert plan.reasons[2] is Reason.FREE
    assert 0 < together < 30
