"""A long task is not queued behind a longer one while another worker will come to it sooner."""

from __future__ import annotations

import pytest

from hetsched.core.check import check
from hetsched.core.commands import RunTasks
from hetsched.core.events import GraphSubmitted, TasksFinished, TimePassed, WorkerJoined, WorkerLost
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec


def scheduler_of(slots=1, resources=None, names="ab", policy="earliest_finish") -> Scheduler:
    scheduler = Scheduler(policy)
    for name in names:
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": slots}, resources or {}, None, 2)), 0.0)
    return scheduler


def submit(scheduler, *durations, **annotations):
    tasks = [TaskSpec(f"x{n}", len, (), None, (), {"duration": d, **annotations}) for n, d in enumerate(durations)]
    return placed(scheduler, GraphSubmitted("c", 0, tasks, range(len(tasks))), 0.0)


def finish(scheduler, worker, task, now):
    return placed(scheduler, TasksFinished(worker, "cpu", [(task, 0, 0.0, now, 8, 0)]), now)


def placed(scheduler, event, now):
    commands = scheduler.handle(event, now)
    check(scheduler.state)
    return {c.worker: [order.task for order in c.tasks] for c in commands if isinstance(c, RunTasks)}


def test_a_task_waits_for_the_worker_that_comes_to_it_first() -> None:
    scheduler = scheduler_of()
    assert submit(scheduler, 100, 3, 2, 1) == {"a": [0], "b": [1, 2]}
    assert finish(scheduler, "b", 1, 3.0) == {"b": [3]}


@pytest.mark.parametrize("short", [0.0, 0.5])
def test_short_tasks_are_given_ahead_of_time_all_the_same(short) -> None:
    assert submit(scheduler_of(), 100, 3, 2, short) == {"a": [0, 3], "b": [1, 2]}


def test_a_free_slot_is_never_kept_empty() -> None:
    scheduler = scheduler_of()
    assert submit(scheduler, 100, 3, 2, 1) == {"a": [0], "b": [1, 2]}
    assert finish(scheduler, "a", 0, 0.1) == {"a": [3]}


def test_what_another_worker_was_to_take_goes_on_when_that_is_lost() -> None:
    scheduler = scheduler_of()
    submit(scheduler, 100, 3, 2, 1)
    assert placed(scheduler, WorkerLost("b", "test"), 1.0) == {"a": [1]}
    assert placed(scheduler, WorkerJoined("c", Capacity({"cpu": 1}, {}, None, 2)), 2.0) == {"c": [2, 3]}


def test_a_wish_for_a_worker_is_not_overruled() -> None:
    scheduler = scheduler_of()
    assert submit(scheduler, 100, 3, 2) == {"a": [0], "b": [1, 2]}
    wish = TaskSpec("y", len, (), None, (), {"duration": 1, "workers": ["a"], "allow_other_workers": True})
    assert placed(scheduler, GraphSubmitted("c", 1, [wish], [0]), 0.0) == {"a": [3]}


def test_where_a_worker_could_start_it_at_once_it_goes_where_the_policy_says() -> None:
    class First:
        name = "first"
        waits_for_data = True

        def choose(self, task, workers):
            return workers[0]

    scheduler = scheduler_of(names="ab", policy=First())
    assert submit(scheduler, 100, 2) == {"a": [0, 1]}


def test_a_gain_of_less_than_half_is_not_waited_for() -> None:
    assert submit(scheduler_of(), 4.4, 2, 1, 1) == {"a": [0, 3], "b": [1, 2]}


@pytest.mark.parametrize(("workers", "slots"), [(1000, 1), (200, 12)])
def test_where_looking_takes_too_long_nothing_is_kept_back(workers, slots) -> None:
    scheduler = scheduler_of(slots, names=[f"w{n}" for n in range(workers)])
    found = submit(scheduler, *[50] * slots, *[3] * (workers - 1) * slots, *[2] * workers * slots)
    assert sum(map(len, found.values())) == 2 * workers * slots


def test_a_resource_that_is_taken_is_waited_for_as_a_slot_is() -> None:
    # Each worker has four slots, and memory for one of these at a time.
    scheduler = scheduler_of(4, {"memory": 10})
    assert submit(scheduler, 2, 2, resources={"memory": 10}) == {"a": [0], "b": [1]}


def test_shares_of_a_resource_run_side_by_side() -> None:
    scheduler = scheduler_of(4, {"memory": 10})
    assert submit(scheduler, 4, 3, 2, 1, resources={"memory": 5}) == {"a": [0, 1], "b": [2, 3]}


def test_a_long_task_does_not_queue_for_a_resource_behind_a_longer_one() -> None:
    scheduler = scheduler_of(4, {"memory": 10})
    assert submit(scheduler, 100, 3, 2, 1, resources={"memory": 10}) == {"a": [0], "b": [1, 2]}
    assert finish(scheduler, "b", 1, 3.0) == {"b": [3]}


def test_readers_that_share_a_resource_are_not_all_left_to_the_worker_that_makes_their_input() -> None:
    scheduler = scheduler_of(4, {"memory": 10})
    notes = {"duration": 5, "resources": {"memory": 10}}
    tasks = [TaskSpec("x", len, (), None, (), {"duration": 5}),
             *(TaskSpec(f"y{n}", len, (), None, (0,), notes) for n in range(3))]  # fmt: skip
    assert placed(scheduler, GraphSubmitted("c", 0, tasks, [1, 2, 3]), 0.0) == {"a": [0, 1]}
    assert finish(scheduler, "a", 0, 5.0) == {"b": [2, 3]}


def test_a_task_is_not_kept_back_for_longer_than_it_would_have_waited() -> None:
    # All of them may be waiting for results of the next graph's, their slots given up: the scheduler hears of nothing.
    scheduler = scheduler_of()
    assert submit(scheduler, 100, 1, 1) == {"a": [0], "b": [1, 2]}
    child = TaskSpec("y", len, (), None, (), {"duration": 5})
    assert placed(scheduler, GraphSubmitted("d", 0, [child], [0]), 7.0) == {}
    assert scheduler.due == 107.0
    assert placed(scheduler, TimePassed(), 107.0) == {"a": [3]}
    assert scheduler.due is None


def test_what_comes_after_a_task_that_is_kept_back_does_not_go_before_it_for_ever() -> None:
    # Worker b was expected to end soon, and does not; what is for a alone would always be there first.
    scheduler = scheduler_of()
    assert submit(scheduler, 10, 1, 1) == {"a": [0], "b": [1, 2]}
    late = TaskSpec("y", len, (), None, (), {"duration": 5})
    assert placed(scheduler, GraphSubmitted("d", 0, [late], [0]), 0.0) == {}
    others = [TaskSpec(f"z{n}", len, (), None, (), {"duration": 10, "workers": ["a"]}) for n in range(5)]
    assert placed(scheduler, GraphSubmitted("d", 1, others, range(5)), 0.0) == {"a": [4]}
    assert finish(scheduler, "a", 0, 10.0) == {"a": [3]}


def test_nothing_is_due_once_a_task_that_was_kept_back_has_gone() -> None:
    scheduler = scheduler_of()
    submit(scheduler, 100, 3, 2, 1)
    assert scheduler.due == 100.0
    assert finish(scheduler, "b", 1, 3.0) == {"b": [3]}
    assert scheduler.due is None


def test_an_amount_that_is_next_to_nothing_may_be_taken_any_number_of_times() -> None:
    scheduler = scheduler_of(1, {"memory": 1e18})
    assert submit(scheduler, *[2] * 5, resources={"memory": 1e-300}) == {"a": [0, 2], "b": [1, 3]}
