"""What the scheduler reckons with of tasks it has given: inputs that are on their way, estimates that were guesses."""

from __future__ import annotations

from hetsched.core.check import check
from hetsched.core.commands import RunTasks
from hetsched.core.costs import UNKNOWN
from hetsched.core.events import (
    GraphReleased,
    GraphSubmitted,
    ReplicasAdded,
    TasksFinished,
    TimePassed,
    WorkerJoined,
    WorkerLost,
)
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec

BIG = 10_000_000


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, len, (), None, dependencies, annotations or None)


class Pair:
    """Workers "a" and "b" of two slots that hold a big result each, tasks 0 and 1, which graph 0 wants."""

    def __init__(self, ahead=0.0):
        self.scheduler = Scheduler()
        for name in "ab":
            self(WorkerJoined(name, Capacity({"cpu": 2}, {}, None, 2, ahead)))
        assert self(GraphSubmitted("c", 0, [spec("x", workers=("a",)), spec("y", workers=("b",))], [0, 1])) == {
            "a": [0],
            "b": [1],
        }
        self.finished("a", 0, BIG)
        self.finished("b", 1, BIG)

    def __call__(self, event):
        commands = self.scheduler.handle(event, 1.0)
        check(self.scheduler.state)
        return {c.worker: [order.task for order in c.tasks] for c in commands if isinstance(c, RunTasks)}

    def finished(self, worker, task, nbytes=8, seconds=0.001):
        return self(TasksFinished(worker, "cpu", [(task, 0, 0.0, seconds, nbytes, 0)]))

    def worker(self, name):
        return self.scheduler.state.workers[name]

    def fetching(self, name):
        return {ts.id: readers for ts, readers in self.worker(name).fetching.items()}

    def sums(self, number, count):
        """Submit tasks that read both results and are known to be short."""
        tasks = [spec(f"sum-{number}-{i}", -1, -2, duration=0.001) for i in range(count)]
        return self(GraphSubmitted("c", number, tasks, range(count), externals=[(0, 0), (0, 1)]))


def test_a_task_goes_where_the_input_it_lacks_is_brought_for_another():
    pair = Pair()
    assert pair.sums(1, 3) == {"a": [2, 3, 4]}
    assert (pair.fetching("a"), pair.fetching("b")) == ({1: 3}, {})


def test_an_input_that_has_come_is_on_its_way_no_more():
    pair = Pair()
    pair.sums(1, 3)
    pair(ReplicasAdded("a", [1]))
    assert pair.fetching("a") == {}
    pair.finished("a", 2)
    assert pair.fetching("a") == {}


def test_an_input_is_on_its_way_as_long_as_some_task_is_to_read_it():
    pair = Pair()
    pair.sums(1, 3)
    pair.finished("a", 2)
    assert pair.fetching("a") == {1: 2}
    pair(GraphReleased("c", 1))
    assert pair.fetching("a") == {}


def test_an_input_that_is_lost_is_on_its_way_no_more():
    pair = Pair()
    pair.sums(1, 3)
    pair(WorkerLost("b", "gone"))
    assert pair.fetching("a") == {}


def test_the_first_run_of_a_kind_corrects_what_was_guessed_of_the_others():
    pair = Pair()
    tasks = [spec(f"new-{i}") for i in range(6)]
    given = pair(GraphSubmitted("c", 1, tasks, range(6)))
    assert given == {"a": [2, 3, 6], "b": [4, 5, 7]}
    assert pair.worker("a").occupancy == 3 * UNKNOWN
    pair.finished("a", 2, nbytes=100, seconds=0.5)
    a, b = pair.worker("a"), pair.worker("b")
    assert (a.occupancy, b.occupancy) == (2 * 0.5, 3 * 0.5)
    assert (a.coming, b.coming) == (2 * 100, 3 * 100)
    assert (a.guessed, b.guessed) == ({}, {})


def test_what_never_ran_is_guessed_of_no_longer_than_it_is_assigned():
    pair = Pair()
    pair(GraphSubmitted("c", 1, [spec(f"new-{i}") for i in range(6)], range(6)))
    assert [len(tasks) for name in "ab" for tasks in pair.worker(name).guessed.values()] == [3, 3]
    pair(GraphReleased("c", 1))
    assert (pair.worker("a").guessed, pair.worker("b").guessed) == ({}, {})


def fan(readers, **annotations):
    """A source and what reads it."""
    return [spec("split", **annotations), *[spec(f"part-{n}", 0, **annotations) for n in range(readers)]]


def test_of_many_readers_no_more_run_ahead_than_can_start_at_once():
    pair = Pair()
    assert pair(GraphSubmitted("c", 1, fan(8), range(9))) == {"a": [2, 3, 4]}
    assert pair.finished("a", 2) == {"b": [5, 6, 7, 9], "a": [8, 10]}


def test_short_readers_run_ahead_as_far_as_there_is_room():
    pair = Pair(ahead=0.05)
    assert pair(GraphSubmitted("c", 1, fan(8, duration=0.0001), range(9))) == {"a": [2, *range(3, 11)]}


def test_one_worker_is_given_all_readers_ahead():
    pair = Pair()
    pair(WorkerLost("b", "gone"))
    assert pair(GraphSubmitted("c", 1, fan(8), range(9)))["a"] == [2, 3, 4, 5]


def test_readers_are_counted_against_the_slots_of_their_own_executor():
    scheduler = Scheduler()
    for name in "ab":
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": 4, "gpu": 1}, {"GPU": 1.0}, None, 2)), 0.0)
    tasks = [spec("make", gpu=True), *[spec(f"read-{n}", 0, gpu=False) for n in range(8)]]
    (command,) = scheduler.handle(GraphSubmitted("c", 0, tasks, range(9)), 1.0)
    assert [order.task for order in command.tasks] == [0, 1, 2, 3, 4]


def test_readers_that_nobody_else_may_run_are_given_ahead():
    pair = Pair()
    tasks = [spec("make", workers=("a",)), *[spec(f"read-{n}", 0, workers=("a",)) for n in range(3)]]
    assert pair(GraphSubmitted("c", 1, tasks, range(4))) == {"a": [2, 3, 4, 5]}


def test_a_task_that_was_to_move_and_is_a_gpu_task_by_now_goes_where_a_gpu_is():
    class Mover:
        name = "mover"
        move = None

        def choose(self, task, workers):
            return workers[0]

        def moves(self, workers, now):
            move, self.move = self.move, None
            return [move] if move else []

    mover = Mover()
    scheduler = Scheduler(mover)
    for name, gpus in (("a", 0), ("b", 0), ("d", 1)):
        lanes = {"cpu": 1, "gpu": gpus} if gpus else {"cpu": 1}
        scheduler.handle(WorkerJoined(name, Capacity(lanes, {"GPU": 1.0} if gpus else {}, None, 2)), 0.0)
    scheduler.handle(GraphSubmitted("c", 0, [spec("x"), spec("y")], range(2)), 0.0)
    task, worker = scheduler.state.tasks[1], scheduler.state.workers["b"]
    scheduler.state.suspects = task.prefix.gpu = True
    mover.move = task, worker
    commands = scheduler.handle(TimePassed(), 1.0)
    assert [(c.worker, [order.task for order in c.tasks]) for c in commands if isinstance(c, RunTasks)] == []
    assert (task.phase.name, task.executor) == ("READY", "gpu")
    commands = scheduler.handle(TimePassed(), 2.0)
    assert [(c.worker, [order.task for order in c.tasks]) for c in commands if isinstance(c, RunTasks)] == [("d", [1])]
