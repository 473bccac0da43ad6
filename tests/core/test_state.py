"""The table of legal moves, the stories it writes, and that the check sees what is wrong."""

from __future__ import annotations

import itertools

import pytest

from hetsched.core.check import check
from hetsched.core.events import GraphSubmitted, ReplicasAdded, TasksFinished, WorkerJoined
from hetsched.core.scheduler import Scheduler
from hetsched.core.state import LEGAL, Phase, State
from hetsched.core.types import Capacity, TaskSpec

PAIRS = list(itertools.product(Phase, Phase))

# To each phase from WAITING, in legal moves.
WAYS = {
    Phase.WAITING: [],
    Phase.READY: [Phase.READY],
    Phase.ASSIGNED: [Phase.ASSIGNED],
    Phase.MEMORY: [Phase.ASSIGNED, Phase.MEMORY],
    Phase.RELEASED: [Phase.RELEASED],
    Phase.FAILED: [Phase.FAILED],
}


def some_task():
    scheduler = Scheduler()
    scheduler.handle(GraphSubmitted("c", 0, [TaskSpec("x", len), TaskSpec("y", len, (), None, [0])], [1]), 0.5)
    return scheduler.state, scheduler.state.tasks[1]


def test_the_table_names_every_phase() -> None:
    assert set(LEGAL) == set(Phase)


def test_every_phase_but_the_first_can_be_come_to_and_left() -> None:
    assert all(LEGAL.values())
    assert set().union(*LEGAL.values()) == set(Phase)


@pytest.mark.parametrize(("old", "new"), [pair for pair in PAIRS if pair[1] in LEGAL[pair[0]]])
def test_legal_moves_are_made_and_told(old: Phase, new: Phase) -> None:
    state, ts = some_task()
    for now, phase in enumerate(WAYS[old], 1):
        state.move([ts], phase, "on the way", float(now))
    state.move([ts], new, "tried", 9.0)
    assert ts.phase is new
    way = [(float(now), phase, "on the way") for now, phase in enumerate(WAYS[old], 1)]
    assert ts.story == [*way, (9.0, new, "tried")]


@pytest.mark.parametrize(("old", "new"), [pair for pair in PAIRS if pair[1] not in LEGAL[pair[0]]])
def test_illegal_moves_are_refused_with_the_story(old: Phase, new: Phase) -> None:
    state, ts = some_task()
    for now, phase in enumerate(WAYS[old], 1):
        state.move([ts], phase, "on the way", float(now))
    told = ts.tell_story()
    with pytest.raises(AssertionError) as caught:
        state.move([ts], new, "tried", 9.0)
    assert str(caught.value) == f"'y': {old.name} -> {new.name} (tried); story: {told}"
    assert ts.phase is old
    assert ts.tell_story() == told


def test_a_story_reads_as_a_sentence() -> None:
    state, ts = some_task()
    state.move([ts], Phase.ASSIGNED, "w1", 1.25)
    state.move([ts], Phase.MEMORY, "w1", 2.0)
    assert ts.tell_story() == "1.250000 ASSIGNED (w1); 2.000000 MEMORY (w1)"


def test_tasks_of_several_graphs_move_together_and_each_has_its_story() -> None:
    scheduler = Scheduler()
    for number in range(2):
        scheduler.handle(GraphSubmitted("c", number, [TaskSpec("x", len), TaskSpec("y", len, (), None, [0])], [1]), 0.0)
    state = scheduler.state
    one, two = state.tasks[1], state.tasks[3]
    state.move([one, two], Phase.ASSIGNED, "w", 1.0)
    state.move([two], Phase.READY, "back", 2.0)
    assert one.story == [(1.0, Phase.ASSIGNED, "w")]
    assert two.story == [(1.0, Phase.ASSIGNED, "w"), (2.0, Phase.READY, "back")]


def test_a_task_tells_what_its_annotations_say() -> None:
    notes = {"executor": "io", "pool": ["p", "q"], "provenance": "file.py:3 in f"}
    scheduler = Scheduler()
    scheduler.handle(GraphSubmitted("c", 0, [TaskSpec("x", len, (), None, (), notes), TaskSpec("y", len)], [0]), 0.0)
    x, y = scheduler.state.tasks.values()
    assert (x.key, x.executor, x.pool, x.provenance, x.annotations) == (
        "x", "io", ("p", "q"), "file.py:3 in f", notes,
    )  # fmt: skip
    assert (y.key, y.executor, y.pool, y.provenance, y.annotations) == ("y", "cpu", None, None, {})
    assert repr(x) == "<TaskState 'x' READY>"


def test_workers_come_and_go_with_their_pools() -> None:
    state = State()
    state.add_worker("a", Capacity({"cpu": 1}, {}, "p"))
    state.add_worker("b", Capacity({"cpu": 1}, {}, "p"))
    state.add_worker("d", Capacity({"cpu": 1}))
    assert {name: list(pool.members) for name, pool in state.pools.items()} == {"p": ["a", "b"]}
    assert list(state.capacities()) == ["a", "b", "d"]
    assert state.remove_worker("a").id == "a"
    assert {name: list(pool.members) for name, pool in state.pools.items()} == {"p": ["b"]}
    assert state.remove_worker("b").id == "b"
    assert state.pools == {}
    assert state.remove_worker("b") is None
    assert list(state.workers) == ["d"]
    check(state)


@pytest.mark.parametrize(
    ("window", "slots", "assigned", "room"), [(1, 2, 0, 2), (2, 2, 1, 3), (2, 2, 4, 0), (3, 0, 0, 0), (0, 0, 0, 0)]
)
def test_room_is_counted_in_slots_and_window(window: int, slots: int, assigned: int, room: int) -> None:
    w = State().add_worker("a", Capacity({"cpu": slots}, {}, None, window))
    w.assigned["cpu"] = assigned
    assert w.room_for("cpu") == room
    assert w.room_for("gpu") == 0


def test_a_worker_without_a_window_has_room_for_all() -> None:
    w = State().add_worker("a", Capacity({"cpu": 1}, {}, None, 0))
    w.assigned["cpu"] = 1_000_000
    assert w.room_for("cpu") > 1_000_000


def a_busy_scheduler() -> Scheduler:
    """x is held by a and b, y is assigned to b, z waits, r is ready, v needs a pool nobody is in."""
    scheduler = Scheduler("round_robin")
    for name in "ab":
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": 1}, {}, "p", 1)), 0.0)
    tasks = [
        TaskSpec("x", len),
        TaskSpec("y", len, (), None, [0]),
        TaskSpec("w", len, (), None, [0]),
        TaskSpec("z", len, (), None, [1, 2]),
        TaskSpec("r", len),
        TaskSpec("v", len, (), None, (), {"pool": "q"}),
    ]
    scheduler.handle(GraphSubmitted("c", 0, tasks, [0, 3, 4, 5]), 1.0)
    scheduler.handle(TasksFinished("a", "cpu", [(0, 0, 0.0, 1.0, 8, 0)]), 2.0)
    scheduler.handle(ReplicasAdded("b", [0]), 3.0)
    check(scheduler.state)
    return scheduler


BREAKS = {
    "phase": lambda s: setattr(s.tasks[3], "phase", Phase.READY),
    "released with a reader": lambda s: setattr(s.tasks[0], "phase", Phase.RELEASED),
    "waiting_on": lambda s: setattr(s.tasks[3], "waiting_on", 1),
    "unplaced": lambda s: setattr(s.tasks[3], "unplaced", 5),
    "users": lambda s: setattr(s.tasks[0], "users", 1),
    "wanted": lambda s: setattr(s.tasks[0], "wanted", False),
    "forgets": lambda s: setattr(s.tasks[0], "forgets", True),
    "who_has": lambda s: setattr(s.tasks[0], "who_has", ()),
    "a holder too few": lambda s: setattr(s.tasks[0], "who_has", s.tasks[0].who_has[:1]),
    "processing_on": lambda s: setattr(s.tasks[3], "processing_on", s.workers["a"]),
    "nbytes of a task": lambda s: setattr(s.tasks[0], "nbytes", 9),
    "nbytes of a worker": lambda s: setattr(s.workers["b"], "nbytes", 0),
    "held": lambda s: setattr(s.workers["b"], "held", 2),
    "assigned": lambda s: s.workers["b"].assigned.update(cpu=7),
    "a queue": lambda s: s.ready.clear(),
    "a worker that is gone": lambda s: s.workers.pop("b"),
    "a graph that is gone": lambda s: s.graphs.clear(),
    "dependents": lambda s: s.tasks[0].dependents.pop(),
    "an id": lambda s: setattr(s.tasks[5], "id", 6),
}


@pytest.mark.parametrize("spoil", BREAKS.values(), ids=BREAKS.keys())
def test_the_check_sees_every_entry_that_is_wrong(spoil) -> None:
    state = a_busy_scheduler().state
    spoil(state)
    with pytest.raises((AssertionError, KeyError)):
        check(state)


def test_an_idle_worker_with_work_ahead_is_seen() -> None:
    scheduler = Scheduler()
    scheduler.handle(WorkerJoined("a", Capacity({"cpu": 1})), 0.0)
    scheduler.state.workers["a"].occupancy = 0.1
    with pytest.raises(AssertionError):
        check(scheduler.state)
