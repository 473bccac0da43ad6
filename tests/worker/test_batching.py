"""What goes into a batch, and what is dropped after each of its tasks.

The mind cuts the batches; these tests hand it orders and look at the first batch that comes out.
"""

from __future__ import annotations

import random

import pytest

from hetsched.core.commands import FreeKeys, RunTask, RunTasks
from hetsched.core.types import TaskSpec
from hetsched.worker.batching import BATCH_SECONDS, BATCH_TASKS
from hetsched.worker.check import check
from hetsched.worker.instructions import BatchExecuted, Execute, TasksReclaimed
from hetsched.worker.state import WorkerState

SPEC = TaskSpec("x", len)
FAST, HALF, SLOW = BATCH_SECONDS / 100_000, BATCH_SECONDS * 0.45, BATCH_SECONDS * 2


def order(task, *inputs, prefix="fast", executor="cpu", uses=0, rank=None, resources=()):
    return RunTask(task, task if rank is None else rank, SPEC, prefix, executor, inputs, uses, 0, resources)


def a_mind(slots=1, **lengths):
    """A worker's mind that has seen one task of each prefix."""
    mind = WorkerState("w", {"cpu": slots, "io": 1}, {"m": 9.0})
    for i, (prefix, seconds) in enumerate({"fast": FAST, "half": HALF, "slow": SLOW, **lengths}.items()):
        mind.handle(RunTasks("w", [order(-1 - i, prefix=prefix)]), 0.0)
        mind.handle(BatchExecuted(i, [(-1 - i, 0, 0.0, seconds, 8, 0)], [], []), 0.0)
    mind.handle(FreeKeys("w", [-1, -2, -3, -4]), 0.0)
    return mind


def batches(mind, *orders):
    """The tasks of each batch that comes of these orders."""
    out = mind.handle(RunTasks("w", orders), 0.0)
    check(mind)
    return [[item[0] for item in execute.items] for execute in out if isinstance(execute, Execute)]


def drops(mind, *orders):
    """What is dropped after each task of the first batch."""
    out = mind.handle(RunTasks("w", orders), 0.0)
    check(mind)
    (execute,) = [instruction for instruction in out if isinstance(instruction, Execute)]
    return {item[0]: list(item[4]) for item in execute.items if item[4]}


def test_a_batch_holds_a_millisecond_of_work() -> None:
    assert batches(a_mind(), *(order(i, prefix="half") for i in range(5))) == [[0, 1]]
    assert batches(a_mind(), *(order(i, prefix="slow") for i in range(5))) == [[0]]
    assert batches(a_mind(), *(order(i, prefix="new") for i in range(5))) == [[0]]
    assert batches(a_mind(), *(order(i) for i in range(5))) == [[0, 1, 2, 3, 4]]


def test_a_task_that_does_not_fit_waits_for_its_own_batch() -> None:
    tasks = [order(0), order(1, prefix="slow"), order(2)]
    assert batches(a_mind(), *tasks) == [[0]]
    assert batches(a_mind(slots=2), *tasks) == [[0], [1]]
    assert batches(a_mind(), order(0), order(1, prefix="new"), order(2)) == [[0]]


def test_a_batch_is_bounded_in_number() -> None:
    (first,) = batches(a_mind(), *(order(i) for i in range(BATCH_TASKS + 10)))
    assert first == list(range(BATCH_TASKS))


def test_a_chain_stays_in_one_slot() -> None:
    assert batches(a_mind(slots=4), *(order(i, *([i - 1] if i else [])) for i in range(6))) == [[0, 1, 2, 3, 4, 5]]


def test_what_becomes_ready_is_taken_first() -> None:
    loads_and_sums = [
        order(0, rank=0), order(1, rank=1), order(2, 0, 1, rank=2),
        order(3, rank=3), order(4, rank=4), order(5, 3, 4, rank=5),
    ]  # fmt: skip
    assert batches(a_mind(), *loads_and_sums) == [[0, 1, 2, 3, 4, 5]]
    # Of lower rank than what is ready it waits its turn.
    assert batches(a_mind(), order(0, rank=0), order(1, rank=5), order(2, 0, rank=9)) == [[0, 2, 1]]


def test_a_reader_in_another_lane_or_with_other_resources_is_not_in_it() -> None:
    m = (("m", 1.0),)
    assert batches(a_mind(), order(0), order(1, 0, executor="io"), order(2, 0)) == [[0, 2]]
    assert batches(a_mind(), order(0), order(1, 0, resources=m), order(2, 0)) == [[0, 2]]
    assert batches(a_mind(), order(0, resources=m), order(1, 0, resources=m), order(2)) == [[0, 1]]


def test_a_reader_of_something_outside_is_not_in_it() -> None:
    mind = a_mind(slots=2)
    assert batches(mind, order(0, prefix="new")) == [[0]]
    assert batches(mind, order(1), order(2, 0, 1), order(3, 1)) == [[1, 3]]


def test_more_slots_than_tasks() -> None:
    assert batches(a_mind(slots=4), *(order(i, prefix="slow") for i in range(3))) == [[0], [1], [2]]


@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_each_task_is_in_one_batch_and_all_slots_are_used(slots: int) -> None:
    cut = batches(a_mind(slots=slots), *(order(i) for i in range(100)))
    assert sorted(task for batch in cut for task in batch) == list(range(100))
    assert len(cut) == slots
    assert max(map(len, cut)) <= 100 // slots + 2


# Drops


def test_the_last_reader_drops() -> None:
    diamond = [order(0, uses=2), order(1, 0, uses=1), order(2, 0, uses=1), order(3, 1, 2)]
    assert drops(a_mind(), *diamond) == {2: [0], 3: [1, 2]}


def test_what_has_more_uses_than_readers_here_is_not_dropped() -> None:
    assert drops(a_mind(), order(0, uses=3), order(1, 0), order(2, 0)) == {}


def test_what_has_no_uses_is_not_dropped() -> None:
    assert drops(a_mind(), order(0), order(1, 0), order(2, 0)) == {}


def test_a_result_is_counted_on_over_batches() -> None:
    mind = a_mind()
    mind.handle(RunTasks("w", [order(0, uses=2), order(1, 0, prefix="new"), order(2, 0, prefix="newer")]), 0.0)
    number = max(mind.slots.batches)
    (one,) = [i for i in mind.handle(BatchExecuted(number, [(0, 0, 0.0, FAST, 8, 0)], [], []), 0.0)
              if isinstance(i, Execute)]  # fmt: skip
    assert [(item[0], list(item[4])) for item in one.items] == [(1, [])]
    (two,) = [i for i in mind.handle(BatchExecuted(number + 1, [(1, 0, 0.0, FAST, 8, 0)], [], []), 0.0)
              if isinstance(i, Execute)]  # fmt: skip
    assert [(item[0], list(item[4])) for item in two.items] == [(2, [0])]


@pytest.mark.parametrize("seed", range(20))
def test_any_graph_runs_to_its_end_and_holds_only_what_is_kept(seed: int) -> None:
    rng = random.Random(seed)
    mind = a_mind(slots=rng.randint(1, 3))
    size = rng.randint(5, 40)
    inputs = [sorted(rng.sample(range(i), min(i, rng.choice([0, 1, 2, 3])))) for i in range(size)]
    readers = [sum(i in mine for mine in inputs) for i in range(size)]
    kept = {i for i in range(size) if not readers[i] or rng.random() < 0.1}
    orders = [
        order(i, *inputs[i], prefix=rng.choice(["fast", "half", "slow"]), uses=0 if i in kept else readers[i])
        for i in range(size)
    ]
    store: set[int] = set()
    ran: list[int] = []
    todo: dict[int, list] = {}

    def follow(instructions) -> None:
        for instruction in instructions:
            match type(instruction).__name__:
                case "Execute":
                    todo[instruction.batch] = list(instruction.items)
                case "Drop":
                    store.difference_update(instruction.tasks)
                case "Reclaim":
                    items = todo[instruction.batch]
                    taken = [items.pop()[0] for _ in range(min(instruction.tasks, len(items) - 1))]
                    follow(mind.handle(TasksReclaimed(instruction.batch, taken), 0.0))

    follow(mind.handle(RunTasks("w", orders), 0.0))
    while todo:
        number = rng.choice(list(todo))
        done = []
        for task, attempt, _, needs, drop in todo.pop(number):
            assert store.issuperset(needs)
            store.add(task)
            store.difference_update(drop)
            ran.append(task)
            done.append((task, attempt, 0.0, FAST, 8, 0))
        follow(mind.handle(BatchExecuted(number, done, [], []), 0.0))
        check(mind)
    assert sorted(ran) == list(range(size))
    assert store == kept
    assert set(mind.jobs) == kept
