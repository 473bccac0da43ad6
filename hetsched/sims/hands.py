"""A worker: the mind that ships, with pretended hands under a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, assert_never

from hetsched.core.commands import WorkerCommand
from hetsched.core.events import CapacityChanged
from hetsched.core.evidence import Evidence
from hetsched.core.types import Capacity, Outcome, TaskId
from hetsched.worker.check import check
from hetsched.worker.instructions import (
    Announce,
    BatchExecuted,
    Drop,
    Execute,
    Fetch,
    Instruction,
    Item,
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

from .batch import LEFT, Batch
from .detection import sign_of
from .device import Device
from .memory import Memory
from .model import Machine, Task
from .network.transfer import Transfer
from .noise import factor
from .world import World

__all__ = ["SLICE_SECONDS", "Hands"]

SLICE_SECONDS: Final = 0.005
"""A batch that lasts longer hands the rest back, as ``hetsched.worker.running`` has it."""

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
        self.store: dict[TaskId, int] = {}
        """The results it holds, with their bytes."""
        self.values: dict[TaskId, int] = {}
        """Their values, where the simulation keeps them."""
        self.batches: dict[int, Batch] = {}
        self.stopped: set[TaskId] = set()
        self.memory = Memory(world.clock, self.store, machine.memory, machine.disk, self._memory_changed)
        self.device = Device(world.tasks, machine.pcie) if machine.pcie else None
        self.alive = True
        self.frozen = False
        self.busy: dict[str, float] = dict.fromkeys(slots, 0.0)
        """Seconds its slots of each executor were busy together."""
        self.unreachable = False
        """Whether nothing it says or is told arrives, for now."""
        self._backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What has happened to a frozen worker, which has not noticed."""
        self._measured = Transfers(name, partial(world.server.told, self))
        self._is_closed = False
        self._closing = [SlotsChanged(lane, count - _CLOSED) for lane, count in slots.items()]
        self._opening = [SlotsChanged(lane, count) for lane, count in slots.items()]
        self._places = {lane: self.number << 8 | world.trace.executor_number(lane) for lane in slots}
        self._kinds = {lane: machine.class_of(lane) for lane in slots}
        self._free_slots = {lane: list(range(count - 1, -1, -1)) for lane, count in slots.items()}

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
                        self._drop(task)
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
                self._keep(task, transfer.values.get(task, 0))
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
        self.batches.clear()
        self._backlog.clear()

    # Results

    def _keep(self, task: TaskId, value: int) -> None:
        nbytes = self.world.tasks[task].nbytes
        if task not in self.store:
            self.store[task] = nbytes
            self.memory.keep(nbytes)
        if self.world.has_values:
            self.values[task] = value

    def _drop(self, task: TaskId) -> None:
        nbytes = self.store.pop(task, None)
        if nbytes is not None:
            self.memory.forget(task, nbytes)
            self.values.pop(task, None)
            if self.device is not None:
                self.device.there.discard(task)

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
        """Find out what a batch will come to, and have its end happen."""
        executor, number, items, _ = order
        world = self.world
        batch = self.batches[number] = Batch(number, executor, self._free_slots[executor].pop())
        kind = self._kinds[executor]
        now = start = world.clock.now
        runs = batch.runs
        made: dict[TaskId, int] = {}
        for n, item in enumerate(items):
            value, error = self._foresee(item, made)
            stop = start if error is LEFT else start + self._seconds(item, kind)
            runs.append((item, start, stop, value, error))
            start = stop
            if stop - now > SLICE_SECONDS:
                batch.rest.extend(left[0] for left in items[n + 1 :])
                break
        world.clock.at(start, self.end, batch, 0)

    def _foresee(self, item: Item, made: dict[TaskId, int]) -> tuple[int, Any]:
        """The value a task will have, and its error; ``made`` are the values made before it in its batch."""
        task, attempt, _, inputs, _ = item
        store = self.store
        for i in inputs:
            if i not in store and i not in made:
                return 0, LEFT
        if task in self.stopped:
            return 0, LEFT
        world = self.world
        error = world.fails(task, attempt) if world.fails is not None else None
        if error is not None:
            return 0, error
        value = 0
        if world.has_values:
            value = world.value_of(task, [made[i] if i in made else self.values[i] for i in inputs])
        made[task] = value
        return value, None

    def _seconds(self, item: Item, kind: str) -> float:
        world = self.world
        scenario = world.scenario
        seconds = world.tasks[item[0]].seconds_on(kind) / self.machine.speed
        if world.is_noisy:
            seconds *= factor(scenario.noise, scenario.seed, item[0], item[1])
        if self.memory.on_disk:
            seconds += self.memory.read(item[3])
        if self.device is not None and item[3]:
            seconds += self.device.crossing(item[3], kind == "gpu", self.store)
        return seconds + scenario.overhead

    def end(self, batch: Batch, version: int) -> None:
        """A batch is through."""
        if batch.version != version or self._asleep(self.end, batch, version):
            return
        del self.batches[batch.number]
        self._free_slots[batch.executor].append(batch.slot)
        place = self._places[batch.executor]
        world = self.world
        trace = world.trace
        done: list[Outcome] = []
        failed: list[tuple[TaskId, int, Any, bool]] = []
        left: list[TaskId] = []
        missing: list[TaskId] = []
        keep: set[TaskId] = set()
        if not trace.is_over:
            self.busy[batch.executor] += batch.runs[-1][2] - batch.runs[0][1]
        for item, start, stop, value, error in batch.runs:
            task, attempt, _, inputs, drops = item
            if error is LEFT:
                left.append(task)
                missing.extend(i for i in inputs if i not in self.store)
                keep.update(inputs)
                continue
            trace.ran_task(task, place, batch.slot, attempt, start, stop, error is not None)
            if error is not None:
                failed.append((task, attempt, error, True))
                keep.update(inputs)
                self._drop(task)
                continue
            if task not in self.stopped:
                self._keep(task, value)
            for i in drops:
                if i not in keep:
                    self._drop(i)
            made = world.tasks[task]
            done.append((task, attempt, start, stop, made.nbytes, self._left_on_device(task, made, batch.executor)))
        if self.stopped:
            self.stopped.difference_update(batch.rest)
            self.stopped.difference_update(run[0][0] for run in batch.runs)
        seen = self._seen(done) if world.is_watched else ()
        self.feed(
            BatchExecuted(batch.number, done, failed, left + batch.rest, missing, seen, watched=world.is_watched)
        )

    def _left_on_device(self, number: TaskId, task: Task, executor: str) -> int:
        """Bytes of its result on a device; one that was only taken for a device's task leaves nothing there."""
        found = task.cuda_nbytes or 0 if self.world.is_looking and not task.is_gpu_task else task.on_device(executor)
        if self.device is not None and found:
            self.device.there.add(number)
        return found

    def _seen(self, done: Sequence[Outcome]) -> list[tuple[TaskId, Evidence]]:
        """What their runs have shown of a device."""
        scenario, tasks = self.world.scenario, self.world.tasks
        found = []
        for task, attempt, *_ in done:
            sign = sign_of(scenario.detection, tasks[task], task, attempt, scenario.seed)
            if sign is not None:
                found.append((task, sign))
        return found

    def _reclaim(self, number: int, count: int) -> None:
        batch = self.batches.get(number)
        taken: list[TaskId] = []
        if batch is not None:
            taken = batch.take_back(count, self.world.clock.now)
            self._foretell(batch)
            self.stopped.difference_update(taken)
        self._obey(self.mind.handle(TasksReclaimed(number, taken), self.world.clock.now))

    def _stop(self, tasks: Sequence[TaskId]) -> None:
        self.stopped.update(tasks)
        for batch in self.batches.values():
            if len(batch.runs) > 1:
                batch.skip(tasks, self.world.clock.now)
                self._foretell(batch)

    def _foretell(self, batch: Batch) -> None:
        """Its end has changed."""
        batch.version += 1
        self.world.clock.at(batch.end, self.end, batch, batch.version)
