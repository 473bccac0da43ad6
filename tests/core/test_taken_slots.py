"""Workers some of whose slots are busy with cancelled tasks: what they give back runs elsewhere, or later."""

from __future__ import annotations

import pytest
from bench import Bench, spec

from hetsched.core.events import CapacityChanged, GraphCancelled, TasksReturned
from hetsched.core.explain import explain
from hetsched.core.types import Capacity


def slots(worker, count):
    return CapacityChanged(worker, Capacity({"cpu": count}, {}, None, 2))


@pytest.fixture
def b():
    """A bench with a worker "a" that runs a cancelled task and was given two more."""
    b = Bench("a", window=2)
    assert b.submit([spec("stays")], [0]) == [("run", "a", [(0, 0, [])])]
    assert b(GraphCancelled("c", 0)) == [("cancel", "a", [0])]
    assert b.submit([spec("x"), spec("y", 0)], [1]) == [("run", "a", [(1, 0, []), (2, 0, [1])])]
    return b


def test_tasks_that_are_given_back_go_to_another_worker(b) -> None:
    assert b(slots("a", 0)) == []
    b.join("b", window=2)
    # The second counted on the first, so it is called back.
    assert b(TasksReturned("a", [(1, 0)])) == [("cancel", "a", [2]), ("run", "b", [(1, 1, []), (2, 1, [1])])]
    assert b.done("b", 1, 2, attempt=1) == [("ready", [(1, ["b"])])]


def test_where_there_is_no_other_they_wait_until_the_slot_is_free(b) -> None:
    assert b(slots("a", 0)) == []
    assert b(TasksReturned("a", [(1, 0)])) == [("cancel", "a", [2])]
    told = explain(b.scheduler.state, b.scheduler.state.tasks[1])["text"].splitlines()
    assert told[:2] == [
        "x: READY, and no worker can run it on the executor 'cpu'",
        "  who could run it: executor 'cpu': 0 of 1 worker; together: none; "
        "1 more when slots there are free (paused now, or busy with what was cancelled)",
    ]
    assert [line.split(maxsplit=1)[1] for line in told[-3:]] == [
        "ASSIGNED (a)",
        "WAITING (a has no free slot for it)",
        "READY (a has no free slot for it)",
    ]
    assert b(slots("a", 1)) == [("run", "a", [(1, 1, []), (2, 1, [1])])]
    assert b.done("a", 1, 2, attempt=1) == [("ready", [(1, ["a"])])]


def test_what_a_worker_gave_back_before_is_not_taken_from_it_again(b) -> None:
    b(slots("a", 0))
    b(TasksReturned("a", [(1, 0)]))
    b(slots("a", 1))
    assert b(TasksReturned("a", [(1, 0)])) == []


def test_one_slot_of_two_is_left(b) -> None:
    b.join("b", window=2)
    b(CapacityChanged("b", Capacity({"cpu": 2}, {}, None, 1)))
    b(slots("a", 0))
    b(CapacityChanged("b", Capacity({"cpu": 1}, {}, None, 1)))
    assert b(TasksReturned("a", [(1, 0)])) == [("cancel", "a", [2]), ("run", "b", [(1, 1, [])])]
