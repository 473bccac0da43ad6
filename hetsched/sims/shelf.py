"""The results that a worker holds: their bytes, their values, and where they are."""

from __future__ import annotations

from collections.abc import Callable

from hetsched.core.types import TaskId
from hetsched.worker.thresholds import MemoryState

from .device import Device
from .memory import Memory
from .model import Machine
from .world import World

__all__ = ["Shelf"]


class Shelf:
    """Where a worker on a ``machine`` keeps results. ``changed`` is told a new state of its memory."""

    def __init__(self, world: World, machine: Machine, changed: Callable[[MemoryState], None]) -> None:
        self.world = world
        self.store: dict[TaskId, int] = {}
        """The results it holds, with their bytes."""
        self.values: dict[TaskId, int] = {}
        """Their values, where the simulation keeps them."""
        self.memory = Memory(world.clock, self.store, machine.memory, machine.disk, changed)
        self.device = Device(world.tasks, machine.pcie) if machine.pcie else None

    def keep(self, task: TaskId, value: int) -> None:
        """Take a result in."""
        nbytes = self.world.tasks[task].nbytes
        if task not in self.store:
            self.store[task] = nbytes
            self.memory.keep(nbytes)
        if self.world.has_values:
            self.values[task] = value

    def drop(self, task: TaskId) -> None:
        """Let a result go, if it is there."""
        nbytes = self.store.pop(task, None)
        if nbytes is not None:
            self.memory.forget(task, nbytes)
            self.values.pop(task, None)
            if self.device is not None:
                self.device.there.discard(task)
