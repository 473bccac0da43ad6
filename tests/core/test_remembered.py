"""Tables that forget what was not asked for in a long time."""

from __future__ import annotations

import random

import pytest

from hetsched.core import remembered
from hetsched.core.check import check
from hetsched.core.commands import RunTasks
from hetsched.core.events import GraphReleased, GraphSubmitted, TasksFinished, WorkerJoined
from hetsched.core.remembered import Remembered
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.worker.state import WorkerState


def test_what_was_used_last_is_kept() -> None:
    table: Remembered[int] = Remembered(3)
    for n in range(100):
        table[n] = n
        assert table.get(0) == 0
        assert [table.get(m) for m in range(max(0, n - 1), n + 1)] == list(range(max(0, n - 1), n + 1))
        assert len(table) <= 6
    assert table.get(1) is None


def test_it_reads_like_a_dict() -> None:
    table: Remembered[str] = Remembered(2)
    for name in ("a", "b", "d"):
        table[name] = name.upper()
    assert table.items() == [("a", "A"), ("b", "B"), ("d", "D")]
    assert list(table) == ["a", "b", "d"]
    assert table["a"] == "A"
    assert table.values() == ["B", "D", "A"]
    table["b"] = "again"
    assert table.items() == [("d", "D"), ("a", "A"), ("b", "again")]
    with pytest.raises(KeyError):
        table["e"]


def test_what_it_says_is_the_newest_whatever_was_asked() -> None:
    rng = random.Random(5)
    table: Remembered[int] = Remembered(10)
    true: dict[int, int] = {}
    for n in range(3000):
        name = rng.randint(0, 30)
        if rng.random() < 0.5:
            table[name] = true[name] = n
        found = table.get(name)
        assert found is None or found == true[name]
        assert len(set(table)) == len(table) <= 20


def test_kinds_of_tasks_and_their_demands_do_not_pile_up() -> None:
    """As in a scheduler that is up for weeks and whose clients make up new names every day."""
    scheduler = Scheduler()
    scheduler.state.prefixes = Remembered(50)
    scheduler.state.needs = Remembered(50)
    scheduler.handle(WorkerJoined("a", Capacity({"cpu": 1}, {"r": 1e9}, None, 0)), 0.0)
    for n in range(300):
        names = [f"kind{n}x", "common"]
        tasks = [TaskSpec(name, len, (), None, (), {"resources": {"r": n + 1}}) for name in names]
        (order,) = scheduler.handle(GraphSubmitted("c", n, tasks, [0, 1]), 0.0)
        assert isinstance(order, RunTasks)
        outcomes = [(task.task, 0, 0.0, 1.0, 8, 0) for task in order.tasks]
        scheduler.handle(TasksFinished("a", "cpu", outcomes), 0.0)
        check(scheduler.state)
        scheduler.handle(GraphReleased("c", n), 0.0)
    assert len(scheduler.state.prefixes) <= 100
    assert len(scheduler.state.needs) <= 100
    common = scheduler.state.prefixes["common"]
    assert common.on["cpu"].count == 300  # what is in use is not learned anew


def test_a_task_keeps_what_it_demands_though_the_table_has_forgotten_it() -> None:
    scheduler = Scheduler()
    scheduler.state.needs = Remembered(2)
    for n in range(20):
        tasks = [TaskSpec(f"x{n}", len, (), None, (), {"resources": {"r": n % 7 + 1}})]
        assert scheduler.handle(GraphSubmitted("c", n, tasks, [0]), 0.0) == []
        check(scheduler.state)
    (order,) = scheduler.handle(WorkerJoined("a", Capacity({"cpu": 1}, {"r": 9}, None, 0)), 0.0)
    assert isinstance(order, RunTasks)
    assert [task.task for task in order.tasks] == list(range(20))


def test_the_tables_of_a_scheduler_and_a_worker_are_of_that_kind() -> None:
    state = Scheduler().state
    tables = (state.prefixes, state.needs, WorkerState("a", {"cpu": 1}, {}).kinds)
    for table in tables:
        for n in range(3 * remembered.MOST_REMEMBERED):
            table[str(n)] = None  # type: ignore[call-overload, index]
        assert len(table) <= 2 * remembered.MOST_REMEMBERED
