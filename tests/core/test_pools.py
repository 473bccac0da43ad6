"""Layers are put where the fewest bytes cross, and are restricted only where that is worth something."""

from __future__ import annotations

import itertools
import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetsched.core.pools import Layer, Prices, Reason, propagate
from hetsched.core.pools.layers import Problem

GRAPHS = json.loads(Path(__file__).with_name("pool_graphs.json").read_text())["graphs"]


def least(layers, prices=None):
    """The fewest bytes that can cross, by trying everything."""
    problem = Problem(layers, prices or Prices())
    places = [allowed[0] if problem.placed[n] and allowed else -1 for n, allowed in enumerate(problem.allowed)]
    free = [n for n, placed in enumerate(problem.placed) if placed and len(problem.allowed[n]) > 1]
    found = []
    for combination in itertools.product(*[problem.allowed[n] for n in free]):
        for n, place in zip(free, combination, strict=True):
            places[n] = place
        found.append(problem.cost(places))
    return min(found)


def pools(layers, **options):
    return propagate(layers, **options).restricted


A, B = ("A",), ("B",)


def test_data_is_followed():
    layers = [Layer("a", [], 800, A), Layer("minus", [0], 800), Layer("sum", [1], 8)]
    plan = propagate(layers)
    assert plan.restricted == [A, A, A]
    assert plan.reasons == [Reason.GIVEN, Reason.SAVES, Reason.SAVES]
    assert plan.saves == [0, 800, 800]
    assert plan.cost == 0


def test_what_is_small_crosses():
    layers = [Layer("a", [], 800, A), Layer("b", [], 80, B), Layer("mean", [0], 8), Layer("minus", [1, 2], 80)]
    plan = propagate(layers)
    assert plan.restricted == [A, B, A, B]
    assert plan.cost == 8


def test_what_a_pool_reads_is_made_there():
    layers = [Layer("load", [], 800), Layer("half", [0], 400), Layer("a", [1], 8, A)]
    assert pools(layers) == [A, A, A]


def test_equals_of_two_pools_are_not_forced_into_one():
    sums = [Layer(f"sum{n}", [0, 1], 800) for n in range(20)]
    layers = [Layer("a", [], 800, A), Layer("b", [], 800, B), *sums, Layer("total", range(2, 22), 8)]
    plan = propagate(layers)
    assert plan.restricted == [A, B, *[None] * 21]
    assert plan.reasons[2:] == [Reason.FREE] * 21


def test_equals_are_free_also_behind_what_is_not():
    layers = [
        Layer("a", [], 800, A), Layer("b", [], 790, B), Layer("minus", [0], 800), Layer("sum", [2, 1], 800),
        Layer("twice", [3], 800),
    ]  # fmt: skip
    assert pools(layers) == [A, B, A, None, None]
    assert pools(layers, min_saving=0) == [A, B, A, A, A]


def test_what_crosses_in_any_case_costs_no_more():
    layers = [
        Layer("a", [], 88, A), Layer("b", [], 98, B), Layer("shared", [], 64), Layer("either", [1, 2], 98),
        Layer("in_a", [0, 2], 88, A), Layer("mostly_a", [0, 1, 2], 98),
    ]  # fmt: skip
    plan = propagate(layers)
    # `b` crosses for `mostly_a`, so `either` has all it reads in A; without that it would be free.
    assert plan.restricted == [A, B, A, A, A, A]
    assert plan.cost == 98


def test_a_restriction_that_saves_little_is_not_made():
    layers = [Layer("a", [], 1, A), Layer("load", [], 1000), Layer("plus", [0, 1], 1000)]
    plan = propagate(layers)
    assert plan.restricted == [A, None, None]
    assert plan.saves == [0, 0, 1]


def test_no_pool_frees_what_follows_from_it_alone():
    layers = [
        Layer("a", [], 800, A), Layer("none", [0], 800, forbidden=True), Layer("after", [1], 800),
        Layer("both", [0, 2], 800), Layer("said", [2], 800, B), Layer("last", [2, 4], 800),
    ]  # fmt: skip
    plan = propagate(layers)
    assert plan.restricted == [A, None, None, A, B, B]
    assert plan.reasons[1:3] == [Reason.FORBIDDEN, Reason.FOLLOWS]


def test_a_list_of_pools_is_narrowed_where_that_saves():
    a, b, alone = Layer("a", [], 800, A), Layer("b", [], 700, B), Layer("d", [], 1, ("B", "C"))
    assert pools([a, b, Layer("c", [0, 1], 8, ("B", "A")), alone], min_saving=0.05) == [A, B, A, ("B", "C")]
    assert pools([a, b, Layer("c", [0, 1], 8, ("B", "C"))])[2] == B


def test_what_something_else_places_is_left_alone():
    layers = [Layer("a", [], 800, A), Layer("gpu", [0], 800, loose=True), Layer("after", [1], 8)]
    plan = propagate(layers)
    assert plan.restricted == [A, None, None]
    assert plan.reasons[1:] == [Reason.LOOSE, Reason.ALONE]


def test_unknown_sizes_are_not_nothing():
    layers = [Layer("a", [], None, A), Layer("b", [], 10, B), Layer("c", [], 90), Layer("sum", [0, 1], None)]
    plan = propagate(layers)
    assert plan.problem.unknown == [True, False, False, True]
    assert plan.problem.weights == [90, 10, 90, 90]
    assert plan.restricted == [A, B, None, A]
    assert pools([Layer("a", [], None, A), Layer("f", [0], None)]) == [A, A]


def test_dear_links_are_avoided():
    layers = [Layer("a", [], 100, A), Layer("b", [], 60, B), Layer("c", [], 50, ("C",)), Layer("sum", [0, 1, 2], 8)]
    assert pools(layers) == [A, B, ("C",), A]
    dear = Prices({("A", "B"): 0.09, ("A", "C"): 0.09, ("B", "C"): 0.01})
    plan = propagate(layers, dear, 0)
    assert plan.restricted[3] == B
    assert plan.cost == 100 * 1000 + 50 * 111


def test_groups_of_tasks_in_rings():
    layers = [Layer("a", [], 8, A), Layer("x", [0, 2], 800), Layer("y", [1], 800), Layer("b", [2], 8, B)]
    assert propagate(layers).cost == 8


@st.composite
def graphs(draw, most=9, count=2):
    size = draw(st.integers(2, most))
    said = st.sampled_from([None, None, *[(chr(65 + n),) for n in range(count)]])
    sizes = st.one_of(st.integers(0, 10), st.integers(0, 10_000), st.none())
    layers = []
    for n in range(size):
        inputs = draw(st.lists(st.integers(0, n - 1), max_size=3, unique=True)) if n else []
        layers.append(Layer(f"layer{n}", inputs, draw(sizes), draw(said)))
    return layers


@given(graphs(10))
@settings(max_examples=80, deadline=None)
def test_between_two_pools_nothing_is_better(layers):
    assert propagate(layers).cost == least(layers)


@given(graphs(7, 4), st.lists(st.sampled_from([0.01, 0.02, 0.09]), min_size=6, max_size=6))
@settings(max_examples=60, deadline=None)
def test_between_more_pools_it_is_nearly_the_best(layers, costs):
    named = dict(zip(itertools.combinations("ABCD", 2), costs, strict=True))
    for prices in (None, Prices(named)):
        assert propagate(layers, prices).cost <= 1.1 * least(layers, prices)


@given(graphs(10, 3))
@settings(max_examples=50, deadline=None)
def test_a_plan_keeps_to_what_was_said_and_restricts_for_a_reason(layers):
    plan = propagate(layers)
    assert plan.restricted == propagate(layers).restricted
    for n, layer in enumerate(layers):
        if layer.pools is not None:
            assert plan.restricted[n] == layer.pools
        elif plan.restricted[n] is not None:
            assert plan.saves[n] > 0 or plan.reasons[n] is Reason.TOGETHER  # which may save nothing one by one
            assert plan.restricted[n] == (plan.pool(n),)


def test_layers_that_save_nothing_one_by_one_are_restricted_where_they_save_together():
    layers = [Layer("a", [], 0, A), Layer("new", [], None), Layer("copy", [0], 2), Layer("b", [], 2, B),
              Layer("c", [3], 0, A), Layer("sum", [3, 2, 1], 0)]  # fmt: skip
    plan = propagate(layers)
    assert plan.restricted == [A, B, B, B, A, None]
    assert [(plan.reasons[n], plan.saves[n]) for n in (1, 2)] == [(Reason.TOGETHER, 0)] * 2


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_workflows(name, count):
    rng = random.Random(name)
    rows = GRAPHS[name]
    for _ in range(2):
        free = set(rng.sample(range(len(rows)), 10 if count == 2 else 6))
        layers = [
            Layer(str(n), inputs, size, None if n in free else ("ABC"[(two, three)[count - 2]],))
            for n, (inputs, size, two, three) in enumerate(rows)
        ]
        cost = propagate(layers).cost
        assert cost == least(layers) if count == 2 else cost <= 1.1 * least(layers)


def seconds(layers):
    started = time.process_time()
    propagate(layers)
    return time.process_time() - started


def chain(count):
    return [Layer(str(n), [n - 1] if n else [], 1000) for n in range(count)]


def ladder(count):
    layers = [Layer("first", [], 5)]
    for _ in range(count):
        last = len(layers) - 1
        layers += [Layer("left", [last], 5), Layer("right", [last], 5), Layer("join", [last + 1, last + 2], 5)]
    return layers


@pytest.mark.parametrize("said", [(), (A,), (A, B)], ids=["nothing said", "one pool", "two pools"])
def test_large_graphs_take_little_time(said):
    independent = [Layer(str(n), [], 10) for n in range(100_000)]
    for layers in (chain(20_000), ladder(60), independent) if len(said) != 1 else (chain(20_000), ladder(60)):
        for pool, place in zip(said, (0, -1), strict=False):
            layers[place] = layers[place]._replace(pools=pool)
        assert seconds(layers) < 2


def test_a_hub_takes_little_time():
    layers = [Layer("a", [], 10, A), Layer("b", [], 10, B)]
    layers += [Layer(f"read{n}", [n % 2], 10) for n in range(20_000)]
    layers += [Layer("all", range(2, 20_002), 10), *[Layer(f"after{n}", [20_002], 10) for n in range(20_000)]]
    assert seconds(layers) < 2


def test_500_layers():
    rng = random.Random(1)
    layers = []
    for n in range(500):
        inputs = {max(0, n - 1 - rng.randrange(8)) for _ in range(rng.choice([0, 1, 1, 2, 3])) if n}
        layers.append(Layer(str(n), sorted(inputs), rng.randrange(10**9), (rng.choice("AB"),) if n % 20 == 0 else None))
    assert min(seconds(layers) for _ in range(5)) < 0.05
