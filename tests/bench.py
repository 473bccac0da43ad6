"""A scheduler on a bench: checked after each event, its orders shown in short."""

from __future__ import annotations

from hetsched.core.check import check
from hetsched.core.commands import CancelTasks, FetchKeys, FreeKeys, KeysReady, RunTask, RunTasks
from hetsched.core.events import GraphSubmitted, TasksFinished, WorkerJoined
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import Capacity, TaskSpec

__all__ = ["Bench", "run", "spec"]


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, len, (), None, dependencies, annotations or None)


class Bench:
    """A scheduler that is checked after each event and shows its orders in short.

    An order is shown as ``(id, attempt, inputs)`` with ``{input: holders}`` behind it where it names any; all tasks
    here have the same prefix, executor and priority, which ``core/test_scheduler.py`` is about.
    """

    def __init__(self, *workers, window=1, policy="round_robin", **options):
        self.scheduler = Scheduler(policy, Options(**options))
        self.now = 0.0
        for name in workers:
            self(WorkerJoined(name, Capacity({"cpu": 1}, {}, None, window)))

    def __call__(self, event):
        self.now += 1.0
        commands = self.scheduler.handle(event, self.now)
        check(self.scheduler.state)
        return [self.shown(command) for command in commands]

    def shown(self, command):
        match command:
            case RunTasks(worker, tasks):
                return "run", worker, [shown(order) for order in tasks]
            case CancelTasks(worker, tasks):
                return "cancel", worker, list(tasks)
            case FreeKeys(worker, tasks):
                return "free", worker, list(tasks)
            case FetchKeys(worker, holders):
                return "fetch", worker, {task: list(who) for task, who in holders}
            case KeysReady(_, _, ready):
                return "ready", [(position, list(holders)) for position, _, holders in ready]
        return command

    def join(self, name, window=1):
        return self(WorkerJoined(name, Capacity({"cpu": 1}, {}, None, window)))

    def submit(self, tasks, wanted):
        return self(GraphSubmitted("c", 0, tasks, wanted))

    def done(self, worker, *tasks, attempt=0):
        return self(TasksFinished(worker, "cpu", [(task, attempt, 0.0, 1.0, 8, 0) for task in tasks]))


def shown(order: RunTask):
    short = (order.task, order.attempt, list(order.inputs))
    return (*short, {task: list(who) for task, who in order.holders}) if order.holders else short


def run(worker, *orders):
    return "run", worker, list(orders)
