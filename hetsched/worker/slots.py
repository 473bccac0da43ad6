"""The slots of a worker's executors: which batch each has, what it may start next, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hetsched.core.needs import DEEPER
from hetsched.core.types import TaskId

from .admission import NO_DEVICE, Admission
from .batching import fullest, items_of, pick
from .instructions import ANY_DEVICE, BatchExecuted, Execute, Instruction, Reclaim
from .jobs import QUEUED, READY, WAITING, Batch, Job, Lane
from .lanes import GPU, misplaced, shift

__all__ = ["Slots"]


class Slots:
    """Lanes with what waits for them, the batches that are out, and the resources that those leave."""

    __slots__ = ("_next_batch", "admission", "available", "batches", "lanes", "total")

    def __init__(self, executors: Mapping[str, int], resources: Mapping[str, float], devices: int) -> None:
        self.lanes: dict[str, Lane] = {name: Lane(slots) for name, slots in executors.items()}
        self.batches: dict[int, Batch] = {}
        self.total = dict(resources)
        self.available: dict[str, float] = dict(resources)
        self.admission = Admission(devices, executors.get(GPU, 0))
        self._next_batch = 0

    def fill(self, known: dict[TaskId, Job], out: list[Instruction]) -> None:
        """Give every free slot a batch, as far as there is anything to do."""
        for executor, lane in self.lanes.items():
            waiting = lane.ready.levels
            if not waiting and lane.free == lane.slots:
                continue
            while lane.free > 0:
                if not waiting:
                    self._reclaim_for(executor, out)
                    break
                deeper = not lane.yielded or _is_deeper(lane)
                if not deeper and lane.free <= len(lane.yielded):
                    break
                device = ANY_DEVICE
                if executor == GPU:
                    device = self.admission.place(lane, self.batches.values(), executor, known, deeper)
                    if device == NO_DEVICE:
                        break
                jobs = pick(lane, executor, self.available, device, known)
                if not jobs:
                    break
                lane.free -= 1
                number = self._next_batch
                self._next_batch += 1
                batch = self.batches[number] = Batch(number, executor, jobs[0].resources)
                batch.level = jobs[0].level
                batch.device = device
                self._take_resources(batch, -1.0)
                out.append(Execute(executor, number, items_of(batch, jobs, known), device))

    def _take_resources(self, batch: Batch, sign: float) -> None:
        for name, amount in batch.resources:
            self.available[name] = self.available.get(name, 0.0) + sign * amount

    def _reclaim_for(self, executor: str, out: list[Instruction]) -> None:
        """A slot is free and nothing waits: share out the batch of another that has most to share."""
        most = fullest(self.batches.values(), executor)
        if most is not None:
            most.asked = True
            out.append(Reclaim(most.number, len(most.jobs) // 2))

    def resize(self, executor: str, slots: int) -> None:
        """An executor has so many slots from now on; those that are busy beyond that end what they are at."""
        lane = self.lanes.setdefault(executor, Lane(slots))
        if lane.slots != slots:
            lane.free += slots - lane.slots
            lane.slots = slots

    def give_up(self, number: int, out: list[Instruction]) -> None:
        """A task waits inside of itself: others may have its batch's slot and the rest of the batch meanwhile."""
        batch = self.batches[number]
        batch.yielded = True
        lane = self.lanes[batch.executor]
        lane.free += 1
        if batch.executor == GPU:
            lane.yielded.append(batch.level)
        self._take_resources(batch, 1.0)
        if len(batch.jobs) > 1:
            out.append(Reclaim(number, len(batch.jobs)))

    def regain(self, number: int) -> None:
        """A task that waited inside of itself goes on."""
        batch = self.batches[number]
        batch.yielded = False
        lane = self.lanes[batch.executor]
        lane.free -= 1
        if batch.executor == GPU:
            lane.yielded.remove(batch.level)
        self._take_resources(batch, -1.0)

    def end(self, event: BatchExecuted) -> Batch:
        """Free the slot of a batch that is through; what came of its jobs is the caller's to note."""
        batch = self.batches.pop(event.batch)
        self.admission.room = event.device_room
        if batch.device != ANY_DEVICE:
            self.admission.before = batch.device
        if batch.yielded:
            self.lanes[batch.executor].yielded = [n for n in self.lanes[batch.executor].yielded if n != batch.level]
        else:
            self.lanes[batch.executor].free += 1
            self._take_resources(batch, 1.0)
        return batch

    def put_back(self, batch: Batch, tasks: Iterable[TaskId]) -> list[Job]:
        """Have jobs of a batch that were not run wait for a slot or an input again; return those without a lane."""
        homeless: list[Job] = []
        for task in tasks:
            job = batch.jobs.pop(task, None)
            if job is None or job.phase is not QUEUED:
                continue
            batch.independent -= not job.waiting
            lane = self.lanes.get(job.executor)
            if lane is None:
                homeless.append(job)
            elif job.waiting:
                job.phase = WAITING
            else:
                job.phase = READY
                lane.ready.push(job)
        return homeless

    def shift(self, moves: list[tuple[Job, str]], out: list[Instruction]) -> list[Job]:
        """Move jobs to other executors, ``(job, executor)``, what runs stays; return those for which there is none."""
        if not moves:
            return []
        homeless = shift(moves, self.lanes)
        for batch in misplaced(self.batches.values()):
            batch.asked = True
            out.append(Reclaim(batch.number, len(batch.jobs)))
        return homeless


def _is_deeper(lane: Lane) -> bool:
    """Tell whether what is next was asked for by a task that waits: others would stack up on it in its thread."""
    job = lane.ready.first()
    return job is not None and job.level < min(lane.yielded) - DEEPER
