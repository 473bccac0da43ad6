"""What a simulated worker's slots run: foreseen when a batch begins, told when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hetsched.core.evidence import Evidence
from hetsched.core.types import Outcome, TaskId
from hetsched.worker.instructions import BatchExecuted, Execute, Item

from .batch import LEFT, Batch
from .detection import sign_of
from .model import Machine, Task
from .noise import factor
from .shelf import Shelf
from .world import World

__all__ = ["SLICE_SECONDS", "Slots"]

SLICE_SECONDS: Final = 0.005
"""A batch that lasts longer hands the rest back, as ``hetsched.worker.running`` has it."""


class Slots:
    """The slots of the worker of this ``number``, and the batches in them."""

    def __init__(self, world: World, machine: Machine, number: int, shelf: Shelf) -> None:
        self.batches: dict[int, Batch] = {}
        self.stopped: set[TaskId] = set()
        slots = machine.slots()
        self.busy: dict[str, float] = dict.fromkeys(slots, 0.0)
        """Seconds its slots of each executor were busy together."""
        self._world = world
        self._shelf = shelf
        self._speed = machine.speed
        self._places = {lane: number << 8 | world.trace.executor_number(lane) for lane in slots}
        self._kinds = {lane: machine.class_of(lane) for lane in slots}
        self._free_slots = {lane: list(range(count - 1, -1, -1)) for lane, count in slots.items()}

    def begin(self, order: Execute) -> Batch:
        """Find out what a batch will come to."""
        executor, number, items, _ = order
        batch = self.batches[number] = Batch(number, executor, self._free_slots[executor].pop())
        kind = self._kinds[executor]
        now = start = self._world.clock.now
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
        return batch

    def _foresee(self, item: Item, made: dict[TaskId, int]) -> tuple[int, Any]:
        """The value a task will have, and its error; ``made`` are the values made before it in its batch."""
        task, attempt, _, inputs, _ = item
        store = self._shelf.store
        for i in inputs:
            if i not in store and i not in made:
                return 0, LEFT
        if task in self.stopped:
            return 0, LEFT
        world = self._world
        error = world.fails(task, attempt) if world.fails is not None else None
        if error is not None:
            return 0, error
        value = 0
        if world.has_values:
            value = world.value_of(task, [made[i] if i in made else self._shelf.values[i] for i in inputs])
        made[task] = value
        return value, None

    def _seconds(self, item: Item, kind: str) -> float:
        world = self._world
        scenario = world.scenario
        seconds = world.tasks[item[0]].seconds_on(kind) / self._speed
        if world.is_noisy:
            seconds *= factor(scenario.noise, scenario.seed, item[0], item[1])
        if self._shelf.memory.on_disk:
            seconds += self._shelf.memory.read(item[3])
        device = self._shelf.device
        if device is not None and item[3]:
            seconds += device.crossing(item[3], kind == "gpu", self._shelf.store)
        return seconds + scenario.overhead

    def end(self, batch: Batch) -> BatchExecuted:
        """A batch is through: keep what it made, and tell what came of it."""
        del self.batches[batch.number]
        self._free_slots[batch.executor].append(batch.slot)
        place = self._places[batch.executor]
        world = self._world
        trace = world.trace
        shelf = self._shelf
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
                missing.extend(i for i in inputs if i not in shelf.store)
                keep.update(inputs)
                continue
            trace.ran_task(task, place, batch.slot, attempt, start, stop, error is not None)
            if error is not None:
                failed.append((task, attempt, error, True))
                keep.update(inputs)
                shelf.drop(task)
                continue
            if task not in self.stopped:
                shelf.keep(task, value)
            for i in drops:
                if i not in keep:
                    shelf.drop(i)
            made = world.tasks[task]
            done.append((task, attempt, start, stop, made.nbytes, self._left_on_device(task, made, batch.executor)))
        if self.stopped:
            self.stopped.difference_update(batch.rest)
            self.stopped.difference_update(run[0][0] for run in batch.runs)
        seen = self._seen(done) if world.is_watched else ()
        return BatchExecuted(batch.number, done, failed, left + batch.rest, missing, seen, watched=world.is_watched)

    def _left_on_device(self, number: TaskId, task: Task, executor: str) -> int:
        """Bytes of its result on a device; one that was only taken for a device's task leaves nothing there."""
        found = task.cuda_nbytes or 0 if self._world.is_looking and not task.is_gpu_task else task.on_device(executor)
        if self._shelf.device is not None and found:
            self._shelf.device.there.add(number)
        return found

    def _seen(self, done: Sequence[Outcome]) -> list[tuple[TaskId, Evidence]]:
        """What their runs have shown of a device."""
        scenario, tasks = self._world.scenario, self._world.tasks
        found = []
        for task, attempt, *_ in done:
            sign = sign_of(scenario.detection, tasks[task], task, attempt, scenario.seed)
            if sign is not None:
                found.append((task, sign))
        return found

    def take_back(self, batch: Batch, count: int) -> list[TaskId]:
        """Take tasks that have not begun out of a batch, whose end may come sooner then."""
        taken = batch.take_back(count, self._world.clock.now)
        self.stopped.difference_update(taken)
        return taken

    def stop(self, tasks: Sequence[TaskId]) -> list[Batch]:
        """Have these not run, if they have not begun; return the batches whose end may come sooner then."""
        self.stopped.update(tasks)
        found = [batch for batch in self.batches.values() if len(batch.runs) > 1]
        for batch in found:
            batch.skip(tasks, self._world.clock.now)
        return found
