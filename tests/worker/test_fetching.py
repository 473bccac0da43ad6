"""Whom a worker asks for what it lacks."""

from __future__ import annotations

from hetsched.core.commands import RunTask
from hetsched.core.types import TaskSpec
from hetsched.worker.fetching import FETCH_TASKS, Fetcher
from hetsched.worker.instructions import Fetch, KeysFetched
from hetsched.worker.jobs import Job, JobPhase, Kind

SPEC = TaskSpec("x", len)


def a_fetcher(*holders):
    fetcher = Fetcher()
    fetcher.want(holders, {task: Job(task) for task, _ in holders})
    return fetcher


def asked(fetcher):
    out = []
    fetcher.ask(out)
    return out


def test_one_request_holds_all_that_a_peer_has() -> None:
    fetcher = a_fetcher((0, ("p",)), (1, ("q",)), (2, ("p",)))
    assert asked(fetcher) == [Fetch("p", [0, 2]), Fetch("q", [1])]
    assert asked(fetcher) == []
    assert fetcher.came(KeysFetched("p", [0, 2], [])) == []
    assert asked(fetcher) == []
    assert [fetcher.expects(task) for task in range(3)] == [False, True, False]


def test_a_peer_is_asked_one_thing_at_a_time() -> None:
    fetcher = a_fetcher((0, ("p",)))
    assert asked(fetcher) == [Fetch("p", [0])]
    fetcher.want([(1, ("p",))], {1: Job(1)})
    assert asked(fetcher) == []
    assert fetcher.came(KeysFetched("p", [0], [])) == []
    assert asked(fetcher) == [Fetch("p", [1])]


def test_a_busy_peer_is_passed_over_for_another_holder() -> None:
    fetcher = a_fetcher((0, ("p",)))
    asked(fetcher)
    fetcher.want([(1, ("p", "q"))], {1: Job(1)})
    assert asked(fetcher) == [Fetch("q", [1])]


def test_holders_are_tried_in_turn_and_then_it_is_lost() -> None:
    fetcher = a_fetcher((0, ("p", "q")), (1, ("p",)))
    assert asked(fetcher) == [Fetch("p", [0, 1])]
    assert fetcher.came(KeysFetched("p", [], [0, 1])) == [1]
    assert asked(fetcher) == [Fetch("q", [0])]
    assert fetcher.came(KeysFetched("q", [], [0])) == [0]
    assert not fetcher.expects(0)
    assert asked(fetcher) == []


def test_what_is_given_up_is_not_asked_for_and_not_lost() -> None:
    fetcher = a_fetcher((0, ("p",)), (1, ("q",)))
    fetcher.give_up(0)
    assert asked(fetcher) == [Fetch("q", [1])]
    fetcher.give_up(1)
    fetcher.give_up(7)
    assert fetcher.came(KeysFetched("q", [], [1])) == []
    assert not fetcher.expects(1)


def test_what_is_under_way_is_not_asked_for_twice() -> None:
    fetcher = a_fetcher((0, ("p",)))
    asked(fetcher)
    fetcher.give_up(0)
    fetcher.want([(0, ("q",))], {0: Job(0)})
    assert asked(fetcher) == []
    assert fetcher.came(KeysFetched("p", [], [0])) == []  # p was not among those to ask this time
    assert asked(fetcher) == [Fetch("q", [0])]


def test_a_request_is_bounded() -> None:
    fetcher = a_fetcher(*((task, ("p",)) for task in range(FETCH_TASKS + 3)))
    (first,) = asked(fetcher)
    assert first == Fetch("p", list(range(FETCH_TASKS)))
    fetcher.came(KeysFetched("p", first.tasks, []))
    assert asked(fetcher) == [Fetch("p", [FETCH_TASKS, FETCH_TASKS + 1, FETCH_TASKS + 2])]


def test_what_is_here_or_ordered_here_is_not_wanted() -> None:
    fetcher = Fetcher()
    here, ordered = Job(0), Job(1)
    here.phase = JobPhase.HELD
    ordered.take(RunTask(1, 1, SPEC, "x", "cpu", ()), Kind())
    ordered.phase = JobPhase.READY
    fetcher.want([(0, ("p",)), (1, ("p",))], {0: here, 1: ordered})
    assert asked(fetcher) == []


def test_the_holders_first_named_stay() -> None:
    fetcher = a_fetcher((0, ("p",)))
    fetcher.want([(0, ("q",))], {0: Job(0)})
    assert asked(fetcher) == [Fetch("p", [0])]
