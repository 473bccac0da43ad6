"""Which worker gets a task."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hetsched
from hetsched.core.commands import RunTasks
from hetsched.core.events import GraphSubmitted, TasksFinished, WorkerJoined
from hetsched.core.placement import POLICIES, make_policy
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.errors import HetschedError


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, len, (), None, dependencies, annotations or None)


def placed(commands) -> dict[str, list[int]]:
    return {c.worker: [order.task for order in c.tasks] for c in commands if isinstance(c, RunTasks)}


def a_scheduler(policy, *workers, window=1, seed=0) -> Scheduler:
    scheduler = Scheduler(policy, Options(seed=seed))
    for name, slots in workers:
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": slots, "io": 1}, {}, None, window)), 0.0)
    return scheduler


def finish(scheduler, worker, task, nbytes=8, seconds=1.0):
    return scheduler.handle(TasksFinished(worker, "cpu", [(task, 0, 0.0, seconds, nbytes, 0)]), 1.0)


def test_each_policy_is_found_by_its_name() -> None:
    assert {name: make_policy(name, 3).name for name in POLICIES} == {name: name for name in POLICIES}
    assert sorted(POLICIES) == [
        "blevel", "dask_like", "dmdas", "earliest_finish", "eft", "heft", "heteroprio", "locality", "random",
        "rebalancing", "round_robin", "work_stealing",
    ]  # fmt: skip


def test_an_unknown_policy_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(HetschedError) as caught:
        Scheduler("cheapest")
    there = ", ".join(sorted(POLICIES))
    assert str(caught.value) == (
        f"there is no placement policy 'cheapest'; there are {there}, and your own as module:Class"
    )


def test_round_robin_deals_in_turn() -> None:
    scheduler = a_scheduler("round_robin", ("a", 9), ("b", 9), ("d", 9))
    event = GraphSubmitted("c", 0, [spec(f"x{i}") for i in range(7)], range(7))
    assert placed(scheduler.handle(event, 1.0)) == {"a": [0, 3, 6], "b": [1, 4], "d": [2, 5]}


def test_random_is_a_function_of_the_seed_that_uses_all() -> None:
    def one(seed: int) -> dict[str, list[int]]:
        scheduler = a_scheduler("random", ("a", 99), ("b", 99), ("d", 99), seed=seed)
        return placed(scheduler.handle(GraphSubmitted("c", 0, [spec(f"x{i}") for i in range(60)], range(60)), 1.0))

    assert one(1) == one(1)
    assert one(1) != one(2)
    assert set(one(1)) == {"a", "b", "d"}
    assert all(len(tasks) > 10 for tasks in one(1).values())


def test_a_policy_may_be_given_ready_made() -> None:
    class Last:
        name = "last"

        def choose(self, task, workers):
            return workers[-1]

    scheduler = a_scheduler(Last(), ("a", 9), ("b", 2))
    event = GraphSubmitted("c", 0, [spec(f"x{i}") for i in range(4)], range(4))
    assert placed(scheduler.handle(event, 1.0)) == {"a": [2, 3], "b": [0, 1]}


# Earliest finish


def test_idle_workers_are_filled_in_turn() -> None:
    scheduler = a_scheduler("earliest_finish", ("a", 1), ("b", 1), ("d", 1), window=2)
    event = GraphSubmitted("c", 0, [spec(f"x{i}") for i in range(6)], range(6))
    assert placed(scheduler.handle(event, 1.0)) == {"a": [0, 3], "b": [1, 4], "d": [2, 5]}


def test_work_is_shared_by_slots() -> None:
    scheduler = a_scheduler("earliest_finish", ("a", 1), ("b", 3), window=0)
    event = GraphSubmitted("c", 0, [spec(f"x{i}") for i in range(8)], range(8))
    shares = placed(scheduler.handle(event, 1.0))
    assert (len(shares["a"]), len(shares["b"])) == (2, 6)


@pytest.mark.parametrize("large", ["a", "b"])
def test_bytes_decide_where_inputs_are_read(large: str) -> None:
    scheduler = a_scheduler("earliest_finish", ("a", 1), ("b", 1))
    tasks = [spec("x"), spec("y"), spec("sum", 0, 1)]
    assert placed(scheduler.handle(GraphSubmitted("c", 0, tasks, [2]), 1.0)) == {"a": [0], "b": [1]}
    finish(scheduler, "a", 0, nbytes=10**9 if large == "a" else 10)
    assert placed(finish(scheduler, "b", 1, nbytes=10**9 if large == "b" else 10)) == {large: [2]}


def test_a_worker_that_is_busy_for_long_is_given_nothing_more() -> None:
    scheduler = a_scheduler("earliest_finish", ("a", 1), ("b", 1), window=3)
    tasks = [spec("slow", duration=9, workers="a"), spec("y0"), spec("y1")]
    assert placed(scheduler.handle(GraphSubmitted("c", 0, tasks, range(3)), 2.0)) == {"a": [0], "b": [1, 2]}


def test_a_wish_for_a_worker_is_followed_where_it_has_room() -> None:
    scheduler = a_scheduler("earliest_finish", ("a", 1), ("b", 1), window=2)
    tasks = [spec(f"x{i}", workers="b", allow_other_workers=True) for i in range(4)]
    assert placed(scheduler.handle(GraphSubmitted("c", 0, tasks, range(4)), 1.0)) == {"b": [0, 1], "a": [2, 3]}


def test_of_two_equal_workers_the_one_with_less_data_is_taken() -> None:
    scheduler = a_scheduler("earliest_finish", ("a", 1), ("b", 1))
    scheduler.handle(GraphSubmitted("c", 0, [spec("x")], [0]), 1.0)
    finish(scheduler, "a", 0)
    assert placed(scheduler.handle(GraphSubmitted("c", 1, [spec("y")], [0]), 1.0)) == {"b": [1]}


@pytest.mark.parametrize(("lasts", "row"), [(0.001, 20), (0.0001, 64), (0.015, 2), (1.0, 1)])
def test_short_tasks_without_inputs_go_to_one_worker_for_a_while(lasts, row) -> None:
    """What is read together should be made together; not longer than 64 tasks or 20 milliseconds, whichever is less."""
    scheduler = a_scheduler("earliest_finish", ("a", 1), ("b", 1), window=1000)
    scheduler.handle(GraphSubmitted("c", 0, [spec("x-0")], [0]), 0.0)
    finish(scheduler, "a", 0, seconds=lasts)
    tasks = [spec(f"x-{i}") for i in range(1, 200)]
    given = placed(scheduler.handle(GraphSubmitted("c", 1, tasks, range(199)), 3.0))
    order = sorted((task, name) for name, tasks in given.items() for task in tasks)
    runs = [len(list(group)) for _, group in itertools.groupby(order, key=lambda item: item[1])]
    assert max(runs[1:-1]) <= 2 * row + 2
    assert min(runs[1:-1]) >= row


# The same under any hash seed

SCRIPT = """
import hashlib, random
from world import World, random_graph

digest = hashlib.sha256()
for seed, policy in enumerate(["earliest_finish", "random", "round_robin"]):
    world = World(seed, policy, flaky=0.3)
    rng = random.Random(seed)
    for _ in range(3):
        world.add_worker(rng.choice([0, 1, 2]), rng.randint(1, 3))
    for _ in range(2):
        world.submit(*random_graph(rng))
    for _ in range(25):
        world.step()
    world.lose_worker("w1")
    world.run()
    world.release_all()
    digest.update("".join(world.trace).encode())
print(digest.hexdigest())
"""


def test_a_run_is_the_same_under_any_hash_seed() -> None:
    path = os.pathsep.join([str(Path(hetsched.__file__).parents[1]), str(Path(__file__).parents[1])])

    def run(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

    assert len(run("0")) == 65
    assert run("0") == run("4711")
