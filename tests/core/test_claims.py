"""Numbers of workers that cannot be true: refused before anything is changed."""

from __future__ import annotations

import math

import pytest
from bench import Bench, spec

from hetsched.core.claims import MOST_AMOUNT, MOST_BYTES, MOST_SECONDS, MOST_SLOTS
from hetsched.core.commands import MoveTasks
from hetsched.core.events import (
    CapacityChanged,
    InputsMissing,
    ReplicasAdded,
    TasksFailed,
    TasksFinished,
    WorkerJoined,
)
from hetsched.core.types import Capacity
from hetsched.errors import ProtocolError

NEVER = [math.nan, math.inf, -math.inf, -1.0]
NOWHERE = [-1, 1 << 63]


def bench():
    """A worker that runs two tasks and has run one."""
    b = Bench("a", window=9)
    b.submit([spec("x"), spec("y"), spec("z")], [0, 1, 2])
    b.done("a", 0)
    return b


def snapshot(b):
    """All that an event may change."""
    state = b.scheduler.state
    tasks = [
        (ts.id, ts.phase, ts.attempt, ts.nbytes, ts.cuda_nbytes, ts.users, ts.who_has, ts.processing_on, ts.story)
        for ts in state.tasks.values()
    ]
    workers = [
        (w.id, w.capacity, w.held, w.nbytes, w.occupancy, dict(w.assigned), w.copying) for w in state.workers.values()
    ]
    learned = [
        (name, executor, e.count, e.seconds, e.nbytes)
        for name, prefix in state.prefixes.items()
        for executor, e in prefix.on.items()
    ]
    return tasks, workers, learned, [(pool.name, list(pool.members)) for pool in state.pools.values()]


def refused(event, says):
    b = bench()
    before = snapshot(b)
    with pytest.raises(ProtocolError) as caught:
        b(event)
    assert says in str(caught.value)
    assert snapshot(b) == before


GOOD = (1, 0, 5.0, 6.0, 8, 8)


@pytest.mark.parametrize(
    ("field", "value"),
    [(3, math.nan), (3, math.inf), (3, -math.inf), (3, 4.9), (3, 5.0 + 2 * MOST_SECONDS)]
    + [(2, value) for value in (math.nan, math.inf, -math.inf, 6.1, 1e300)]
    + [(field, value) for field in (4, 5) for value in (-1, MOST_BYTES + 1, 1 << 63)],
)
@pytest.mark.parametrize("behind", [False, True])
def test_what_a_task_took_and_made(field, value, behind) -> None:
    bad = (*GOOD[:field], value, *GOOD[field + 1 :])
    outcomes = [(2, 0, 6.0, 7.0, 8, 0), bad] if behind else [bad]
    refused(TasksFinished("a", "cpu", outcomes), "a says that the task 1 ran from")


def test_both_ends_of_a_time_that_are_nowhere() -> None:
    refused(TasksFinished("a", "cpu", [(1, 0, math.inf, math.inf, 8, 0)]), "from inf to inf s")


def test_an_executor_that_the_worker_has_not_got() -> None:
    refused(TasksFinished("a", "made up", [GOOD]), "'made up', which it has not got")


def test_what_can_just_be_true_is_believed() -> None:
    b = bench()
    outcomes = [(1, 0, -5.0, -5.0, 0, 0), (2, 0, 0, MOST_SECONDS, MOST_BYTES, MOST_BYTES)]
    assert b(TasksFinished("a", "cpu", outcomes)) == [
        MoveTasks("a", [], [("z", True)]),  # a result on a device, so it says
        ("ready", [(1, ["a"]), (2, ["a"])]),
    ]
    b(CapacityChanged("a", Capacity({"cpu": MOST_SLOTS, "io": 0}, {"r": MOST_AMOUNT, "s": 0}, None, 0, MOST_SECONDS)))


@pytest.mark.parametrize("value", [*NOWHERE, MOST_SLOTS + 1])
@pytest.mark.parametrize("kind", [WorkerJoined, CapacityChanged])
def test_slots_and_the_window(kind, value) -> None:
    name = "new" if kind is WorkerJoined else "a"
    refused(kind(name, Capacity({"cpu": 1, "io": value})), f"executor 'io': {value}")
    refused(kind(name, Capacity({"cpu": 1}, {}, None, value)), f"window: {value}")


@pytest.mark.parametrize("value", [*NEVER, 1e19, 1e300])
@pytest.mark.parametrize("kind", [WorkerJoined, CapacityChanged])
def test_resources_and_the_work_ahead(kind, value) -> None:
    name = "new" if kind is WorkerJoined else "a"
    refused(kind(name, Capacity({"cpu": 1}, {"r": value})), f"resource 'r': {value!r}")
    refused(kind(name, Capacity({"cpu": 1}, {}, "p", 2, value)), f"ahead: {value!r}")


@pytest.mark.parametrize("value", [-1, 1 << 63, -(1 << 63), 77])
def test_tasks_and_attempts_that_are_not_known_change_nothing(value) -> None:
    """These are names: one that is not known may have been forgotten a moment ago."""
    b = bench()
    before = snapshot(b)
    for event in (
        TasksFinished("a", "cpu", [(value, *GOOD[1:]), (1, value, *GOOD[2:])]),
        TasksFailed("a", "cpu", [(value, 0, "error", True), (1, value, "error", True)]),
        InputsMissing("a", [value], [(value, 0), (1, value)]),
    ):
        assert b(event) == []
        assert snapshot(b) == before
    assert b(ReplicasAdded("a", [value])) == [("free", "a", [value])]
    assert snapshot(b) == before
