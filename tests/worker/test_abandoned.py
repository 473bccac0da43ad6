"""Slots that are busy with cancelled tasks: what is announced of them, and what is put down."""

from __future__ import annotations

import threading

import pytest
from worker.test_state import Bench, finished, item, ok, order

from hetsched.core.commands import CancelTasks, RunTasks
from hetsched.core.events import CapacityChanged, InputsMissing, TasksFinished, TasksReturned
from hetsched.core.types import Capacity, TaskSpec
from hetsched.worker.engine import Engine
from hetsched.worker.instructions import (
    Announce,
    BatchExecuted,
    Drop,
    Execute,
    PatienceEnded,
    Reclaim,
    SlotRegained,
    SlotYielded,
    TasksReclaimed,
    Tell,
)
from hetsched.worker.sizes import Measure
from hetsched.worker.standing import Standing


def stuck(b, task=0, executor="cpu", **said):
    """Have a slot run a task that is cancelled; the number of its batch."""
    b.run(order(task, prefix="new", executor=executor, **said))
    batch = b.last
    b(CancelTasks("w", [task]))
    return batch


def returned(*tasks):
    return Tell(TasksReturned("w", tuple((task, 0) for task in tasks)))


def test_a_slot_that_goes_on_with_a_cancelled_task_is_announced_until_it_ends() -> None:
    b = Bench()
    batch = stuck(b)
    assert b(PatienceEnded()) == [Announce((("cpu", 1),))]
    assert b(PatienceEnded()) == []
    assert b.executed(batch, 0) == [Drop((0,)), finished(0), Announce(())]
    b.assert_idle()
    assert b(PatienceEnded()) == []


def test_a_task_that_ends_in_time_is_not_announced() -> None:
    b = Bench()
    batch = stuck(b)
    b.executed(batch, 0)
    assert b(PatienceEnded()) == []


def test_a_task_that_is_wanted_is_not_looked_at() -> None:
    b = Bench()
    b.run(order(0, prefix="new"), order(1))
    assert b(PatienceEnded()) == []


def test_what_waits_for_the_slot_is_put_down() -> None:
    b = Bench()
    batch = stuck(b)
    b.run(order(1), order(2), order(3, 1))  # the last waits for what another slot was to make
    assert b(PatienceEnded()) == [Announce((("cpu", 1),)), returned(1, 2)]
    assert b(CancelTasks("w", [3])) == [Drop((3,))]  # as the scheduler does, since its input is not coming
    b.executed(batch, 0)
    b.assert_idle()


def test_what_comes_while_all_slots_are_taken_is_put_down_at_once() -> None:
    b = Bench()
    batch = stuck(b)
    b(PatienceEnded())
    assert b.run(order(1)) == [returned(1)]
    assert b.run(order(0, attempt=1)) == [Drop((0,)), Tell(TasksReturned("w", ((0, 1),)))]
    assert b.executed(batch, 0) == [Drop((0,)), finished(0), Announce(())]
    b.assert_idle()
    assert b.run(order(2)) == [Execute("cpu", b.last, (item(2),))]


def test_what_becomes_ready_while_all_slots_are_taken_is_put_down() -> None:
    b = Bench(cpu=1, io=1)
    b.run(order(1, executor="io", prefix="new"), order(2, 1))
    io = b.last
    stuck(b)
    assert b(PatienceEnded()) == [Announce((("cpu", 1),))]
    assert b(BatchExecuted(io, [ok(1)], [], [])) == [finished(1, executor="io"), returned(2)]


def test_while_another_slot_is_left_tasks_wait_for_that_one() -> None:
    b = Bench(cpu=2)
    batch = stuck(b)
    b.run(order(1, prefix="new"), order(2, prefix="new"))
    other = b.last
    assert b(PatienceEnded()) == [Announce((("cpu", 1),))]
    assert b.run(order(3)) == []
    b(CancelTasks("w", [1]))
    assert b(PatienceEnded()) == [Announce((("cpu", 2),)), returned(2, 3)]
    assert b.executed(other, 1) == [Drop((1,)), finished(1), Announce((("cpu", 1),))]
    assert b.executed(batch, 0) == [Drop((0,)), finished(0), Announce(())]
    b.assert_idle()


def test_slots_are_counted_by_executor() -> None:
    b = Bench(cpu=1, gpu=1, io=1)
    stuck(b)
    stuck(b, 1, "gpu")
    b.run(order(2, executor="io"))
    assert b(PatienceEnded()) == [Announce((("cpu", 1), ("gpu", 1)))]
    assert b.run(order(3, executor="io"), order(4, executor="gpu")) == [returned(4)]


def test_one_that_waits_inside_takes_a_slot_when_it_goes_on() -> None:
    b = Bench()
    batch = stuck(b)
    b(SlotYielded(batch))
    assert b(PatienceEnded()) == []
    b(SlotRegained(batch))
    assert b(PatienceEnded()) == [Announce((("cpu", 1),))]
    assert b(SlotYielded(batch)) == [Announce(())]
    assert b(SlotRegained(batch)) == [Announce((("cpu", 1),))]
    assert b.executed(batch, 0) == [Drop((0,)), finished(0), Announce(())]


def test_what_was_not_begun_behind_it_is_taken_back_first() -> None:
    b = Bench()
    b.run(order(0), order(1), order(2))
    b(CancelTasks("w", [0, 1]))
    assert b(PatienceEnded()) == [Reclaim(1, 3)]
    assert b(TasksReclaimed(1, [2, 1])) == []
    assert b(PatienceEnded()) == [Announce((("cpu", 1),)), returned(2)]
    assert b.executed(1, 0) == [Drop((0,)), finished(0), Announce(())]
    b.assert_idle()


def test_a_batch_that_is_at_a_task_that_is_wanted_is_left_alone() -> None:
    b = Bench()
    b.run(order(0), order(1), order(2))
    b(CancelTasks("w", [0, 2]))
    b(PatienceEnded())
    b(TasksReclaimed(1, [2]))
    assert b(PatienceEnded()) == []
    assert b.executed(1, 0, 1) == [Drop((0,)), finished(0, 1)]
    b.assert_idle(1)


def test_what_the_batch_had_run_before_is_put_down_rather_than_waited_for() -> None:
    b = Bench(cpu=1, io=1)
    b.run(order(0), order(1), order(2, 0, executor="io"))
    b(CancelTasks("w", [1]))
    assert b(PatienceEnded()) == [Reclaim(1, 2)]
    assert b(TasksReclaimed(1, [])) == []
    assert b(PatienceEnded()) == [Announce((("cpu", 1),)), returned(0)]
    b(CancelTasks("w", [2]))
    # It was done after all, and is not wanted any more; those who were told to do it again have its next attempt.
    assert b.executed(1, 0, 1) == [Drop((0, 1)), finished(0, 1), Announce(())]
    b.assert_idle()


def test_an_input_that_was_dropped_behind_the_last_reader_is_found_missing() -> None:
    b = Bench()
    b.run(order(0, uses=1))
    b.executed(1, 0)
    b.run(order(1, 0), order(2))
    b(CancelTasks("w", [2]))
    b(PatienceEnded())
    b(TasksReclaimed(2, []))
    b(PatienceEnded())
    b.executed(2, 1, 2)
    assert b.run(order(1, 0, attempt=1)) == [Execute("cpu", 3, (item(1, 0, attempt=1),))]
    assert b.executed(3, left=[1], missing=[0]) == [Tell(InputsMissing("w", (0,), ((1, 1),)))]
    b.assert_idle()


# With threads


def test_an_engine_announces_what_its_threads_go_on_with() -> None:
    begun, gate, freed = threading.Event(), threading.Event(), threading.Event()

    def stay():
        begun.set()
        assert gate.wait(20)

    said = []

    def announce(taken):
        said.append(taken)
        if not taken:
            freed.set()

    engine = Engine("w", {"cpu": 1}, {}, Measure(), said.append, lambda: None, announce=announce)
    engine.order(RunTasks("w", [order(0)._replace(spec=TaskSpec("stays", stay)), order(1)]))
    assert begun.wait(20)
    engine.look()
    assert said == []
    engine.order(CancelTasks("w", [0]))
    engine.look()
    assert said == [{"cpu": 1}, TasksReturned("w", [(1, 0)])]
    gate.set()
    assert freed.wait(20)
    assert [type(message) for message in said[2:]] == [TasksFinished, dict]
    engine.close()


# What a worker says of itself


@pytest.fixture
def said():
    return []


@pytest.fixture
def standing(said):
    return Standing("w", Capacity({"cpu": 2, "io": 4}, {"m": 1.0}, "A"), said.append)


def changed(cpu, io):
    return CapacityChanged("w", Capacity({"cpu": cpu, "io": io}, {"m": 1.0}, "A"))


def test_slots_that_are_taken_are_said_to_be_fewer(standing, said) -> None:
    standing.take({"cpu": 1})
    standing.take({"cpu": 1})
    standing.take({"cpu": 3, "io": 1})
    standing.take({})
    assert said == [changed(1, 4), changed(0, 3), changed(2, 4)]


def test_a_worker_that_has_paused_has_none_whatever_else(standing, said) -> None:
    standing.pause(False)
    standing.take({"io": 1})
    standing.pause(True)
    standing.take({"cpu": 1})
    standing.pause(False)
    assert said == [changed(2, 3), changed(0, 0), changed(1, 4)]


def test_one_that_leaves_says_nothing(standing, said) -> None:
    standing.leave()
    standing.take({"cpu": 1})
    standing.pause(True)
    assert said == []
