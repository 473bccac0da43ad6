"""Bytes between pools: against the best there is, against propagation along the data's way alone; and CPU time.

    python benchmarks/pools.py [--graphs N] [--json FILE]

*The best* is found by trying everything. *Forward only* is the rule of dask-worker-pools, written anew from its
description: a layer of which no pool was said takes over the pool that holds most bytes of what it reads; what reads
nothing, or nothing that is in a pool, runs anywhere.

Bytes are counted alike for all: a result crosses once to each other pool that reads it. *As it runs*: a layer that is
not restricted runs where most of what it reads lies, as placement has it; one that reads nothing runs in each pool
equally often, and the bytes are the mean over all such choices. *As planned*: layers that were left free, since a
restriction saves less than a tenth of what they read, are where the plan has them too. What is marked with - is told,
and has no bar.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence

from hetsched.core.pools import Layer, propagate
from hetsched.core.pools.layers import Problem

MOST_BRUTE = 1.1
LEAST_SAVED = 0.3
MOST_SECONDS = 2.0
MOST_500 = 0.05


def random_graph(rng: random.Random, most: int, pools: int) -> list[Layer]:
    """Layers of all sizes, some of whose pools are said."""
    layers: list[Layer] = []
    for n in range(rng.randint(4, most)):
        inputs = rng.sample(range(n), min(n, rng.choice([0, 1, 1, 2, 2, 3])))
        said = (f"pool{rng.randrange(pools)}",) if rng.random() < 0.35 else None
        layers.append(Layer(f"layer{n}", inputs, rng.choice([8, 1000, 10**6, rng.randrange(10**7)]), said))
    return layers


def shared_inputs(rng: random.Random, pools: int = 2) -> list[Layer]:
    """Data of each pool, and data that may be loaded anywhere (masks, grids) and that several layers read."""
    layers = [Layer(f"data{n}", [], rng.randrange(10**6, 10**7), (f"pool{n}",)) for n in range(pools)]
    shared = range(pools, pools + rng.randint(1, 3))
    layers += [Layer(f"shared{n}", [], rng.randrange(10**6, 10**7)) for n in shared]
    for n in range(len(layers), len(layers) + rng.randint(4, 10)):
        inputs = sorted({rng.choice(shared), rng.randrange(n), *([rng.randrange(n)] if rng.random() < 0.5 else [])})
        largest = max(layers[d].nbytes or 0 for d in inputs)
        nbytes = largest if rng.random() < 0.6 else max(8, largest // 100)
        said = (f"pool{rng.randrange(pools)}",) if rng.random() < 0.15 else None
        layers.append(Layer(f"layer{n}", inputs, nbytes, said))
    return layers


def forward_only(layers: Sequence[Layer], pools: Sequence[str]) -> list[int | None]:
    """The pool that each layer is restricted to, by the peer's rule."""
    places: list[int | None] = []
    for layer in layers:
        if layer.pools is not None:
            places.append(pools.index(layer.pools[0]))
            continue
        held = [0] * len(pools)
        for d in layer.inputs:
            place = places[d]
            if place is not None:
                held[place] += layers[d].nbytes or 0
        places.append(held.index(max(held)) if any(places[d] is not None for d in layer.inputs) else None)
    return places


def mean_bytes(problem: Problem, restricted: Sequence[int | None]) -> float:
    """The bytes that cross, over all places of what reads nothing and is not restricted."""
    layers = problem.layers
    anywhere = [n for n, place in enumerate(restricted) if place is None and not layers[n].inputs]
    found = []
    for choice in itertools.product(range(len(problem.pools)), repeat=len(anywhere)):
        chosen = dict(zip(anywhere, choice, strict=True))
        places: list[int] = []
        for n, layer in enumerate(layers):
            place = restricted[n]
            if place is None:
                place = chosen.get(n)
            if place is None:
                held = [0] * len(problem.pools)
                for d in layer.inputs:
                    held[places[d]] += layers[d].nbytes or 0
                place = held.index(max(held))
            places.append(place)
        found.append(problem.cost(places))
    return statistics.fmean(found)


def least_bytes(problem: Problem) -> int:
    """The fewest bytes that can cross."""
    free = [n for n, allowed in enumerate(problem.allowed) if len(allowed) > 1]
    places = [allowed[0] for allowed in problem.allowed]
    best: int | None = None
    for choice in itertools.product(range(len(problem.pools)), repeat=len(free)):
        for n, place in zip(free, choice, strict=True):
            places[n] = place
        cost = problem.cost(places)
        best = cost if best is None or cost < best else best
    return best or 0


def against_the_best(rng: random.Random, pools: int, graphs: int, most: int) -> float:
    """The worst ratio of the plan's bytes to the fewest."""
    worst = 1.0
    for _ in range(graphs):
        layers = random_graph(rng, most, pools)
        plan = propagate(layers)
        if len(plan.problem.pools) > 1:
            best = least_bytes(plan.problem)
            worst = max(worst, plan.cost / best if best else 1.0 + plan.cost)
    return worst


def against_forward_only(
    rng: random.Random, graphs: int, make: Callable[[random.Random], list[Layer]]
) -> dict[str, float]:
    """Bytes of both, and on how many graphs ours were more: as planned, as it runs, and by how much at most."""
    ours = theirs = 0.0
    planned = running = 0
    worst = 1.0
    for _ in range(graphs):
        layers = make(rng)
        plan = propagate(layers)
        problem = plan.problem
        if len(problem.pools) < 2:
            continue
        mine = mean_bytes(problem, [problem.pools.index(r[0]) if r else None for r in plan.restricted])
        other = mean_bytes(problem, forward_only(layers, problem.pools))
        ours, theirs = ours + mine, theirs + other
        planned += plan.cost > other * (1 + 1e-9)
        running += mine > other * (1 + 1e-9)
        worst = max(worst, mine / other if other else 1.0)
    return {"ours": ours, "theirs": theirs, "planned": planned, "running": running, "worst": worst}


def seconds(layers: list[Layer], repeat: int = 3) -> float:
    """CPU seconds of one propagation, the least of some."""
    found = []
    for _ in range(repeat):
        started = time.process_time()
        propagate(layers)
        found.append(time.process_time() - started)
    return min(found)


def large_graphs() -> dict[str, list[Layer]]:
    """The graphs that must not take long."""
    chain = [Layer(str(n), [n - 1] if n else [], 1000, (("A",) if n == 0 else ("B",) if n == 19_999 else None))
             for n in range(20_000)]  # fmt: skip
    ladder = [Layer("first", [], 5)]
    for _ in range(60):
        n = len(ladder) - 1
        ladder += [Layer("left", [n], 5), Layer("right", [n], 5), Layer("join", [n + 1, n + 2], 5)]
    return {
        "a chain of 20,000 layers": chain,
        "60 diamonds, nothing said": ladder,
        "100,000 independent tasks": [Layer(str(n), [], 10) for n in range(100_000)],
    }


def local_graph(rng: random.Random, count: int, pools: int) -> list[Layer]:
    """Layers that read what came shortly before."""
    layers = []
    for n in range(count):
        inputs = sorted({max(0, n - 1 - rng.randrange(8)) for _ in range(rng.choice([0, 1, 1, 2, 3])) if n})
        said = (f"pool{rng.randrange(pools)}",) if n % 20 == 0 else None
        layers.append(Layer(str(n), inputs, rng.randrange(10**9), said))
    return layers


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=300, help="of each kind")
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    figures: dict[str, float] = {}
    missed = False

    def show(what: str, figure: float, text: str, ok: bool | None) -> None:
        nonlocal missed
        figures[what.strip()] = figure
        missed = missed or ok is False
        print(f"{what:<62} {text:>12}  {'-' if ok is None else 'ok' if ok else 'MISSED'}")

    print("bytes crossing, against trying everything (worst graph)")
    for pools, most in ((2, 10), (3, 9), (4, 8)):
        worst = against_the_best(random.Random(pools), pools, options.graphs, most)
        show(f"  {pools} pools, up to {most} layers", worst, f"{worst:.3f}", worst <= (1 if pools == 2 else MOST_BRUTE))
    print("bytes crossing, against forward only")
    for name, make in (
        ("random graphs", lambda rng: random_graph(rng, 10, 2)),
        ("graphs with shared free inputs", shared_inputs),
        ("the same, three pools", lambda rng: shared_inputs(rng, 3)),
        ("random graphs, three pools", lambda rng: random_graph(rng, 9, 3)),
    ):
        found = against_forward_only(random.Random(name), options.graphs, make)
        saved = 1 - found["ours"] / found["theirs"]
        barred = None if name.startswith("random graphs") else saved >= LEAST_SAVED
        show(f"  {name}: saved, as it runs", saved, f"{saved:.1%}", barred)
        planned, running = found["planned"], found["running"]
        show(f"  {name}: on so many more, as planned", planned, f"{planned:.0f}", not planned)
        show(f"  {name}: on so many more, as it runs", running, f"{running:.0f}", not running)
        show(f"  {name}: the worst of those", found["worst"], f"{found['worst']:.3f}", None)
    print("CPU seconds")
    for pools in (2, 3, 4):
        took = seconds(local_graph(random.Random(pools), 500, pools), 7)
        show(f"  500 layers, {pools} pools", took, f"{took * 1e3:.1f} ms", took < MOST_500)
    for name, layers in large_graphs().items():
        took = seconds(layers)
        show(f"  {name}", took, f"{took:.2f} s", took < MOST_SECONDS)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
