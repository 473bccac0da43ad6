"""Which results are on a worker's devices, and how long it takes to bring others there or those back to the host."""

from __future__ import annotations

from collections.abc import Container, Sequence

from hetsched.core.types import TaskId

from .model import Task

__all__ = ["Device"]


class Device:
    """The devices of one worker behind a bus of ``pcie`` bytes per second each way.

    A task crosses the bus with what it reads of the other side, each time it runs, as code does that takes host arrays
    to a device itself. What is sent to others from a device crosses it too, and there shares it: see
    :meth:`hetsched.sims.network.topology.Topology.from_device`.
    """

    __slots__ = ("_pcie", "_tasks", "there")

    def __init__(self, tasks: Sequence[Task], pcie: float) -> None:
        self._tasks = tasks
        self._pcie = pcie
        self.there: set[TaskId] = set()
        """The results that are on a device."""

    def crossing(self, inputs: Sequence[TaskId], on_gpu: bool, held: Container[TaskId]) -> float:
        """Seconds until a task has its inputs on its side; what is not ``held`` yet was made just before on its own."""
        crosses = [i for i in inputs if i in held and (i in self.there) is not on_gpu]
        return sum(self._tasks[i].nbytes for i in crosses) / self._pcie
