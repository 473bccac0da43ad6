"""Plugins that tests have loaded by their names."""

from __future__ import annotations

from hetsched import Plugin


class Shelf(Plugin):
    """Tasks with ``shelf=n`` run on the worker whose name ends so; with ``shelf=None`` on none."""

    def valid_workers(self, task, workers):
        if "shelf" not in task.annotations:
            return None
        return [worker for worker in workers if worker.name.endswith(f"-{task.annotations['shelf']}")]


class Clumsy(Plugin):
    """Raises when it hears of tasks of a certain kind."""

    def task_moved(self, task, phase, why, now):
        if task.prefix == "clumsy":
            raise RuntimeError(f"dropped {task.key}")


class Refuses(Plugin):
    def __init__(self):
        raise ValueError("not today")


shelf = Shelf()
number = 3
