"""Fixed placement: in the scheduler's place, a mind that was told where each task runs, and tells of results early.

The scheduler that ships tells a worker to fetch an input when it has chosen that worker for a task whose inputs all
exist. Reference cases with a fixed placement go by other rules: what a task makes is fetched at once by every worker
that will need it. So they are run by this mind, which speaks the scheduler's language and drives the same workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hetsched.core.commands import Command, FetchKeys, KeysReady, RunTask, RunTasks
from hetsched.core.events import Event, GraphSubmitted, TasksFinished
from hetsched.core.needs import rank_of
from hetsched.core.state import State
from hetsched.core.types import TaskId, TaskSpec, WorkerId
from hetsched.worker.instructions import SlotsChanged
from hetsched.worker.thresholds import MemoryState

from .hands import Hands
from .model import Machine
from .shelf import Shelf
from .world import World

__all__ = ["CORES", "FixedHands", "FixedMind", "FixedTask", "StrictHands"]

CORES = "cores"
"""The resource that stands for a worker's cores, of which a task may take several."""

_SOON = 100_000
"""What comes for a task all of whose inputs have been made goes before anything else."""


class FixedTask(NamedTuple):
    """A task: its worker, its priority (unique; the greater first), its cores, and the outputs it reads and makes.

    An output is a number of its own, from the number of tasks on; ``inputs`` are ``(its maker, its number)``.
    """

    worker: WorkerId
    priority: int
    cores: int
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]


class FixedMind:
    """Runs each task where it belongs, and has outputs fetched as soon as they are made."""

    def __init__(self, tasks: Sequence[FixedTask]) -> None:
        self.state = State()
        self.due: float | None = None
        self.tasks = tasks
        self._specs: Sequence[TaskSpec] = ()
        self._left = [len({maker for maker, _ in task.inputs}) for task in tasks]
        """Of each task how many of its makers have not run."""
        self._readers: dict[int, list[int]] = {}
        self._dependents: list[list[int]] = [[] for _ in tasks]
        for number, task in enumerate(tasks):
            for maker in dict.fromkeys(maker for maker, _ in task.inputs):
                self._dependents[maker].append(number)
            for _, output in task.inputs:
                self._readers.setdefault(output, []).append(number)

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take note of an event; return what is to be done."""
        match event:
            case GraphSubmitted():
                self._specs = event.tasks
                return self._run([n for n, left in enumerate(self._left) if not left])
            case TasksFinished():
                return [c for outcome in event.outcomes for c in self._finished(outcome[0], event.worker)]
            case _:
                return []

    def _finished(self, number: int, worker: WorkerId) -> list[Command]:
        out: list[Command] = []
        ready = []
        for reader in self._dependents[number]:
            self._left[reader] -= 1
            if not self._left[reader]:
                ready.append(reader)
        for output in self.tasks[number].outputs:
            targets = dict.fromkeys(self.tasks[reader].worker for reader in self._readers.get(output, ()))
            out += [FetchKeys(target, [(output, (worker,))]) for target in targets if target != worker]
        out += self._run(ready)
        out.append(KeysReady("client", 0, [(number, number, (worker,))]))
        return out

    def _run(self, numbers: Sequence[int]) -> list[Command]:
        return [RunTasks(self.tasks[n].worker, [self._order(n)]) for n in numbers]

    def _order(self, n: int) -> RunTask:
        task = self.tasks[n]
        inputs = [maker if self.tasks[maker].worker == task.worker else output for maker, output in task.inputs]
        rank = rank_of(0, task.priority, n)
        resources = ((CORES, float(task.cores)),)
        return RunTask(n, rank, self._specs[n], f"{n}~", "cpu", list(dict.fromkeys(inputs)), 0, 0, resources)

    def urgency(self, worker: WorkerId, output: TaskId) -> float:
        """The priority of fetching an output to a worker, as things are now."""
        here = [reader for reader in self._readers[output] if self.tasks[reader].worker == worker]
        return max(self.tasks[reader].priority + (0 if self._left[reader] else _SOON) for reader in here)


class FixedShelf(Shelf):
    """Keeps each of a task's outputs beside its result."""

    def __init__(
        self, world: World, machine: Machine, changed: Callable[[MemoryState], None], outputs: Sequence[Sequence[int]]
    ) -> None:
        super().__init__(world, machine, changed)
        self._outputs = outputs

    def keep(self, task: TaskId, value: int) -> None:
        """Take a result in, and with it the outputs of its task."""
        super().keep(task, value)
        if task < len(self._outputs):
            for output in self._outputs[task]:
                super().keep(output, value)


class FixedHands(Hands):
    """A worker that can be asked for each of a task's outputs."""

    def __init__(self, world: World, machine: Machine, name: str, outputs: Sequence[Sequence[int]]) -> None:
        self._outputs = outputs
        super().__init__(world, machine, name)

    def make_shelf(self) -> Shelf:
        """Make what it keeps results and outputs in."""
        return FixedShelf(self.world, self.machine, self._memory_changed, self._outputs)


class StrictHands(FixedHands):
    """A worker that starts nothing while the task of the highest priority does not fit."""

    def open(self) -> None:
        """Start tasks one by one, the first first, while they fit."""
        self._is_closed = False
        mind, now = self.mind, self.world.clock.now
        lane = mind.slots.lanes["cpu"]
        while True:
            job = lane.ready.first()
            if job is None or any(mind.slots.available[name] < amount for name, amount in job.resources):
                return
            self._obey(mind.handle(SlotsChanged("cpu", lane.slots - lane.free + 1), now))
