"""How long the scheduler's process is busy with an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsched.core.commands import Command, RunTasks
from hetsched.core.events import Event, TasksFailed, TasksFinished
from hetsched.core.needs import Needs
from hetsched.core.state import State
from hetsched.core.types import Capacity, WorkerId

from .model import ServerCost

__all__ = ["Changes", "Thinking"]


class Changes:
    """Counts the changes of tasks' phases from now on, of a scheduler without plugins.

    It takes the place of plugins, which are told of such changes anyway (:class:`hetsched.core.steering.Steering`): so
    the scheduler that ships counts nothing itself, and does what it does without.
    """

    narrows = False
    again = False

    def __init__(self, state: State) -> None:
        self.count = 0
        state.steering = self

    def narrow(self, task: Any) -> Needs:
        """It has no say in where tasks run."""
        needs: Needs = task.needs
        return needs

    def moved(self, tasks: Sequence[Any], phase: str, cause: str, now: float) -> None:
        """Count them."""
        self.count += len(tasks)

    def changed(self, workers: Mapping[WorkerId, Capacity]) -> None:
        """Other workers are there: nothing changes."""

    def tell(self) -> None:
        """There is nobody to tell."""


class Thinking:
    """Tells for each event that was handled for how long the scheduler was busy with it, by what a scenario says."""

    def __init__(self, cost: ServerCost, state: State) -> None:
        self._cost = cost
        self._changes = Changes(state) if cost.transition else None
        self._counted = 0

    def seconds(self, event: Event, commands: Sequence[Command]) -> float:
        """Seconds for the event that has been handled last. Each has to be asked for, in turn."""
        cost = self._cost
        seconds = cost.event
        if cost.task:
            seconds += cost.task * _named(event, commands)
        changes = self._changes
        if changes is not None:
            seconds += cost.transition * (changes.count - self._counted)
            self._counted = changes.count
        return seconds


def _named(event: Event, commands: Sequence[Command]) -> int:
    """How many tasks an event and the orders that come of it name."""
    match event:
        case TasksFinished():
            count = len(event.outcomes)
        case TasksFailed():
            count = len(event.failures)
        case _:
            count = len(getattr(event, "tasks", ()))
    return count + sum(len(command.tasks) for command in commands if isinstance(command, RunTasks))
