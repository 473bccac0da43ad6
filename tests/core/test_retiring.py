"""Workers that are about to end: what they alone hold is copied, and then they may go."""

from __future__ import annotations

from bench import Bench, run, spec

from hetsched.core.events import GraphReleased, KeysReleased, ReplicasAdded, WorkerJoined, WorkerLost, WorkerRetiring
from hetsched.core.retiring import may_leave
from hetsched.core.types import Capacity


class Office(Bench):
    def may_leave(self, name):
        state = self.scheduler.state
        return may_leave(state, state.workers[name])


def an_office(*others, tasks=1):
    """A worker ``a`` that holds wanted results, and others that hold nothing."""
    b = Office("a", window=99)
    b.submit([spec(f"x{n}") for n in range(tasks)], range(tasks))
    b.done("a", *range(tasks))
    for name in others:
        b.join(name)
    return b


def test_what_only_it_holds_is_copied_and_then_it_may_leave() -> None:
    b = an_office("b")
    assert b(WorkerRetiring("a")) == [("fetch", "b", {0: ["a"]})]
    assert not b.may_leave("a")
    assert b(WorkerRetiring("a")) == []
    assert b(ReplicasAdded("b", [0])) == []
    assert b.may_leave("a")
    assert b(WorkerLost("a", "it has left")) == [("ready", [(0, ["b"])])]


def test_copies_are_spread_over_those_that_hold_least() -> None:
    b = an_office("b", "d", tasks=4)
    assert b(WorkerRetiring("a")) == [("fetch", "b", {0: ["a"], 2: ["a"]}), ("fetch", "d", {1: ["a"], 3: ["a"]})]


def test_copies_stay_in_the_pool_as_long_as_others_are_there() -> None:
    b = Office()
    for name in ("a1", "b1", "a2", "a3"):
        b(WorkerJoined(name, Capacity({"cpu": 1}, {}, name[0].upper(), 99)))
    b.submit([spec(f"x{n}", pool="A") for n in range(2)], range(2))
    b.done("a1", 0)
    b.done("a2", 1)
    b(ReplicasAdded("a1", [1]))
    b(WorkerLost("a2", "it is gone"))
    assert b(WorkerRetiring("a1")) == [("fetch", "a3", {0: ["a1"], 1: ["a1"]})]
    # The last of the pool: another pool is better than nobody.
    b(ReplicasAdded("a3", [0, 1]))
    b(WorkerLost("a1", "it has left"))
    assert b(WorkerRetiring("a3")) == [("fetch", "b1", {0: ["a3"], 1: ["a3"]})]


def test_what_others_hold_is_not_copied() -> None:
    b = an_office("b", tasks=2)
    b(ReplicasAdded("b", [0]))
    assert b(WorkerRetiring("a")) == [("fetch", "b", {1: ["a"]})]


def test_another_is_asked_where_the_one_that_was_to_copy_is_lost() -> None:
    b = an_office("b", "d", tasks=2)
    assert b(WorkerRetiring("a")) == [("fetch", "b", {0: ["a"]}), ("fetch", "d", {1: ["a"]})]
    assert b(WorkerLost("b", "gone")) == [("fetch", "d", {0: ["a"]})]
    assert b(ReplicasAdded("d", [0])) == []
    assert not b.may_leave("a")
    assert b(ReplicasAdded("d", [1])) == []
    assert b.may_leave("a")


def test_another_is_asked_where_the_copy_is_lost_again() -> None:
    b = an_office("b", "d")
    b(WorkerRetiring("a"))
    b(ReplicasAdded("b", [0]))
    assert b.may_leave("a")
    assert b(WorkerLost("b", "gone")) == [("fetch", "d", {0: ["a"]}), ("ready", [(0, ["a"])])]
    assert not b.may_leave("a")


def test_who_comes_later_is_asked_for_what_nobody_could_copy() -> None:
    b = an_office("b")
    b(WorkerRetiring("b"))
    assert b(WorkerRetiring("a")) == []
    assert b.may_leave("a")  # where nobody stays it makes no difference
    assert b.join("d") == [("fetch", "d", {0: ["a"]})]
    assert not b.may_leave("a")


def test_the_last_copy_may_be_with_another_that_retires() -> None:
    b = an_office("b", "d")
    b(WorkerRetiring("a"))
    b(ReplicasAdded("b", [0]))
    assert b(WorkerRetiring("b")) == []
    assert b.may_leave("a")
    assert b.may_leave("b")
    assert b(WorkerLost("a", "it has left")) == [("fetch", "d", {0: ["b"]}), ("ready", [(0, ["b"])])]
    assert not b.may_leave("b")


def test_what_it_makes_while_it_retires_is_copied_too() -> None:
    b = Office("a", window=99)
    b.submit([spec("x"), spec("y")], [0, 1])
    b.join("b")
    assert b(WorkerRetiring("a")) == []
    assert not b.may_leave("a")
    assert b.done("a", 0) == [("fetch", "b", {0: ["a"]}), ("ready", [(0, ["a"])])]
    assert b.done("a", 1) == [("fetch", "b", {1: ["a"]}), ("ready", [(1, ["a"])])]
    b(ReplicasAdded("b", [0, 1]))
    assert b.may_leave("a")


def test_what_nobody_needs_any_more_is_not_waited_for() -> None:
    b = an_office("b", tasks=2)
    b(WorkerRetiring("a"))
    assert b(KeysReleased("c", 0, [0])) == [("free", "a", [0])]
    assert not b.may_leave("a")
    assert b(GraphReleased("c", 0)) == [("free", "a", [1])]
    assert b.may_leave("a")


def test_it_is_given_nothing_more() -> None:
    b = an_office("b")
    b(WorkerRetiring("a"))
    b(WorkerRetiring("b"))
    assert b(GraphReleased("c", 0)) == [("free", "a", [0])]
    assert b.submit([spec("y")], [0]) == []
    assert b.join("d") == [run("d", (1, 0, []))]
    assert b.may_leave("a")


def test_it_may_leave_once_the_last_of_many_is_copied() -> None:
    b = an_office("b", tasks=90)
    b(WorkerRetiring("a"))
    for task in range(90):
        assert not b.may_leave("a")
        assert b(ReplicasAdded("b", [task])) == []
    assert b.may_leave("a")
