"""The scheduler's answer to each event, claimed whole."""

from __future__ import annotations

import pytest

from hetsched.core.check import check
from hetsched.core.commands import CancelTasks, FreeKeys, KeysFailed, KeysReady, RunTask, RunTasks
from hetsched.core.events import (
    CapacityChanged,
    ClientLeft,
    GraphCancelled,
    GraphReleased,
    GraphSubmitted,
    InputsMissing,
    ReplicasAdded,
    TasksFailed,
    TasksFinished,
    WorkerJoined,
    WorkerLost,
)
from hetsched.core.needs import rank_of
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import Capacity, TaskSpec, prefix_of
from hetsched.errors import AnnotationError, NoWorkerError, ProtocolError


def noop(*inputs):
    return inputs


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, noop, (), None, dependencies, annotations or None)


def tupled(value):
    """The same with every list in it a tuple, so that only what is said counts."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(tupled, value))
    return tuple(map(tupled, value)) if isinstance(value, (list, tuple)) else value


class Bench:
    """A scheduler that is checked after each event and answers in tuples."""

    def __init__(self, *, policy="earliest_finish", **options):
        self.scheduler = Scheduler(policy, Options(**options))
        self.now = 0.0
        self.specs = {}

    def __call__(self, event):
        self.now += 1.0
        if isinstance(event, GraphSubmitted):
            base = self.scheduler.state.next_id
            self.specs.update((base + i, s) for i, s in enumerate(event.tasks))
        try:
            return [tupled(command) for command in self.scheduler.handle(event, self.now)]
        finally:
            check(self.scheduler.state)

    def join(self, name, *, window=0, pool=None, resources=None, **executors):
        return self(WorkerJoined(name, Capacity(executors or {"cpu": 1}, resources or {}, pool, window)))

    def submit(self, tasks, wanted, graph=0, client="c", **more):
        return self(GraphSubmitted(client, graph, tasks, wanted, **more))

    def order(self, worker, *tasks):
        """What a RunTasks for these must be; a task is its id or ``(id, the fields that differ)``."""
        return RunTasks(worker, tuple(self.task(*t) if isinstance(t, tuple) else self.task(t) for t in tasks))

    def task(self, task, **fields):
        s = self.specs[task]
        base = task - next(i for i in range(task + 1) if self.specs.get(task - i) is None or i == task)
        del base
        made = RunTask(task, task, s, prefix_of(s.key), "cpu", fields.pop("inputs", ()))
        return made._replace(**fields)
