"""What is learned of durations and sizes, and what moving bytes takes."""

from __future__ import annotations

import pytest

from hetsched.core.costs import BANDWIDTH, LATENCY, UNKNOWN, duration_of, learn, nbytes_of, transfer_seconds
from hetsched.core.events import GraphSubmitted, TasksFinished, WorkerJoined
from hetsched.core.prefixes import TaskPrefix
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec


def a_task(**annotations):
    scheduler = Scheduler()
    scheduler.handle(GraphSubmitted("c", 0, [TaskSpec("x", len, (), None, (), annotations or None)], [0]), 0.0)
    return scheduler.state.tasks[0]


def test_what_is_unknown_is_guessed() -> None:
    ts = a_task()
    assert (duration_of(ts), nbytes_of(ts)) == (UNKNOWN, 0.0)


def test_a_hint_is_better_than_a_guess() -> None:
    ts = a_task(duration=2, nbytes=1000)
    assert (duration_of(ts), nbytes_of(ts)) == (2.0, 1000.0)


def test_a_measurement_is_better_than_a_hint() -> None:
    ts = a_task(duration=2, nbytes=1000)
    learn(ts.prefix, "cpu", 4, 1.0, 80)
    assert (duration_of(ts), nbytes_of(ts)) == (0.25, 20.0)


def test_each_executor_is_learned_apart() -> None:
    ts = a_task(executor="io")
    learn(ts.prefix, "cpu", 1, 5.0, 5)
    assert duration_of(ts) == UNKNOWN
    learn(ts.prefix, "io", 1, 1.0, 1)
    assert (duration_of(ts), nbytes_of(ts)) == (1.0, 1.0)


def test_what_is_long_ago_counts_half() -> None:
    prefix = TaskPrefix("x")
    learn(prefix, "cpu", 1001, 1001.0, 1001 * 8)
    learn(prefix, "cpu", 1, 3.0, 24)
    estimate = prefix.on["cpu"]
    assert (estimate.count, estimate.seconds, estimate.nbytes) == (501.5, 503.5, 4028.0)


def test_a_kind_that_changes_is_learned_anew() -> None:
    prefix = TaskPrefix("x")
    for _ in range(50):
        learn(prefix, "cpu", 100, 100.0, 0)
    for _ in range(50):
        learn(prefix, "cpu", 100, 1.0, 0)
    estimate = prefix.on["cpu"]
    assert estimate.seconds / estimate.count == pytest.approx(0.01, rel=0.2)


def test_the_scheduler_learns_from_what_finished() -> None:
    scheduler = Scheduler()
    scheduler.handle(WorkerJoined("a", Capacity({"cpu": 1, "io": 1}, {}, None, 0)), 0.0)
    tasks = [TaskSpec(("x", i), len) for i in range(3)] + [TaskSpec(("y", 0), len)]
    scheduler.handle(GraphSubmitted("c", 0, tasks, range(4)), 0.0)
    outcomes = [(0, 0, 0.0, 1.0, 10, 0), (3, 0, 1.0, 1.5, 7, 0), (1, 0, 2.0, 5.0, 30, 0), (2, 99, 0.0, 9.0, 9, 0)]
    scheduler.handle(TasksFinished("a", "cpu", outcomes), 1.0)
    learned = {
        name: {executor: (e.count, e.seconds, e.nbytes) for executor, e in prefix.on.items()}
        for name, prefix in scheduler.state.prefixes.items()
    }
    # The last outcome is of an attempt that nobody ordered.
    assert learned == {"x": {"cpu": (2, 4.0, 40)}, "y": {"cpu": (1, 0.5, 7)}}


def test_moving_takes_a_while_for_each_input_that_is_not_there() -> None:
    scheduler = Scheduler("round_robin")
    for name in "abd":
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": 1}, {}, None, 1)), 0.0)
    tasks = [TaskSpec("x", len), TaskSpec("y", len), TaskSpec("z", len), TaskSpec("s", len, (), None, [0, 1, 2])]
    scheduler.handle(GraphSubmitted("c", 0, tasks, [3]), 0.0)
    scheduler.handle(TasksFinished("a", "cpu", [(0, 0, 0.0, 1.0, int(BANDWIDTH), 0)]), 1.0)
    scheduler.handle(TasksFinished("b", "cpu", [(1, 0, 0.0, 1.0, 0, 0)]), 1.0)
    reader, workers = scheduler.state.tasks[3], scheduler.state.workers
    # 2 is being made on d, and of its size nothing is known.
    assert transfer_seconds(reader, workers["a"]) == pytest.approx(2 * LATENCY)
    assert transfer_seconds(reader, workers["b"]) == pytest.approx(2 * LATENCY + 1.0)
    assert transfer_seconds(reader, workers["d"]) == pytest.approx(2 * LATENCY + 1.0)
