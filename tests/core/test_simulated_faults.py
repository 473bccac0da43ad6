"""A thousand seeded runs with workers that come and go: every result right, nothing left behind."""

from __future__ import annotations

import random

import pytest
from world import World, random_graph

from hetsched.core.events import LessonsForgotten

SEEDS = 1000
HARD_SEEDS = 200
PARTS = 20


def run_seed(seed: int) -> World:
    """One run: some graphs, some workers, some losses, all chosen by the seed."""
    rng = random.Random(seed)
    policy = rng.choice(["earliest_finish", "random", "round_robin"])
    world = World(seed, policy, flaky=0.3)
    window = rng.choice([0, 1, 2, 5])
    for _ in range(rng.randint(1, 4)):
        world.add_worker(window, rng.randint(1, 3))
    numbers = [world.submit(*random_graph(rng)) for _ in range(rng.randint(1, 3))]
    losses = rng.choice([0, 1, 3, 6])
    steps = 0
    while True:
        for _ in range(rng.randint(1, 40)):
            steps += 1
            if not world.step():
                break
        else:
            assert steps < 100_000, "it does not end"
            if losses and world.workers:
                losses -= 1
                world.lose_worker(rng.choice(list(world.workers)))
                if rng.random() < 0.8 or not world.workers:
                    world.add_worker(window, rng.randint(1, 3))
            continue
        break
    world.run()
    for number in numbers:
        world.assert_right(number)
    world.release_all()
    world.assert_empty()
    return world


def run_hard_seed(seed: int, unreachable: float = 0.0, devices: float = 0.0, impatience: float = 0.0) -> World:
    """One run with devices, pools, resources, keys that fail, and graphs that come late or are given up."""
    rng = random.Random(seed)
    policy = rng.choice(["earliest_finish", "random", "round_robin"])
    world = World(seed, policy, 0.3, unreachable, devices, impatience=impatience)
    window = rng.choice([0, 1, 2, 5])
    for _ in range(rng.randint(1, 4)):
        add_any_worker(world, rng, window)
    graphs = [random_graph(rng, rng.choice([5, 15, 40]), more=True) for _ in range(rng.randint(1, 3))]
    for tasks, _ in graphs:
        world.broken |= {spec.key for spec in rng.sample(tasks, min(len(tasks), rng.choice([0, 0, 1, 3])))}
    acts = ["lose"] * rng.choice([0, 1, 3, 6]) + ["submit"] * len(graphs) + ["leave"] * rng.choice([0, 0, 1])
    rng.shuffle(acts)
    for act in acts:
        for _ in range(rng.randint(1, 40)):
            world.step()
        if devices and seed % 3 == 0:
            world.handle(LessonsForgotten(["*"]))
        if act == "submit":
            world.submit(*graphs.pop())
        elif act == "leave" and world.graphs:
            world.leave(rng.choice(list(world.graphs)), rng.random() < 0.5)
        elif act == "lose":
            lose_any_worker(world, rng, window)
    world.run()
    # whatever still waits can run here
    world.add_worker(window, 2, "*", 1)
    world.run()
    for number in world.graphs.keys() - world.left:
        world.assert_right(number)
    world.release_all()
    world.assert_empty()
    return world


def lose_any_worker(world: World, rng: random.Random, window: int) -> None:
    if world.workers:
        world.lose_worker(rng.choice(list(world.workers)))
    if rng.random() < 0.8:
        add_any_worker(world, rng, window)


def add_any_worker(world: World, rng: random.Random, window: int) -> None:
    pool = rng.choice([None, "p", "q", "*"])
    world.add_worker(rng.choice([window, 0, 3]), rng.randint(1, 3), pool, rng.choice([0, 1]))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_ends_with_the_right_results(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        try:
            run_seed(seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("part", range(PARTS))
def test_every_hard_seed_ends_with_right_results_or_the_errors_that_are_due(part: int) -> None:
    for seed in range(part, HARD_SEEDS, PARTS):
        try:
            run_hard_seed(seed, 0.2 * (seed % 2))
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("part", range(PARTS))
def test_gpu_tasks_are_found_and_moved_whatever_else_happens(part: int) -> None:
    for seed in range(part, HARD_SEEDS, PARTS):
        try:
            run_hard_seed(seed, 0.2 * (seed % 2), devices=0.9)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_same_seed_gives_the_same_run() -> None:
    for seed in range(20):
        assert run_seed(seed).trace == run_seed(seed).trace
