"""What is done again after a loss, and that nothing else is."""

from __future__ import annotations

import pytest
from bench import Bench, run, spec

from hetsched.core.commands import KeysFailed
from hetsched.core.events import (
    GraphReleased,
    InputsMissing,
    ReplicasAdded,
    TasksFailed,
    WorkerLost,
)
from hetsched.errors import WorkerLostError

# A worker is lost


def test_what_it_ran_runs_elsewhere() -> None:
    b = Bench("a", "b")
    assert b.submit([spec("x"), spec("y")], [0, 1]) == [run("a", (0, 0, [])), run("b", (1, 0, []))]
    assert b.done("b", 1) == [("ready", [(1, ["b"])])]
    assert b(WorkerLost("a", "gone")) == [run("b", (0, 1, []))]
    assert b.done("b", 0) == []  # of another attempt than it was given
    assert b.done("b", 0, attempt=1) == [("ready", [(0, ["b"])])]


def test_what_nobody_needs_again_is_not_made_again() -> None:
    b = Bench("a", "b")
    assert b.submit([spec("x"), spec("y", 0), spec("z", 1), spec("w")], [2, 3]) == [
        run("a", (0, 0, [])),
        run("b", (3, 0, [])),
    ]
    assert b.done("a", 0) == [run("a", (1, 0, [0]))]
    assert b.done("b", 3) == [("ready", [(3, ["b"])])]
    assert b.done("a", 1) == [("free", "a", [0]), run("b", (2, 0, [1], {1: ["a"]}))]
    assert b(ReplicasAdded("b", [1])) == []
    # x and y are lost, and b has what is left to be read.
    assert b(WorkerLost("a", "gone")) == []
    assert b.done("b", 2) == [("free", "b", [1]), ("ready", [(2, ["b"])])]


def test_a_lost_result_is_made_again_with_all_it_needs() -> None:
    b = Bench("a", window=0)
    assert b.submit([spec("x"), spec("y", 0), spec("z", 1)], [2]) == [run("a", (0, 0, []), (1, 0, [0]), (2, 0, [1]))]
    assert b.done("a", 0, 1) == []
    assert b(WorkerLost("a", "gone")) == []
    assert b.join("b", window=0) == [run("b", (0, 1, []), (1, 1, [0]), (2, 1, [1]))]


def test_a_wanted_result_is_kept_up_until_its_graph_is_released() -> None:
    b = Bench("a", "b")
    b.submit([spec("x")], [0])
    assert b.done("a", 0) == [("ready", [(0, ["a"])])]
    assert b(WorkerLost("a", "gone")) == [run("b", (0, 1, []))]
    assert b.done("b", 0, attempt=1) == [("ready", [(0, ["b"])])]
    assert b(GraphReleased("c", 0)) == [("free", "b", [0])]
    assert b(WorkerLost("b", "gone")) == []


def test_orders_that_count_on_what_is_lost_are_taken_back() -> None:
    b = Bench("a", "b", window=2)
    tasks = [spec("x"), spec("y"), spec("sum", 0, 1), spec("more", 2), spec("free")]
    assert b.submit(tasks, [3, 4]) == [run("a", (0, 0, []), (4, 0, [])), run("b", (1, 0, []))]
    assert b.done("a", 0) == []
    assert b.done("b", 1) == [run("b", (2, 0, [0, 1], {0: ["a"]}), (3, 0, [2]))]
    # b can no longer fetch 0, so it must put its reader down, and what runs after that; it has room for two.
    assert b(WorkerLost("a", "gone")) == [("cancel", "b", [2, 3]), run("b", (0, 1, []), (2, 1, [0, 1]))]
    assert b.done("b", 0, attempt=1) == [run("b", (4, 1, []))]


def test_one_that_is_neither_known_nor_new_changes_nothing() -> None:
    b = Bench("a")
    assert b.submit([spec("x")], [0]) == [run("a", (0, 0, []))]
    assert b(WorkerLost("b", "gone")) == []
    assert b(WorkerLost("a", "gone")) == []
    assert b(WorkerLost("a", "gone")) == []
    assert b.join("a") == [run("a", (0, 1, []))]


def test_a_task_that_outlives_too_many_workers_is_given_up() -> None:
    b = Bench("a", allowed_losses=1)
    assert b.submit([spec("x"), spec("y", 0), spec("z")], [1, 2]) == [run("a", (0, 0, []))]
    assert b(WorkerLost("a", "out of memory")) == []
    assert b.join("b") == [run("b", (0, 1, []))]
    (told,) = b(WorkerLost("b", "out of memory"))
    story = (
        "2.000000 READY (submitted); 2.000000 ASSIGNED (a); 3.000000 WAITING (lost a: out of memory); "
        "3.000000 READY (lost a: out of memory); 4.000000 ASSIGNED (b); 5.000000 WAITING (lost b: out of memory)"
    )
    assert told._replace(error=None) == KeysFailed("c", 0, [1], 0, None, "b", story)
    assert type(told.error) is WorkerLostError
    assert str(told.error) == (f"2 workers were lost while they may have been running the task 'x'; its story: {story}")
    # The others go on.
    assert b.join("d") == [run("d", (2, 0, []))]
    assert b.done("d", 2) == [("ready", [(2, ["d"])])]


def test_a_task_that_was_waiting_for_its_inputs_is_not_blamed() -> None:
    b = Bench("a", window=0, allowed_losses=0)
    b.submit([spec("x"), spec("y", 0)], [1])
    b.done("a", 0)
    (told,) = b(WorkerLost("a", "gone"))
    assert (told.root, told.failed) == (1, [1])  # x had ended, y may have been running
    b = Bench("a", window=0, allowed_losses=0)
    b.submit([spec("x"), spec("y", 0)], [1])
    (told,) = b(WorkerLost("a", "gone"))
    assert (told.root, told.failed) == (0, [1])


def test_all_workers_lost_and_one_that_comes_back() -> None:
    b = Bench("a", "b", window=0)
    tasks = [spec("x"), spec("y"), spec("sum", 0, 1)]
    assert b.submit(tasks, [2]) == [run("a", (0, 0, [])), run("b", (1, 0, []))]
    assert b.done("b", 1) == []
    assert b(WorkerLost("a", "gone")) == [run("b", (0, 1, []), (2, 0, [0, 1]))]
    assert b(WorkerLost("b", "gone")) == []
    assert b.join("d", window=0) == [run("d", (0, 2, []), (1, 1, []), (2, 1, [0, 1]))]
    assert b.done("d", 0, attempt=2) == []
    assert b.done("d", 1, 2, attempt=1) == [("ready", [(2, ["d"])])]


def test_a_failed_task_is_not_revived_by_a_loss() -> None:
    b = Bench("a", "b")
    b.submit([spec("x"), spec("y", 0), spec("z")], [1, 2])
    (told,) = b(TasksFailed("a", "cpu", [(0, 0, "bad", True)]))
    assert told[:5] == ("c", 0, [1], 0, "bad")
    assert b(WorkerLost("b", "gone")) == [run("a", (2, 1, []))]
    assert b(WorkerLost("a", "gone")) == []


# Inputs that cannot be had


def _with_a_fetch():
    """0 is on a, 1 on b, and b was told to fetch 0 for 2."""
    b = Bench("a", "b")
    b.submit([spec("x"), spec("y"), spec("sum", 0, 1)], [2])
    b.done("a", 0)
    assert b.done("b", 1) == [run("b", (2, 0, [0, 1], {0: ["a"]}))]
    return b


def test_an_input_that_cannot_be_had_is_made_again() -> None:
    b = _with_a_fetch()
    assert b(InputsMissing("b", [0], [(2, 0)])) == [("free", "a", [0]), run("a", (0, 1, []))]
    assert b.done("a", 0, attempt=1) == [run("b", (2, 1, [0, 1], {0: ["a"]}))]
    assert b.done("b", 2, attempt=1) == [("free", "a", [0]), ("free", "b", [1]), ("ready", [(2, ["b"])])]


def test_a_missing_input_of_an_order_that_was_taken_back_is_made_again_and_no_more() -> None:
    b = _with_a_fetch()
    # The reader is told with another attempt than the one that is under way.
    assert b(InputsMissing("b", [0], [(2, 7)])) == [
        ("cancel", "b", [2]),
        ("free", "a", [0]),
        run("a", (0, 1, [])),
    ]


def test_inputs_that_are_unknown_or_not_made_are_nothing_new() -> None:
    b = _with_a_fetch()
    assert b(InputsMissing("b", [99], [(98, 0)])) == []
    # Put down for no reason it is simply ordered again.
    assert b(InputsMissing("b", [], [(2, 0)])) == [run("a", (2, 1, [0, 1], {1: ["b"]}))]


def test_a_copy_of_what_is_being_made_again_is_not_kept() -> None:
    b = _with_a_fetch()
    b(InputsMissing("b", [0], [(2, 0)]))
    assert b(ReplicasAdded("b", [0])) == [("free", "b", [0])]
    # but its maker's own copy is what it will make
    assert b(ReplicasAdded("a", [0])) == []


def test_only_the_readers_of_the_missing_input_are_put_back() -> None:
    b = Bench("a", "b", window=3)
    tasks = [spec("x"), spec("y"), spec("sum", 0, 1), spec("own", 1), spec("top", 2)]
    b.submit(tasks, [3, 4])
    b.done("a", 0)
    b.done("b", 1)
    state = b.scheduler.state
    assert {ts.id: ts.processing_on.id for ts in state.tasks.values() if ts.processing_on} == {2: "a", 3: "b", 4: "a"}
    assert b(InputsMissing("a", [1], [(2, 0)])) == [
        ("cancel", "b", [3]),  # it read what b is told to forget
        ("cancel", "a", [4]),
        ("free", "b", [1]),
        run("b", (1, 1, []), (2, 1, [0, 1], {0: ["a"]}), (4, 1, [2])),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_loss_is_mended_the_same_way_each_time(seed: int) -> None:
    def tell() -> list[object]:
        b = Bench("a", "b", "d", window=2, policy="random", seed=seed)
        tasks = [spec(f"x{i}") for i in range(6)] + [spec(f"y{i}", i, (i + 1) % 6) for i in range(6)]
        return [b.submit(tasks, range(6, 12)), b(WorkerLost("b", "gone")), b(WorkerLost("a", "gone"))]

    assert tell() == tell()
