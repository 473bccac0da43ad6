"""What fails only when it is made again; and that failures, and graphs that read each other, cost what they should."""

from __future__ import annotations

from typing import Any

import pytest

from hetsched.core.check import check
from hetsched.core.commands import Command, KeysFailed, KeysReady, RunTasks
from hetsched.core.events import (
    CapacityChanged,
    GraphExtended,
    GraphReleased,
    GraphSubmitted,
    InputsMissing,
    KeysReleased,
    TasksFailed,
    TasksFinished,
    WorkerJoined,
    WorkerLost,
)
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.errors import AnnotationError, ProtocolError


def spec(key: Any, *dependencies: int, **annotations: Any) -> TaskSpec:
    return TaskSpec(key, len, (), None, dependencies, annotations or None)


def capacity(pool: str | None = None) -> Capacity:
    return Capacity({"cpu": 1}, {}, pool, 2)


class Bench:
    """A scheduler that is checked after each event; all tasks ordered are finished by :meth:`finish`."""

    def __init__(self, *workers: str) -> None:
        self.scheduler = Scheduler("round_robin")
        self.orders: dict[int, tuple[str, int]] = {}
        self.told: list[KeysReady | KeysFailed] = []
        for name in workers:
            self(WorkerJoined(name, capacity()))

    def __call__(self, event: Any) -> list[Command]:
        commands = self.scheduler.handle(event, 1.0)
        check(self.scheduler.state)
        for command in commands:
            match command:
                case RunTasks(worker, tasks):
                    self.orders |= {order.task: (worker, order.attempt) for order in tasks}
                case KeysReady() | KeysFailed():
                    self.told.append(command)
        return commands

    def finish(self, *tasks: int) -> None:
        for task in tasks:
            worker, attempt = self.orders.pop(task)
            self(TasksFinished(worker, "cpu", [(task, attempt, 0.0, 1.0, 8, 0)]))

    def fail(self, task: int, error: Any = None) -> None:
        worker, attempt = self.orders.pop(task)
        self(TasksFailed(worker, "cpu", [(task, attempt, error, False)]))


def test_a_result_whose_input_failed_since_fails_when_it_is_lost() -> None:
    b = Bench("a", "b")
    b(GraphSubmitted("c", 0, [spec("x"), spec("y", 0), spec("z", 0), spec("after", 2)], [1, 2, 3]))
    b.finish(0)
    b.finish(1, 2, 3)
    holders = {p: who for said in b.told for p, _, who in said.ready}  # type: ignore[union-attr]
    assert holders[1] != holders[2]
    b(WorkerLost(holders[1][0], "gone"))
    b.told.clear()
    b.fail(0, "the file has gone")
    failed = [(said.failed, said.root, said.error) for said in b.told if isinstance(said, KeysFailed)]
    assert failed == [([1], 0, "the file has gone")]
    b.told.clear()
    b(WorkerLost(holders[2][0], "gone"))
    failed = [(said.failed, said.root, said.error) for said in b.told if isinstance(said, KeysFailed)]
    assert sorted(p for positions, _, _ in failed for p in positions) == [2] + ([3] if holders[3] == holders[2] else [])
    assert {error for _, _, error in failed} == {"the file has gone"}


@pytest.mark.parametrize("inputs", [0, 1])
def test_many_failures_are_not_each_a_new_plan(inputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []
    monkeypatch.setattr("hetsched.core.scheduler.replan", lambda *args: plans.append(args))
    b = Bench("a")
    tasks = [spec("load")] * inputs + [spec(("x", i), *range(inputs)) for i in range(50)]
    b(GraphSubmitted("c", 0, tasks, range(inputs, inputs + 50)))
    if inputs:
        b.finish(0)
    while b.orders:
        b.fail(min(b.orders))
    assert len(b.told) == 50
    assert plans == []
    assert b.scheduler.state.workers["a"].held == 0


def test_a_long_line_of_graphs_goes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Bench("a")
    plans = []
    n = 1500
    monkeypatch.setattr("hetsched.core.scheduler.replan", lambda *args: plans.append(args))
    for i in range(n):
        one = GraphSubmitted("c", i, [spec("x", *[-1] * bool(i))], [0], externals=[(i - 1, 0)] * bool(i))
        for command in b.scheduler.handle(one, 1.0):
            if isinstance(command, RunTasks):
                done = [(order.task, order.attempt, 0.0, 1.0, 8, 0) for order in command.tasks]
                b.scheduler.handle(TasksFinished("a", "cpu", done), 1.0)
        if i:
            b.scheduler.handle(KeysReleased("c", i - 1, [0]), 1.0)
    assert b.scheduler.state.workers["a"].held == 1
    assert len(b.scheduler.state.graphs) == n
    b(GraphReleased("c", n - 1))
    assert not b.scheduler.state.graphs
    assert plans == []


def test_an_open_graph_that_is_left_makes_what_its_readers_need_and_no_more() -> None:
    b = Bench("a")
    b(GraphSubmitted("c", 0, [spec("x"), spec("y"), spec("z", 1)], [0], total=9))
    b(GraphSubmitted("c", 1, [spec("r", -1)], [0], externals=[(0, 0)]))
    b(GraphReleased("c", 0))
    assert {ts.key: ts.phase.name for ts in b.scheduler.state.graphs["c", 0].tasks if ts.key != "x"} == {
        "y": "RELEASED", "z": "RELEASED"
    }  # fmt: skip
    b.finish(0)
    b.finish(9)
    b(GraphReleased("c", 1))
    assert not b.scheduler.state.graphs


# What only a liar says


def test_the_same_said_twice_counts_once() -> None:
    b = Bench("a")
    b(GraphSubmitted("c", 0, [spec("x"), spec("y"), spec("z")], [0, 1, 2]))
    b(KeysReleased("c", 0, [1, 1]))
    b(InputsMissing("a", [], [(0, 0), (0, 0)]))
    worker, attempt = b.orders[0]
    b(GraphSubmitted("c", 1, [spec("r", retries=5), spec("s", 0)], [0, 1]))
    b.finish(0, 2)
    worker, attempt = b.orders.pop(3)
    b(TasksFailed(worker, "cpu", [(3, attempt, "once", True), (3, attempt, "again", True)]))
    assert b.scheduler.state.tasks[3].retries_left == 4


def test_a_worker_may_change_its_pool() -> None:
    b = Bench("a")
    for pool in (None, "p", "q", "q", None, "p"):
        b(CapacityChanged("a", capacity(pool)))
        assert list(b.scheduler.state.pools) == ([pool] if pool else [])
    b(WorkerLost("a", "gone"))
    assert not b.scheduler.state.pools


def test_a_bad_part_of_a_graph_changes_nothing() -> None:
    b = Bench("a")
    b(GraphSubmitted("c", 0, [spec("x")], [0], total=3))
    with pytest.raises(AnnotationError):
        b(GraphExtended("c", 0, [spec("y", 0), spec("z", 0, retries=-1)], [1]))
    b(GraphExtended("c", 0, [spec("y", 0), spec("z", 0)], [1]))
    b(GraphReleased("c", 0))
    assert not b.scheduler.state.tasks


def test_a_graph_is_not_said_to_be_endless() -> None:
    b = Bench("a")
    with pytest.raises(ProtocolError, match="are allowed"):
        b(GraphSubmitted("c", 0, [spec("x")], [0], total=2**62))
    assert b.scheduler.state.next_id == 0


@pytest.mark.parametrize("key", [({}, 1), ({"a": ({},)},), {"a": 1}, ((({},),),), ()])
def test_a_key_need_not_be_one_that_can_be_hashed(key: Any) -> None:
    b = Bench("a")
    b(GraphSubmitted("c", 0, [spec(key)], [0]))
    b.finish(0)
    assert len(b.told) == 1
