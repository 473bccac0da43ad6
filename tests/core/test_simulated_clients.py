"""Seeded runs of graphs that come in parts, read each other's results, and are let go of result by result."""

from __future__ import annotations

import random
from typing import Any

import pytest
from world import World, random_graph

from hetsched.core.events import GraphExtended, GraphSubmitted, KeysReleased, ResultsMissing
from hetsched.core.retiring import may_leave
from hetsched.core.types import TaskSpec

SEEDS = 400
PARTS = 10


class Futures(World):
    """A client that holds results, and builds graphs on them."""

    def __init__(self, seed: int, policy: str, flaky: float, impatience: float) -> None:
        super().__init__(seed, policy, flaky, impatience=impatience)
        self.values: dict[tuple[int, int], Any] = {}
        """What each task must give, by graph and position."""
        self.held: dict[int, set[int]] = {}
        self.parts: dict[int, list[tuple[list[TaskSpec], list[int]]]] = {}
        """What is still to be sent of each graph."""

    def offer(self, tasks: list[TaskSpec], wanted: list[int]) -> int:
        """Submit a graph in which some leaves read results held of others, its parts to be sent later."""
        rng = self.rng
        number = len(self.graphs)
        free = [(n, p) for n, held in self.held.items() if not self.parts.get(n) for p in sorted(held)]
        externals = rng.sample(free, min(len(free), rng.choice([0, 1, 2, 5])))
        for position, spec in enumerate(tasks):
            if externals and not spec.dependencies and rng.random() < 0.5:
                reads = [-1 - n for n in range(len(externals)) if rng.random() < 0.7]
                tasks[position] = TaskSpec(spec.key, spec.func, (), None, reads, spec.annotations)
        for position, spec in enumerate(tasks):
            inputs = [(number, d) if d >= 0 else externals[-1 - d] for d in spec.dependencies]
            self.values[number, position] = (spec.key, *[self.values[i] for i in inputs])
        self.graphs[number] = (tasks, wanted)
        self.results[number], self.failures[number] = {}, {}
        self.held[number] = set(wanted)
        cuts = sorted(rng.sample(range(len(tasks) + 1), min(len(tasks), rng.choice([0, 0, 1, 3]))))
        pieces = [(a, b) for a, b in zip([0, *cuts], [*cuts, len(tasks)], strict=True)]
        parts = [(tasks[a:b], [p for p in wanted if a <= p < b]) for a, b in pieces]
        # What is read of other graphs is read in the first part, which names it.
        while len(parts) > 1 and any(d < 0 for part, _ in parts[1:] for spec in part for d in spec.dependencies):
            second = parts.pop(1)
            parts[0] = (parts[0][0] + second[0], parts[0][1] + second[1])
        self.parts[number] = parts[1:]
        self.handle(GraphSubmitted("client", number, *parts[0], externals=externals, total=len(tasks)))
        return number

    def send_part(self, number: int) -> None:
        self.handle(GraphExtended("client", number, *self.parts[number].pop(0)))

    def send_rest(self) -> None:
        for number in list(self.parts):
            while self.parts[number]:
                self.send_part(number)

    def let_go(self, number: int) -> None:
        """Release some of what is held of a graph that has come whole."""
        held = sorted(self.held[number])
        gone = self.rng.sample(held, self.rng.randint(1, len(held)))
        self.held[number] -= set(gone)
        self.handle(KeysReleased("client", number, gone))

    def leave(self, number: int, cancel: bool = False) -> None:
        self.held[number] = set()
        self.parts[number] = []
        super().leave(number, cancel)

    def assert_so_far(self, number: int) -> None:
        held = self.held[number]
        got = {p: value for p, value in self.results[number].items() if p in held}
        assert got == {p: self.values[number, p] for p in got}
        for failure in self.failures[number].values():
            assert failure.error.removeprefix("error of ") in {str(key) for key in self.broken}

    def assert_right(self, number: int) -> None:
        self.assert_so_far(number)
        assert self.results[number].keys() | self.failures[number].keys() >= self.held[number]


def do(world: Futures, act: str, rng: random.Random) -> None:
    open_ones = [n for n, parts in world.parts.items() if parts]
    some = [n for n, held in world.held.items() if held and not world.parts[n]]
    if act == "offer":
        offer(world, rng)
    elif act == "part" and open_ones:
        world.send_part(rng.choice(open_ones))
    elif act == "release" and some:
        world.let_go(rng.choice(some))
    elif act == "leave" and world.graphs:
        world.leave(rng.choice(list(world.graphs)))
    elif act == "retire" and len(world.workers) > 1:
        world.retire_worker(rng.choice(list(world.workers)))
        world.add_worker(2, 1)
    elif act == "doubt" and some:
        number = rng.choice(some)
        world.handle(ResultsMissing("client", number, sorted(world.results[number])[:2]))
    elif act == "lose" and world.workers:
        world.lose_worker(rng.choice(list(world.workers)))


def offer(world: Futures, rng: random.Random) -> None:
    tasks, wanted = random_graph(rng, rng.choice([1, 5, 20]))
    number = len(world.graphs)
    tasks = [TaskSpec((number, *t.key), t.func, (), None, t.dependencies, t.annotations) for t in tasks]
    if rng.random() < 0.3:
        world.broken |= {spec.key for spec in rng.sample(tasks, 1)}
    world.offer(tasks, wanted)


def run_seed(seed: int) -> None:
    rng = random.Random(seed)
    policy = rng.choice(["earliest_finish", "random", "round_robin"])
    world = Futures(seed, policy, flaky=0.3, impatience=0.3 * (seed % 2))
    window = rng.choice([0, 1, 2, 5])
    for _ in range(rng.randint(1, 3)):
        world.add_worker(window, rng.randint(1, 3))
    acts = ["offer"] * rng.randint(2, 6) + ["part"] * 6 + ["lose"] * rng.choice([0, 0, 1, 3])
    acts += ["retire"] * rng.choice([0, 1, 2])
    acts += ["doubt"] * rng.choice([0, 0, 2]) + ["release"] * rng.choice([0, 2, 6]) + ["leave"] * rng.choice([0, 1])
    rng.shuffle(acts)
    for act in acts:
        for _ in range(rng.randint(1, 30)):
            world.step()
        do(world, act, rng)
        if act == "lose":
            world.add_worker(window, rng.randint(1, 3))
    world.send_rest()
    world.run()
    state = world.scheduler.state
    assert all(may_leave(state, worker) for worker in state.workers.values() if worker.copying is not None)
    for number in world.graphs:
        world.assert_right(number)
    world.release_all()
    world.assert_empty()


@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_ends_with_the_right_results(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        try:
            run_seed(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
