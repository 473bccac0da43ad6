"""A task's entries in a log of all."""

from __future__ import annotations

import random
import time

import pytest

from hetsched.core.commands import KeysFailed
from hetsched.core.events import GraphSubmitted, TasksFailed, WorkerJoined
from hetsched.core.scheduler import Scheduler
from hetsched.core.stories import SCANS, Stories
from hetsched.core.types import Capacity, TaskSpec


@pytest.mark.parametrize("seed", range(20))
def test_an_index_finds_what_going_through_the_log_finds(seed) -> None:
    rng = random.Random(seed)
    tasks = [object() for _ in range(12)]
    log = []
    stories = Stories()
    for n in range(200):
        if rng.random() < 0.7:
            log.append((float(n), n, "cause", rng.sample(tasks, rng.randint(0, 5))))
        if log and rng.random() < 0.3:
            new = [task for task in tasks if task not in log[-1][3]]
            log[-1][3].append(rng.choice(new))  # the last is being written
        if rng.random() < 0.5:
            task = rng.choice(tasks)
            assert stories.about(task, log) == [entry for entry in log if task in entry[3]]
    assert stories.about(object(), log) == []


def failing_one_by_one(count):
    """Let every task of a graph fail on its own account; returns the stories that are told."""
    scheduler = Scheduler()
    scheduler.handle(WorkerJoined("a", Capacity({"cpu": 1}, {}, None, 0)), 0.0)
    tasks = [TaskSpec(("x", n), len) for n in range(count)]
    scheduler.handle(GraphSubmitted("c", 0, tasks, range(count)), 1.0)
    told = []
    for n in range(count):
        (command,) = scheduler.handle(TasksFailed("a", "cpu", [(n, 0, "error", False)]), 2.0 + n)
        assert isinstance(command, KeysFailed)
        told.append(command.story)
    assert scheduler.state.graphs["c", 0].stories is not None
    return told


def test_each_of_many_failures_has_its_story() -> None:
    assert failing_one_by_one(3 * SCANS) == [
        f"1.000000 ASSIGNED (a); {2 + n}.000000 WAITING (it raised)" for n in range(3 * SCANS)
    ]


def test_a_story_costs_the_same_in_a_large_graph() -> None:
    def cost(count):
        began = time.process_time()
        failing_one_by_one(count)
        return (time.process_time() - began) / count

    assert min(cost(4000) for _ in range(3)) < 4 * min(cost(500) for _ in range(3))
