"""Tasks that no worker could run are told of, once, and given up where they may not wait for ever."""

from __future__ import annotations

from hetsched.core.check import check
from hetsched.core.commands import KeysFailed
from hetsched.core.events import CapacityChanged, GraphReleased, GraphSubmitted, TasksStranded, WorkerJoined
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.server.stranded import Plight, Stranded


def waiting(*keys):
    """A scheduler with a worker, and a client whose last tasks need what it has not."""
    scheduler = Scheduler()
    scheduler.handle(WorkerJoined("w", Capacity({"cpu": 1}, {"GPU": 2}, "A")), 0)
    needy = {"resources": {"TPU": 1}}
    tasks = [TaskSpec("easy", print), *(TaskSpec(key, print, annotations=needy) for key in keys)]
    scheduler.handle(GraphSubmitted("c", 1, tasks, range(len(tasks))), 0)
    return scheduler


def test_what_nobody_can_run_is_said_once():
    scheduler = waiting("load-1", "load-2", "sum-1")
    stranded = Stranded(after=5)
    looks = [stranded.look(scheduler.state, now) for now in (0.0, 4.9, 5.0, 6.0)]
    said = (
        "3 tasks wait for a worker that could run them ('load', 'sum'): executor 'cpu': 1 of 1 worker; "
        "resources TPU=1: 0 of 1; together: none; the cluster has executors cpu; of resources at most GPU=2 on a "
        "worker; pools A"
    )
    assert looks == [([], []), ([], []), ([Plight(said, ("c",), (1, 2, 3))], []), ([], [])]
    assert stranded.standing(scheduler.state) == [said]
    scheduler.handle(WorkerJoined("tpu", Capacity({"cpu": 1}, {"TPU": 1})), 7)
    assert stranded.look(scheduler.state, 7.0) == ([], [])
    assert stranded.standing(scheduler.state) == []


def test_without_workers():
    scheduler = Scheduler()
    scheduler.handle(GraphSubmitted("c", 1, [TaskSpec("a", print)], [0]), 0)
    stranded = Stranded(after=0)
    said = "a task waits for a worker that could run it ('a'): there are no workers (it needs executor 'cpu')"
    assert stranded.look(scheduler.state, 0.0) == ([Plight(said, ("c",), (0,))], [])
    scheduler.handle(GraphReleased("c", 1), 1)
    assert stranded.standing(scheduler.state) == []


def test_what_has_waited_too_long_fails():
    scheduler = waiting("load-1", "load-2")
    stranded = Stranded(after=None, limit=5)
    assert stranded.look(scheduler.state, 0.0) == ([], [])
    ((said, _),) = [line.split(": ", 1) for line in stranded.standing(scheduler.state)]  # who asks is told all the same
    assert said == "2 tasks wait for a worker that could run them ('load')"
    assert stranded.look(scheduler.state, 5.0) == ([], [1, 2])
    (failed,) = scheduler.handle(TasksStranded([1, 2], 5), 5.0)
    check(scheduler.state)
    assert isinstance(failed, KeysFailed)
    assert failed[:4] == ("c", 1, [1, 2], 1)
    assert str(failed.error) == (
        "no worker can run the task 'load-1', and none came within 5 s: executor 'cpu': 1 of 1 worker; "
        "resources TPU=1: 0 of 1; together: none"
    )
    assert stranded.look(scheduler.state, 6.0) == ([], [])
    # One that has come meanwhile is waited for no longer.
    scheduler = waiting("load-1")
    scheduler.handle(WorkerJoined("tpu", Capacity({"io": 1}, {"TPU": 1})), 1)
    assert len(scheduler.handle(TasksStranded([1], 5), 5.0)) == 1
    scheduler = waiting("load-1")
    scheduler.handle(WorkerJoined("tpu", Capacity({"cpu": 1}, {"TPU": 1})), 1)
    assert scheduler.handle(TasksStranded([1], 5), 5.0) == []


def test_a_worker_that_will_have_slots_again_is_waited_for() -> None:
    scheduler = Scheduler()
    scheduler.handle(WorkerJoined("w", Capacity({"cpu": 1})), 0)
    scheduler.handle(CapacityChanged("w", Capacity({"cpu": 0})), 0)
    scheduler.handle(GraphSubmitted("c", 1, [TaskSpec("a", print)], [0]), 0)
    stranded = Stranded(after=1, limit=5)
    stranded.look(scheduler.state, 0.0)
    said = (
        "a task waits for a worker that could run it ('a'): executor 'cpu': 0 of 1 worker; together: none; 1 more when "
        "slots there are free (paused now, or busy with what was cancelled); the cluster has no executor that takes "
        "tasks now; no resources; no pools"
    )
    assert stranded.look(scheduler.state, 5.0) == ([Plight(said, ("c",), (0,))], [])
    assert scheduler.handle(TasksStranded([0], 5), 5.0) == []
    check(scheduler.state)
