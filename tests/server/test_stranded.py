"""Tasks that no worker could run are told of, once."""

from __future__ import annotations

from hetsched.core.events import GraphSubmitted, WorkerJoined
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.server.stranded import Stranded


def test_what_nobody_can_run_is_said_once():
    scheduler = Scheduler()
    scheduler.handle(WorkerJoined("w", Capacity({"cpu": 1})), 0)
    needy = {"resources": {"TPU": 1}}
    tasks = [TaskSpec("easy", print), *(TaskSpec(key, print, annotations=needy) for key in "ab")]
    scheduler.handle(GraphSubmitted("c", 1, tasks, [0, 1, 2]), 0)
    stranded = Stranded(after=5)
    looks = [stranded.look(scheduler.state, now) for now in (0.0, 4.9, 5.0, 6.0)]
    workers = "workers that satisfy executor 'cpu': 1 of 1; resource TPU=1: 0 of 1"
    said = f"2 tasks wait for a worker that could run them: {workers}"
    assert looks == [[], [], [said], []]
    scheduler.handle(WorkerJoined("tpu", Capacity({"cpu": 1}, {"TPU": 1})), 7)
    assert stranded.look(scheduler.state, 7.0) == []
