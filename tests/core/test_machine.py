"""Hypothesis looks for an order of events that confuses the scheduler or its workers' minds.

Both are checked after each thing that happens (see ``world.py``); at the end every graph that was not given up has its
results, or the errors that are due, and when all graphs are released nothing is left anywhere.
"""

from __future__ import annotations

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from world import World, random_graph

SEEDS = st.integers(0, 2**32 - 1)


class Cluster(RuleBasedStateMachine):
    """A scheduler, its workers and a client, all at Hypothesis' mercy."""

    @initialize(seed=SEEDS, policy=st.sampled_from(["earliest_finish", "random", "round_robin"]))
    def start(self, seed: int, policy: str) -> None:
        self.world = World(seed, policy, flaky=0.3)
        self.world.add_worker()

    @precondition(lambda self: len(self.world.graphs) < 4)
    @rule(seed=SEEDS, size=st.integers(1, 15))
    def submit(self, seed: int, size: int) -> None:
        self.world.submit(*random_graph(random.Random(seed), size, more=True))

    @precondition(lambda self: len(self.world.workers) < 5)
    @rule(
        window=st.sampled_from([0, 1, 2, 5]),
        cpus=st.integers(1, 3),
        pool=st.sampled_from([None, "p", "q", "*"]),
        gpus=st.integers(0, 2),
    )
    def add_worker(self, window: int, cpus: int, pool: str | None, gpus: int) -> None:
        self.world.add_worker(window, cpus, pool, gpus)

    @precondition(lambda self: self.world.workers)
    @rule(which=st.integers(0, 4))
    def lose_worker(self, which: int) -> None:
        names = list(self.world.workers)
        self.world.lose_worker(names[which % len(names)])

    @rule(count=st.sampled_from([1, 5, 30]))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.world.step()

    @precondition(lambda self: self.world.graphs)
    @rule(which=st.integers(0, 3), cancel=st.booleans())
    def leave(self, which: int, cancel: bool) -> None:
        self.world.leave(which % len(self.world.graphs), cancel)

    @precondition(lambda self: self.world.graphs)
    @rule(which=st.integers(0, 3), position=st.integers(0, 14))
    def break_a_key(self, which: int, position: int) -> None:
        tasks, _ = self.world.graphs[which % len(self.world.graphs)]
        self.world.broken.add(tasks[position % len(tasks)].key)

    @invariant()
    def what_came_is_right(self) -> None:
        for number in self.world.graphs:
            self.world.assert_so_far(number)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.add_worker(1, 2, "*", 1)
        self.world.run()
        for number in self.world.graphs.keys() - self.world.left:
            self.world.assert_right(number)
        self.world.release_all()
        self.world.assert_empty()


TestCluster = Cluster.TestCase
TestCluster.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
