"""The worker's mind: its answer to each event, claimed whole."""

from __future__ import annotations

import pytest

from hetsched.core.commands import CancelTasks, FreeKeys, RunTask, RunTasks
from hetsched.core.events import InputsMissing, ReplicasAdded, TasksFailed, TasksFinished
from hetsched.core.types import TaskSpec
from hetsched.worker.check import check
from hetsched.worker.instructions import (
    BatchExecuted,
    Drop,
    Execute,
    Fetch,
    KeysFetched,
    Reclaim,
    SlotRegained,
    SlotsChanged,
    SlotYielded,
    Stop,
    TasksReclaimed,
    Tell,
)
from hetsched.worker.state import WorkerState

SPEC = TaskSpec("x", len)


def tupled(value):
    """The same with every list in it a tuple, so that only what is said counts."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(tupled, value))
    return tuple(map(tupled, value)) if isinstance(value, (list, tuple)) else value


class Said(list):
    """What was answered, equal to a list of the same types with the same fields.

    Of two named tuples ``==`` compares the fields alone: ``Stop((1,)) == Drop((1,))``.
    """

    def __eq__(self, other):
        return named(self) == named(other)

    __hash__ = None


def named(value):
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value).__name__, *map(named, value)
    return tuple(map(named, value)) if isinstance(value, (list, tuple)) else value


class Bench:
    """A mind that is checked after each event and answers in tuples."""

    def __init__(self, resources=None, devices=0, **executors):
        self.mind = WorkerState("w", executors or {"cpu": 1}, resources or {}, devices)
        self.known(f=1e-5)

    def known(self, **seconds):
        """Let the mind have seen tasks of these prefixes, each as long as said."""
        for i, (prefix, length) in enumerate(seconds.items()):
            executor = next(iter(self.mind.slots.lanes))
            self(RunTasks("w", [order(-1 - i, prefix=prefix, executor=executor)]))
            self(BatchExecuted(max(self.mind.slots.batches), [(-1 - i, 0, 0.0, length, 8, 0)], [], []))
            self(FreeKeys("w", [-1 - i]))

    def __call__(self, event):
        answer = Said(tupled(instruction) for instruction in self.mind.handle(event, 0.0))
        check(self.mind)
        return answer

    def run(self, *orders):
        return self(RunTasks("w", orders))

    @property
    def last(self):
        """The number of the latest batch."""
        return max(self.mind.slots.batches)

    def executed(self, batch, *done, failed=(), left=(), missing=(), seconds=1e-5):
        outcomes = [ok(task, seconds) for task in done]
        return self(BatchExecuted(batch, outcomes, failed, left, missing))

    def assert_idle(self, *held):
        assert sorted(self.mind.jobs) == sorted(held)
        assert self.mind.slots.batches == {}
        assert all(lane.free == lane.slots for lane in self.mind.slots.lanes.values())
        assert self.mind.slots.available == self.mind.slots.total


def order(task, *inputs, prefix="f", executor="cpu", uses=0, attempt=0, rank=None, resources=(), holders=()):
    rank = task if rank is None else rank
    return RunTask(task, rank, SPEC, prefix, executor, inputs, uses, attempt, resources, holders)


def item(task, *inputs, drops=(), attempt=0):
    return task, attempt, SPEC, inputs, drops


def ok(task, seconds=1e-5, attempt=0):
    return task, attempt, 0.0, seconds, 8, 0


def finished(*tasks, seconds=1e-5, executor="cpu"):
    return Tell(TasksFinished("w", executor, tuple(ok(task, seconds) for task in tasks)))


# Running


def test_a_task_is_run_kept_and_freed() -> None:
    b = Bench()
    assert b.run(order(0)) == [Execute("cpu", 1, (item(0),))]
    assert b.executed(1, 0) == [finished(0)]
    b.assert_idle(0)
    assert b(FreeKeys("w", [0])) == [Drop((0,))]
    b.assert_idle()


def test_tasks_of_unknown_length_go_one_by_one() -> None:
    b = Bench()
    assert b.run(*(order(i, prefix="new") for i in range(3))) == [Execute("cpu", 1, (item(0),))]
    assert b.executed(1, 0) == [finished(0), Execute("cpu", 2, (item(1), item(2)))]


def test_tasks_of_known_length_go_together() -> None:
    b = Bench()
    assert b.run(*(order(i) for i in range(5))) == [Execute("cpu", 1, tuple(item(i) for i in range(5)))]


def test_a_chain_is_one_batch_with_its_drops() -> None:
    b = Bench()
    chain = [order(0, uses=1), order(1, 0, uses=1), order(2, 1)]
    items = (item(0), item(1, 0, drops=(0,)), item(2, 1, drops=(1,)))
    assert b.run(*chain) == [Execute("cpu", 1, items)]
    assert b.executed(1, 0, 1, 2) == [finished(0, 1, 2)]
    b.assert_idle(2)


def test_two_slots_share_what_is_ready() -> None:
    b = Bench(cpu=2)
    assert b.run(*(order(i) for i in range(5))) == [
        Execute("cpu", 1, (item(0), item(1), item(2))),
        Execute("cpu", 2, (item(3), item(4))),
    ]


def test_smaller_ranks_go_first() -> None:
    b = Bench()
    assert b.run(order(0, rank=3), order(1, rank=1), order(2, rank=2)) == [
        Execute("cpu", 1, (item(1), item(2), item(0)))
    ]


def test_executors_do_not_wait_for_each_other() -> None:
    b = Bench({"GPU": 1.0}, cpu=1, gpu=1, io=1)
    gpu = {"executor": "gpu", "resources": (("GPU", 1.0),)}
    assert b.run(order(0), order(1, **gpu), order(2, executor="io"), order(3, **gpu)) == [
        Execute("cpu", 1, (item(0),)),
        Execute("gpu", 2, (item(1), item(3))),
        Execute("io", 3, (item(2),)),
    ]
    assert b.executed(2, 1, 3) == [finished(1, 3, executor="gpu")]


def test_a_result_of_another_executor_starts_its_reader() -> None:
    b = Bench(cpu=1, io=1)
    assert b.run(order(0, executor="io", uses=1), order(1, 0)) == [Execute("io", 1, (item(0),))]
    assert b.executed(1, 0) == [finished(0, executor="io"), Execute("cpu", 2, (item(1, 0, drops=(0,)),))]


# Results that go untold


def test_a_result_goes_with_its_last_reader() -> None:
    b = Bench()
    b.run(order(0, uses=3), order(1, 0), order(2, 0), order(3, 0, prefix="new"))
    assert b.executed(1, 0, 1, 2) == [finished(0, 1, 2), Execute("cpu", 2, (item(3, 0, drops=(0,)),))]
    assert b.executed(2, 3) == [finished(3)]
    b.assert_idle(1, 2, 3)


def test_readers_in_several_batches_are_counted_together() -> None:
    b = Bench(cpu=1)
    b.known(slow=1.0)
    readers = [order(i, 0, prefix="slow") for i in (1, 2)]
    assert b.run(order(0, uses=2), *readers) == [Execute("cpu", b.last, (item(0),))]
    n = b.last
    assert b.executed(n, 0) == [finished(0), Execute("cpu", n + 1, (item(1, 0),))]
    assert b.executed(n + 1, 1, seconds=1.0) == [
        finished(1, seconds=1.0),
        Execute("cpu", n + 2, (item(2, 0, drops=(0,)),)),
    ]
    assert b.executed(n + 2, 2, seconds=1.0) == [finished(2, seconds=1.0)]
    b.assert_idle(1, 2)


def test_two_batches_at_once_leave_the_drop_to_the_mind() -> None:
    b = Bench(cpu=2)
    b.known(slow=1.0)
    b.run(order(0, uses=2), *(order(i, 0, prefix="slow") for i in (1, 2)))
    n = b.last
    assert b.executed(n, 0) == [
        finished(0),
        Execute("cpu", n + 1, (item(1, 0),)),
        Execute("cpu", n + 2, (item(2, 0),)),
    ]
    assert b.executed(n + 2, 2, seconds=1.0) == [finished(2, seconds=1.0)]
    assert b.executed(n + 1, 1, seconds=1.0) == [Drop((0,)), finished(1, seconds=1.0)]
    b.assert_idle(1, 2)


def test_a_result_without_uses_stays_until_freed() -> None:
    b = Bench()
    b.run(order(0), order(1, 0))
    b.executed(1, 0, 1)
    b.assert_idle(0, 1)
    assert b(FreeKeys("w", [0, 1, 2])) == [Drop((0, 1))]
    b.assert_idle()


# Slots


def test_an_idle_slot_takes_from_a_full_batch() -> None:
    b = Bench(cpu=2)
    assert b.run(*(order(i) for i in range(5))) == [
        Execute("cpu", 1, (item(0), item(1), item(2))),
        Execute("cpu", 2, (item(3), item(4))),
    ]
    assert b.executed(2, 3, 4) == [finished(3, 4), Reclaim(1, 1)]
    assert b(TasksReclaimed(1, [2])) == [Execute("cpu", 3, (item(2),))]
    # A batch with one task left is not asked.
    assert b.executed(3, 2) == [finished(2), Reclaim(1, 1)]
    assert b(TasksReclaimed(1, [])) == []
    assert b.executed(1, 0, 1) == [finished(0, 1)]
    b.assert_idle(0, 1, 2, 3, 4)


def test_an_answer_to_a_question_that_is_over_changes_nothing() -> None:
    b = Bench(cpu=2)
    b.run(*(order(i) for i in range(5)))
    b.executed(2, 3, 4)
    assert b.executed(1, 0, 1, 2) == [finished(0, 1, 2)]
    assert b(TasksReclaimed(1, [])) == []
    b.assert_idle(0, 1, 2, 3, 4)


def test_what_waits_for_its_batch_is_not_shared_out() -> None:
    b = Bench(cpu=2)
    assert b.run(order(0, uses=1), order(1, 0, uses=1), order(2, 1)) == [
        Execute("cpu", 1, (item(0), item(1, 0, drops=(0,)), item(2, 1, drops=(1,))))
    ]


def test_what_a_slot_hands_back_goes_on() -> None:
    b = Bench()
    b.run(*(order(i) for i in range(3)), order(3, 2))
    assert b.executed(1, 0, left=[1, 2, 3]) == [
        finished(0),
        Execute("cpu", 2, (item(1), item(2), item(3, 2))),
    ]
    assert b.executed(2, 1, 2, left=[3]) == [finished(1, 2), Execute("cpu", 3, (item(3, 2),))]


def test_a_task_that_waits_gives_its_slot_up() -> None:
    b = Bench()
    assert b.run(order(0, prefix="new")) == [Execute("cpu", 1, (item(0),))]
    assert b(SlotYielded(1)) == []
    assert b.run(order(1, prefix="new")) == [Execute("cpu", 2, (item(1),))]
    assert b(SlotRegained(1)) == []
    assert b.mind.slots.lanes["cpu"].free == -1
    # One slot too many is in use, so nothing new starts until there is room.
    assert b.run(order(2, prefix="new")) == []
    assert b.executed(2, 1) == [finished(1)]
    assert b.executed(1, 0) == [finished(0), Execute("cpu", 3, (item(2),))]
    assert b.executed(3, 2) == [finished(2)]
    b.assert_idle(0, 1, 2)


def test_the_rest_of_a_batch_that_waits_is_taken_back() -> None:
    b = Bench()
    b.run(*(order(i) for i in range(3)))
    assert b(SlotYielded(1)) == [Reclaim(1, 3)]
    assert b(TasksReclaimed(1, [2, 1])) == [Execute("cpu", 2, (item(1), item(2)))]
    # It may end without having gone on.
    assert b.executed(1, 0) == [finished(0)]
    assert b.executed(2, 1, 2) == [finished(1, 2)]
    b.assert_idle(0, 1, 2)


def test_resources_come_back_while_a_task_waits() -> None:
    b = Bench({"m": 1.0}, cpu=2)
    m = (("m", 1.0),)
    assert b.run(order(0, resources=m), order(1, resources=m, prefix="new")) == [Execute("cpu", 1, (item(0),))]
    assert b(SlotYielded(1)) == [Execute("cpu", 2, (item(1),))]
    assert b(SlotRegained(1)) == []
    assert b.mind.slots.available == {"m": -1.0}
    assert b.executed(2, 1) == [finished(1)]
    assert b.executed(1, 0) == [finished(0)]
    b.assert_idle(0, 1)


def test_slots_may_be_added_and_taken() -> None:
    b = Bench()
    assert b(SlotsChanged("extra", 2)) == []
    assert b.run(order(0, executor="extra", prefix="new"), order(1, executor="extra", prefix="new")) == [
        Execute("extra", 1, (item(0),)),
        Execute("extra", 2, (item(1),)),
    ]
    assert b(SlotsChanged("extra", 1)) == []
    assert b.run(order(2, executor="extra", prefix="newer")) == []
    assert b.executed(1, 0) == [finished(0, executor="extra")]
    assert b.executed(2, 1) == [finished(1, executor="extra"), Execute("extra", 3, (item(2),))]
    assert b.run(order(3, executor="extra", prefix="newest")) == []
    assert b(SlotsChanged("extra", 2)) == [Execute("extra", 4, (item(3),))]


# Resources


def test_what_is_in_use_is_waited_for_and_others_pass() -> None:
    b = Bench({"m": 2.0}, cpu=3)
    tasks = [
        order(0, resources=(("m", 1.0),), prefix="n0"),
        order(1, resources=(("m", 2.0),), prefix="n1"),
        order(2, prefix="n2"),
        order(3, resources=(("m", 1.0),), prefix="n3"),
    ]
    assert b.run(*tasks) == [
        Execute("cpu", 1, (item(0),)),
        Execute("cpu", 2, (item(2),)),
        Execute("cpu", 3, (item(3),)),
    ]
    assert b.mind.slots.available == {"m": 0.0}
    assert b.executed(1, 0) == [finished(0)]
    assert b.executed(3, 3) == [finished(3), Execute("cpu", 4, (item(1),))]
    assert b.executed(4, 1) == [finished(1)]
    assert b.executed(2, 2) == [finished(2)]
    b.assert_idle(0, 1, 2, 3)


def test_a_batch_takes_the_same_resources_throughout() -> None:
    b = Bench({"m": 1.0}, cpu=1)
    m = (("m", 1.0),)
    assert b.run(order(0, resources=m), order(1, resources=m), order(2), order(3, resources=m)) == [
        Execute("cpu", 1, (item(0), item(1)))
    ]
    assert b.executed(1, 0, 1) == [finished(0, 1), Execute("cpu", 2, (item(2),))]
    assert b.executed(2, 2) == [finished(2), Execute("cpu", 3, (item(3),))]


# Putting down


def test_a_task_that_waits_for_a_slot_is_just_forgotten() -> None:
    b = Bench()
    b.run(order(0, prefix="new"), order(1), order(2, 1))
    assert b(CancelTasks("w", [1, 2])) == [Drop((1, 2))]
    assert b.executed(1, 0) == [finished(0)]
    b.assert_idle(0)


def test_a_task_in_a_batch_is_asked_to_stop() -> None:
    b = Bench()
    b.run(order(0), order(1), order(2))
    assert b(CancelTasks("w", [0, 1])) == [Stop((0, 1)), Drop((0, 1))]
    assert b.mind.jobs.keys() == {2}
    # The first had run already, and its result is not wanted; the second was stopped in time.
    assert b.executed(1, 0, 2, left=[1]) == [Drop((0,)), finished(0, 2)]
    b.assert_idle(2)


def test_an_error_of_a_task_that_was_cancelled_is_not_told() -> None:
    b = Bench()
    b.run(order(0))
    b(CancelTasks("w", [0]))
    assert b.executed(1, failed=[(0, 0, "stopped", False)]) == []
    b.assert_idle()


def test_a_result_may_be_cancelled_too() -> None:
    b = Bench()
    b.run(order(0))
    b.executed(1, 0)
    assert b(CancelTasks("w", [0])) == [Drop((0,))]
    b.assert_idle()


def test_what_is_not_known_is_cancelled_and_freed_in_silence() -> None:
    b = Bench()
    assert b(CancelTasks("w", [7])) == []
    assert b(FreeKeys("w", [7])) == []
    b.assert_idle()


def test_a_cancelled_task_may_be_ordered_anew_while_its_slot_is_at_it() -> None:
    b = Bench(cpu=2)
    b.run(order(0))
    assert b(CancelTasks("w", [0])) == [Stop((0,)), Drop((0,))]
    assert b.run(order(0, attempt=1)) == [Execute("cpu", 2, (item(0, attempt=1),))]
    assert b.executed(1, left=[0]) == []
    assert b(BatchExecuted(2, [ok(0, attempt=1)], [], [])) == [Tell(TasksFinished("w", "cpu", (ok(0, attempt=1),)))]
    b.assert_idle(0)


def test_the_inputs_of_a_cancelled_reader_stay_until_freed() -> None:
    b = Bench()
    b.run(order(0, uses=1), order(1, 0, executor="cpu", prefix="new"))
    assert b(CancelTasks("w", [1])) == [Drop((1,))]
    assert b.executed(1, 0) == [finished(0)]
    b.assert_idle(0)
    assert b(FreeKeys("w", [0])) == [Drop((0,))]


# Errors


def test_an_error_is_told_and_its_readers_wait() -> None:
    b = Bench()
    b.run(order(0), order(1, 0))
    assert b.executed(1, failed=[(0, 0, "bad", True)], left=[1]) == [
        Drop((0,)),
        Tell(TasksFailed("w", "cpu", ((0, 0, "bad", True),))),
    ]
    # A new order revives them,
    assert b.run(order(0, attempt=1)) == [Execute("cpu", 2, (item(0, attempt=1), item(1, 0)))]
    assert b(BatchExecuted(2, [ok(0, attempt=1), ok(1)], [], [])) == [
        Tell(TasksFinished("w", "cpu", (ok(0, attempt=1), ok(1))))
    ]
    b.assert_idle(0, 1)


def test_readers_of_a_task_that_failed_for_good_are_cancelled() -> None:
    b = Bench()
    b.run(order(0), order(1, 0))
    b.executed(1, failed=[(0, 0, "bad", True)], left=[1])
    assert b(CancelTasks("w", [1])) == [Drop((1,))]
    b.assert_idle()


def test_an_input_of_a_task_that_failed_is_kept_for_the_next_attempt() -> None:
    b = Bench()
    b.run(order(0, uses=1), order(1, 0))
    assert b.executed(1, 0, failed=[(1, 0, "bad", True)]) == [
        Drop((1,)),
        finished(0),
        Tell(TasksFailed("w", "cpu", ((1, 0, "bad", True),))),
    ]
    b.assert_idle(0)
    (execute,) = b.run(order(1, 0, attempt=1))
    assert (execute.batch, execute.items[0][:4]) == (2, item(1, 0, attempt=1)[:4])


# Results of others


def test_an_input_is_fetched_and_told() -> None:
    b = Bench()
    assert b.run(order(1, 0, holders=((0, ("p", "q")),))) == [Fetch("p", (0,))]
    assert b(KeysFetched("p", [0], [])) == [
        Tell(ReplicasAdded("w", (0,))),
        Execute("cpu", 1, (item(1, 0),)),
    ]
    assert b.executed(1, 1) == [finished(1)]
    b.assert_idle(0, 1)
    assert b(FreeKeys("w", [0])) == [Drop((0,))]


def test_another_holder_is_asked_where_one_has_it_not() -> None:
    b = Bench()
    b.run(order(2, 0, 1, holders=((0, ("p", "q")), (1, ("p",)))))
    assert b(KeysFetched("p", [1], [0])) == [Tell(ReplicasAdded("w", (1,))), Fetch("q", (0,))]
    assert b(KeysFetched("q", [0], [])) == [Tell(ReplicasAdded("w", (0,))), Execute("cpu", 1, (item(2, 0, 1),))]


def test_readers_of_what_nobody_has_are_put_down() -> None:
    b = Bench()
    assert b.run(order(1, 0, holders=((0, ("p",)),), attempt=3), order(2, 1), order(3, 0, holders=((0, ("p",)),))) == [
        Fetch("p", (0,))
    ]
    assert b(KeysFetched("p", [], [0])) == [Tell(InputsMissing("w", (0,), ((1, 3), (3, 0))))]
    # 2 waits for its input, which may be ordered anew here, or else it is cancelled.
    assert b(CancelTasks("w", [2])) == [Drop((2,))]
    b.assert_idle()


def test_an_input_taken_to_be_here_that_is_not_is_told_at_once() -> None:
    b = Bench()
    assert b.run(order(1, 0)) == [Tell(InputsMissing("w", (0,), ((1, 0),)))]
    b.assert_idle()


def test_an_input_found_missing_by_a_slot_is_told() -> None:
    b = Bench()
    b.run(order(0))
    b.executed(1, 0)
    b.run(order(1, 0), order(2, 0))
    answer = b.executed(2, left=[1, 2], missing=[0, 0])
    assert type(answer[-1].message) is InputsMissing
    assert answer[-1].message.tasks == ((1, 0), (2, 0))
    assert set(answer[-1].message.inputs) == {0}
    b.assert_idle()


def test_a_copy_that_nobody_needs_any_more_is_dropped() -> None:
    b = Bench()
    b.run(order(1, 0, holders=((0, ("p",)),)))
    assert b(CancelTasks("w", [1])) == [Drop((1,))]
    assert b(KeysFetched("p", [0], [])) == [Drop((0,))]
    b.assert_idle()


def test_a_copy_of_what_is_made_here_is_not_told() -> None:
    b = Bench()
    b.run(order(1, 0, holders=((0, ("p",)),)))
    assert b.run(order(0, attempt=1)) == [Execute("cpu", 1, (item(0, attempt=1), item(1, 0)))]
    assert b(KeysFetched("p", [0], [])) == []


def test_a_place_is_kept_for_a_maker_that_is_freed_and_ordered_anew() -> None:
    b = Bench()
    b.run(order(0), order(1, 0, prefix="new"))
    assert b(CancelTasks("w", [0])) == [Stop((0,)), Drop((0,))]
    assert b.executed(1, left=[0]) == []
    assert b.run(order(0, attempt=1)) == [Execute("cpu", 2, (item(0, attempt=1),))]
    assert b(BatchExecuted(2, [ok(0, attempt=1)], [], [])) == [
        Tell(TasksFinished("w", "cpu", (ok(0, attempt=1),))),
        Execute("cpu", 3, (item(1, 0),)),
    ]


# Messages that cross


def test_an_input_stays_for_a_reader_that_is_ordered_a_second_time() -> None:
    b = Bench()
    b.run(order(0, uses=2), order(1, 0), order(2, 0, prefix="new"))
    assert b.executed(1, 0, 1) == [finished(0, 1), Execute("cpu", 2, (item(2, 0, drops=(0,)),))]
    # A peer could not get 1, so it is forgotten and made again.
    assert b(FreeKeys("w", [1])) == [Drop((1,))]
    assert b.run(order(1, 0, attempt=1)) == []
    # The slot was told to drop 0 after 2, before it was known that 1 needs it: now it is missing.
    said = b.executed(2, 2)
    assert sorted(map(named, said)) == sorted(
        map(named, [Drop((0,)), finished(2), Tell(InputsMissing("w", (0,), ((1, 1),)))])
    )
    b.assert_idle(2)


def test_an_input_that_a_slot_drops_is_missed_by_a_reader_ordered_meanwhile() -> None:
    b = Bench()
    assert b.run(order(0, uses=2), order(1, 0), order(2, 0)) == [
        Execute("cpu", 1, (item(0), item(1, 0), item(2, 0, drops=(0,))))
    ]
    b(CancelTasks("w", [1]))
    assert b.run(order(1, 0, attempt=1)) == []
    said = b.executed(1, 0, 2, left=[1])
    assert sorted(map(named, said)) == sorted(
        map(named, [Drop((0,)), finished(0, 2), Tell(InputsMissing("w", (0,), ((1, 1),)))])
    )
    b.assert_idle(2)


def test_what_a_cancelled_task_missed_is_not_missing() -> None:
    b = Bench()
    b.run(order(0))
    b.executed(1, 0)
    b.run(order(1, 0))
    b(CancelTasks("w", [1]))
    b(FreeKeys("w", [0]))
    b.run(order(2, 0, holders=((0, ("p",)),)))
    b(KeysFetched("p", [0], []))
    # The slot came to 1 after 0 was dropped and before it was fetched.
    assert b.executed(2, left=[1], missing=[0]) == [Execute("cpu", 3, (item(2, 0),))]


def test_what_an_earlier_attempt_made_goes_with_the_later_one() -> None:
    b = Bench()
    b.run(order(1))
    b(CancelTasks("w", [1]))
    b.run(order(1, attempt=1))
    # The first attempt had run already; its result may stay for the second.
    assert b.executed(1, 1) == [finished(1), Execute("cpu", 2, (item(1, attempt=1),))]
    said = [*b(CancelTasks("w", [1])), *b.executed(2, left=[1])]
    assert {named(Stop((1,))), named(Drop((1,)))} <= set(map(named, said))
    b.assert_idle()


def test_the_check_sees_what_is_wrong() -> None:
    spoils = [
        lambda m: setattr(m.jobs[1], "waiting", 0),
        lambda m: m.jobs[0].dependents.clear(),
        lambda m: setattr(m.slots.lanes["cpu"], "free", 1),
        lambda m: m.slots.batches.clear(),
        lambda m: m.jobs.pop(0),
    ]
    for spoil in spoils:
        b = Bench()
        b.run(order(0, prefix="new"), order(1, 0))
        spoil(b.mind)
        with pytest.raises(AssertionError):
            check(b.mind)
