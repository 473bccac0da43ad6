"""A thousand seeded runs with workers that come and go: every result right, nothing left behind."""

from __future__ import annotations

import random

import pytest
from world import World, random_graph

SEEDS = 1000
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


@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_ends_with_the_right_results(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        try:
            run_seed(seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_same_seed_gives_the_same_run() -> None:
    for seed in range(20):
        assert run_seed(seed).trace == run_seed(seed).trace
