"""What the scheduler says, carried to the workers and clients that are connected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from hetsched.core.commands import (
    CancelTasks,
    Command,
    FetchKeys,
    FreeKeys,
    KeysFailed,
    KeysReady,
    MoveTasks,
    RunTasks,
    WorkerCommand,
)

from .links import ClientLink, WorkerLink

__all__ = ["Post"]


class Post:
    """The links of all who are here, and the way of the scheduler's commands to them.

    ``workers`` and ``clients`` by name; ``where`` are the addresses at which those workers that have joined give away
    results. Who comes and goes is the server's to note.
    """

    __slots__ = ("clients", "where", "workers")

    def __init__(self) -> None:
        self.workers: dict[str, WorkerLink] = {}
        self.clients: dict[str, ClientLink] = {}
        self.where: dict[str, str] = {}

    def deliver(self, commands: Sequence[Command]) -> None:
        """Put commands into the outboxes of those they are for."""
        for command in commands:
            match command:
                case KeysReady():
                    self._tell_ready(command)
                case KeysFailed():
                    self._tell_failed(command)
                case _:
                    self._order(command)

    def clear_out(self, gone: Sequence[int | bytes]) -> None:
        """Have workers drop these payloads and functions, of which no task speaks any more."""
        for link in self.workers.values() if gone else ():
            drop = link.supplies.drop(link.name, gone)
            if drop is not None:
                link.say(drop)

    def _order(self, command: WorkerCommand) -> None:
        """Send a worker what it is told to do; nothing where it has just gone."""
        link = self.workers.get(command.worker)
        if link is None:
            return
        match command:
            case RunTasks(worker, tasks):
                link.say(*link.supplies.orders(worker, tasks, self.where))
            case FetchKeys(worker, holders):
                where = self.where
                found = [(i, tuple(where[w] for w in names if w in where)) for i, names in holders]
                link.say(FetchKeys(worker, found))
            case CancelTasks() | FreeKeys() | MoveTasks():
                link.say(command)
            case _:
                assert_never(command)

    def _tell_ready(self, command: KeysReady) -> None:
        link = self.clients.get(command.client)
        if link is not None:
            where = self.where
            ready = [(p, task, [where[w] for w in names if w in where]) for p, task, names in command.ready]
            link.say(command._replace(ready=ready))  # type: ignore[arg-type]

    def _tell_failed(self, command: KeysFailed) -> None:
        link = self.clients.get(command.client)
        if link is not None:
            error = command.error
            if isinstance(error, BaseException):
                error = ("said", type(error).__name__, str(error))
            size = len(error[1]) if isinstance(error, tuple) and len(error) > 1 and isinstance(error[1], bytes) else 0
            link.say(command._replace(error=error), nbytes=size)
