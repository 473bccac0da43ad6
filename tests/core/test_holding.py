"""Tasks with large inputs: where they wait, and where those are moved instead."""

from __future__ import annotations

import random

import pytest
from bench import Bench, run, spec
from world import World, random_graph

from hetsched.core.costs import BANDWIDTH, LATENCY
from hetsched.core.events import (
    CapacityChanged,
    GraphReleased,
    GraphSubmitted,
    TasksFinished,
    TimePassed,
    WorkerLost,
    WorkerRetiring,
)
from hetsched.core.types import Capacity

SECOND = int(BANDWIDTH)
"""Bytes that take a second to be moved."""


class Shelf(Bench):
    """A scheduler whose clock is set, and which waits for data; ``a`` holds the result of task 0, a second's size."""

    def __init__(self, *others, nbytes=SECOND, lasts=0.1):
        super().__init__("a", policy="earliest_finish")
        self.submit([spec("big")], [0])
        self.done("a", 0, nbytes=nbytes)
        self(GraphSubmitted("c", 9, [spec("learn-0")], [0]))
        self(TasksFinished("a", "cpu", [(1, 0, 0.0, lasts, 8, 0)]))  # so long do tasks of this kind take
        self(GraphReleased("c", 9))
        for name in others:
            self.join(name)
        self.now = 99.0

    def __call__(self, event, at=None):
        if at is not None:
            self.now = at - 1.0
        return super().__call__(event)

    def done(self, worker, *tasks, attempt=0, nbytes=8, at=None):
        return self(TasksFinished(worker, "cpu", [(task, attempt, 0.0, 0.1, nbytes, 0) for task in tasks]), at)

    def read(self, count, **annotations):
        """Submit tasks that read the large result."""
        tasks = [spec(f"learn-{n}", -1, **annotations) for n in range(count)]
        return self(GraphSubmitted("c", 1, tasks, range(count), 0, None, [(0, 0)]))

    @property
    def due(self):
        return self.scheduler.due


def test_what_is_large_waits_for_the_worker_that_holds_it() -> None:
    b = Shelf("b")
    assert b.read(3) == [run("a", (2, 0, [0]))]
    assert b.due == 100.0 + LATENCY + 1.0
    assert b.done("a", 2, at=100.1) == [run("a", (3, 0, [0])), ("ready", [(0, ["a"])])]
    assert b.done("a", 3, at=100.2) == [run("a", (4, 0, [0])), ("ready", [(1, ["a"])])]
    assert b.done("a", 4, at=100.3) == [("ready", [(2, ["a"])])]
    assert b.due is None


@pytest.mark.parametrize(("nbytes", "lasts"), [(SECOND, 2.0), (10, 0.1), (SECOND // 100, 0.1)])
def test_what_moves_sooner_than_its_turn_comes_is_moved(nbytes, lasts) -> None:
    b = Shelf("b", nbytes=nbytes, lasts=lasts)
    assert b.read(3) == [run("a", (2, 0, [0])), run("b", (3, 0, [0], {0: ["a"]}))]
    assert b.due is None


def test_those_wait_whose_turn_comes_sooner_and_the_rest_is_moved() -> None:
    """Of tasks of 0.4 s two can wait for the one that runs; the next would wait for longer than the move takes."""
    b = Shelf("b", lasts=0.4)
    assert b.read(9) == [run("a", (2, 0, [0])), run("b", (5, 0, [0], {0: ["a"]}))]
    assert b.done("b", 5, at=100.5) == [run("b", (6, 0, [0], {0: ["a"]})), ("ready", [(3, ["b"])])]


def test_it_waits_no_longer_than_moving_would_take() -> None:
    """What was expected to be short is not: after the time of the move the move is made."""
    b = Shelf("b")
    b.read(2)
    due = b.due
    assert b(TimePassed(), at=due - 0.5) == []
    assert b(TimePassed(), at=due) == [run("b", (3, 0, [0], {0: ["a"]}))]
    assert b.due is None


def test_it_waits_once_in_all() -> None:
    b = Shelf("b", lasts=0.4)
    b.read(3)
    due = b.due
    # The worker that had room takes something else meanwhile, and has none when the time is over.
    assert b(GraphSubmitted("c", 2, [spec("other", duration=60)], [0])) == [run("b", (5, 0, []))]
    assert b(TimePassed(), at=due) == []
    assert b.due is None
    assert b.done("b", 5, at=due + 0.1) == [run("b", (3, 0, [0], {0: ["a"]})), ("ready", [(0, ["b"])])]


def test_a_worker_that_has_room_takes_what_others_cannot() -> None:
    """What waits for one worker does not hold up what comes after it."""
    b = Shelf("b")
    assert b.read(2) == [run("a", (2, 0, [0]))]
    assert b(GraphSubmitted("c", 2, [spec("small")], [0])) == [run("b", (4, 0, []))]


@pytest.mark.parametrize(
    ("event", "also"),
    [
        (WorkerRetiring("a"), True),
        (CapacityChanged("a", Capacity({"cpu": 0}, {}, None, 1)), False),
    ],
)
def test_it_waits_for_no_worker_that_takes_nothing_more(event, also) -> None:
    b = Shelf("b")
    b.read(2)
    assert run("b", (3, 0, [0], {0: ["a"]})) in b(event)
    assert b.due is None


def test_a_worker_that_is_lost_is_not_waited_for() -> None:
    b = Shelf("b")
    b.read(2)
    assert b(WorkerLost("a", "gone")) == [run("b", (0, 1, []))]
    assert b.due is None


def test_what_is_given_up_waits_no_more() -> None:
    b = Shelf("b")
    b.read(3)
    assert b(GraphReleased("c", 1)) == [("cancel", "a", [2])]
    assert b.due is None


def test_urgent_tasks_go_before_those_that_wait() -> None:
    b = Shelf("b")
    b.read(2)
    tasks = [spec("learn-9", -1, priority=5)]
    assert b(GraphSubmitted("c", 2, tasks, [0], 0, None, [(0, 0)])) == []
    assert b.done("a", 2, at=100.1) == [run("a", (4, 0, [0])), ("ready", [(0, ["a"])])]


def test_only_a_policy_that_looks_at_costs_has_tasks_wait() -> None:
    b = Bench("a", policy="round_robin")
    b.submit([spec("big")], [0])
    b(TasksFinished("a", "cpu", [(0, 0, 0.0, 0.1, SECOND, 0)]))
    b.join("b")
    tasks = [spec(f"x-{n}", -1) for n in range(2)]
    assert b(GraphSubmitted("c", 1, tasks, range(2), 0, None, [(0, 0)])) == [
        run("a", (1, 0, [0])),
        run("b", (2, 0, [0], {0: ["a"]})),
    ]


def test_a_task_does_not_run_ahead_where_most_of_its_bytes_are_not() -> None:
    b = Bench("a", "b", policy="earliest_finish", window=2)
    b.submit([spec("big")], [0])
    b(TasksFinished("a", "cpu", [(0, 0, 0.0, 0.1, SECOND, 0)]))
    tasks = [spec("small"), spec("sum", 0, -1)]
    assert b(GraphSubmitted("c", 1, tasks, [1], 0, None, [(0, 0)])) == [run("b", (1, 0, []))]
    assert b(TasksFinished("b", "cpu", [(1, 0, 0.0, 0.1, 8, 0)])) == [run("a", (2, 0, [1, 0], {1: ["b"]}))]


def test_a_task_runs_ahead_to_where_most_of_its_bytes_will_be() -> None:
    b = Bench("a", "b", policy="earliest_finish", window=2)
    b.submit([spec("big")], [0])
    b(TasksFinished("a", "cpu", [(0, 0, 0.0, 0.1, SECOND, 0)]))
    tasks = [spec("bigger", nbytes=2 * SECOND), spec("sum", 0, -1)]
    assert b(GraphSubmitted("c", 1, tasks, [1], 0, None, [(0, 0)])) == [
        run("b", (1, 0, []), (2, 0, [1, 0], {0: ["a"]}))
    ]


@pytest.mark.parametrize("part", range(4))
def test_every_seed_ends_whatever_waits_for_whom(part) -> None:
    waited = 0
    for seed in range(part, 120, 4):
        rng = random.Random(seed)
        world = World(seed, flaky=0.2)
        world.sizes = (8, SECOND // 50, 8, SECOND, SECOND // 10)
        for _ in range(3):
            world.add_worker(1, rng.choice([1, 2]))
        for _ in range(3):
            world.submit(*random_graph(rng, more=False))
        acts = ["lose", "retire", "time", "time"] * rng.choice([0, 1])
        rng.shuffle(acts)
        for act in acts:
            for _ in range(rng.randint(1, 60)):
                world.step()
                waited += bool(world.scheduler.state.held)
            if act == "time":
                world.handle(TimePassed())
            elif len(world.workers) > 1:
                (world.lose_worker if act == "lose" else world.retire_worker)(rng.choice(list(world.workers)))
                world.add_worker(1, 2)
        while world.step():
            waited += bool(world.scheduler.state.held)
        for number in world.graphs:
            world.assert_right(number)
        world.release_all()
        world.assert_empty()
        assert world.scheduler.due is None
        assert not world.scheduler.state.held
    assert waited > 100
