"""A worker: the mind that ships, with pretended hands under a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, assert_never

from hetsched.core.commands import WorkerCommand
from hetsched.core.events import CapacityChanged
from hetsched.core.types import Capacity, TaskId
from hetsched.worker.check import check
from hetsched.worker.instructions import (
    Announce,
    Drop,
    Execute,
    Fetch,
    Instruction,
    KeysFetched,
    Reclaim,
    SlotsChanged,
    Stop,
    TasksReclaimed,
    Tell,
    WorkerInput,
)
from hetsched.worker.state import WorkerState
from hetsched.worker.thresholds import MemoryState
from hetsched.worker.transfers import Transfers

from .batch import Batch
from .model import Machine
from .network.transfer import Transfer
from .shelf import Shelf
from .slots import Slots
from .world import World

__all__ = ["Hands"]

_CLOSED: Final = 1 << 40


class Hands:
    """A worker on a machine.

    All that it is told at an instant it is told *before* it starts anything: meanwhile its mind is told that it has no
    slots, and at the end of the instant (:meth:`open`) that it has them again.
    """

    def __init__(self, world: World, machine: Machine, name: str) -> None:
        self.world = world
        self.machine = machine
        self.name = name
        slots = machine.slots()
        self.mind = WorkerState(name, slots, machine.all_resources())
        self.number = world.trace.number_of(name)
        self.shelf = shelf = self.make_shelf()
        self.store = shelf.store
        self.values = shelf.values
        self.memory = shelf.memory
        self.device = shelf.device
        self.slots = Slots(world, machine, self.number, shelf)
        self.busy = self.slots.busy
        self.alive = True
        self.frozen = False
        self.unreachable = False
        """Whether nothing it says or is told arrives, for now."""
        self._backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What has happened to a frozen worker, which has not noticed."""
        self._measured = Transfers(name, partial(world.server.told, self))
        self._is_closed = False
        self._closing = [SlotsChanged(lane, count - _CLOSED) for lane, count in slots.items()]
        self._opening = [SlotsChanged(lane, count) for lane, count in slots.items()]

    def make_shelf(self) -> Shelf:
        """Make what it keeps results in."""
        return Shelf(self.world, self.machine, self._memory_changed)

    def capacity(self) -> Capacity:
        """What it announces."""
        m = self.machine
        return Capacity(m.slots(), m.all_resources(), m.pool, m.window, m.ahead)

    # The mind

    def feed(self, event: WorkerInput) -> None:
        """Tell the mind something; what it wants started is started at the end of the instant."""
        world = self.world
        clock = world.clock
        now = clock.now
        if clock.alone and world.is_slow:
            clock.alone = False  # nothing else can come at this instant, but what this call says next
        elif not self._is_closed:
            self._is_closed = True
            world.touched.append(self)
            for closing in self._closing:
                self.mind.handle(closing, now)
        self._obey(self.mind.handle(event, now))
        if world.is_checked:
            check(self.mind)

    def open(self) -> None:
        """Start what can be started: the instant is over."""
        self._is_closed = False
        if self.alive:
            now = self.world.clock.now
            for opening in self._opening:
                self._obey(self.mind.handle(opening, now))
            if self.world.is_checked:
                check(self.mind)

    def _obey(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Execute():
                    self._execute(instruction)
                case Tell():
                    self.world.server.told(self, instruction.message)
                case Drop():
                    for task in instruction.tasks:
                        self.shelf.drop(task)
                case Fetch():
                    self.world.network.ask(self, instruction.peer, instruction.tasks)
                case Stop():
                    self._stop(instruction.tasks)
                case Reclaim():
                    self._reclaim(instruction.batch, instruction.tasks)
                case Announce():
                    raise AssertionError("nobody has said that patience has ended")
                case _:
                    assert_never(instruction)

    # What happens to it

    def _asleep(self, call: Callable[..., None], *what: Any) -> bool:
        """Tell whether it cannot notice this: never, or not now, so that it is kept for later."""
        if self.frozen and self.alive:
            self._backlog.append((call, what))
        return self.frozen or not self.alive

    def deliver(self, command: WorkerCommand, _: Any = None) -> None:
        """An order has come."""
        if not self._asleep(self.deliver, command):
            self.feed(command)

    def receive(self, transfer: Transfer) -> None:
        """What was asked of a peer has come, or has not."""
        if not self._asleep(self.receive, transfer):
            for task in transfer.came:
                self.shelf.keep(task, transfer.values.get(task, 0))
            if transfer.came and self.machine.pool is not None:
                now = self.world.clock.now
                self._measured.note(transfer.source, transfer.nbytes, now - transfer.sent)
                self._measured.tell(now)
            self.feed(KeysFetched(transfer.source, transfer.came, transfer.missing))

    def freeze(self) -> None:
        """Do nothing, and notice nothing, until :meth:`thaw`."""
        self.frozen = True

    def thaw(self) -> None:
        """Go on, with all that has happened meanwhile."""
        self.frozen = False
        backlog, self._backlog = self._backlog, []
        for call, what in backlog:
            call(*what)

    def die(self) -> None:
        """The process has ended, and all it held is gone."""
        self.alive = False
        self.store.clear()
        self.values.clear()
        self.slots.batches.clear()
        self._backlog.clear()

    # Memory

    def _memory_changed(self, state: MemoryState) -> None:
        """Tell the scheduler to wait, or that it may go on; or end."""
        if self._asleep(self._memory_changed, state):
            return
        world = self.world
        world.trace.note(world.clock.now, state, self.name)
        if state == "terminate":
            world.out_of_memory(self)
            return
        capacity = self.capacity()
        if state == "paused":
            capacity = capacity._replace(executors=dict.fromkeys(capacity.executors, 0))
        world.server.told(self, CapacityChanged(self.name, capacity))

    # Running

    def _execute(self, order: Execute) -> None:
        """Begin a batch, and have its end happen."""
        batch = self.slots.begin(order)
        self.world.clock.at(batch.end, self.end, batch, 0)

    def end(self, batch: Batch, version: int) -> None:
        """A batch is through."""
        if batch.version != version or self._asleep(self.end, batch, version):
            return
        self.feed(self.slots.end(batch))

    def _reclaim(self, number: int, count: int) -> None:
        batch = self.slots.batches.get(number)
        taken: list[TaskId] = []
        if batch is not None:
            taken = self.slots.take_back(batch, count)
            self._foretell(batch)
        self._obey(self.mind.handle(TasksReclaimed(number, taken), self.world.clock.now))

    def _stop(self, tasks: Sequence[TaskId]) -> None:
        for batch in self.slots.stop(tasks):
            self._foretell(batch)

    def _foretell(self, batch: Batch) -> None:
        """Its end has changed."""
        batch.version += 1
        self.world.clock.at(batch.end, self.end, batch, batch.version)
