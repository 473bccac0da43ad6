"""Choose the device of a GPU task; have it wait where no device has room for its result, while others run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hetsched.core.types import TaskId

from .homes import shares_of
from .instructions import ANY_DEVICE
from .jobs import Batch, Job, Lane

__all__ = ["NO_DEVICE", "Admission"]

NO_DEVICE: Final = -2
"""The task has to wait."""


class Admission:
    """Lets tasks onto the GPU lanes of a worker. With several ``devices`` it says on which; lanes take turns with them.

    ``room`` is told after each batch: the bytes of device memory that results may still take before some have to leave,
    on all devices together and, where there are several, on each; None where there is no limit.
    """

    __slots__ = ("_lanes", "before", "room")

    def __init__(self, devices: int = 0, lanes: int = 0) -> None:
        self._lanes = [len(range(n, lanes, devices)) for n in range(devices)] if devices > 1 else []
        """How many each device has."""
        self.room: Sequence[int] | None = None
        self.before = ANY_DEVICE
        """The device that ended a batch last: its thread looks for another."""

    @property
    def several(self) -> bool:
        """Whether there are devices to choose from."""
        return bool(self._lanes)

    def place(
        self, lane: Lane, batches: Iterable[Batch], executor: str, jobs: Mapping[TaskId, Job], deeper: bool = True
    ) -> int:
        """The device of the next task; :data:`ANY_DEVICE` where there is no choice, :data:`NO_DEVICE` if it must wait.

        A task waits while its result is not expected to fit on a device or on all together. It does not wait for a
        device on which nothing runs: there nothing would end. Unless it is ``deeper`` than those that wait inside their
        tasks, it is not to run in a thread of theirs: they could not go on before it has ended.
        """
        lanes, room = self._lanes, self.room
        if room is None and not lanes:
            return ANY_DEVICE
        here = [batch for batch in batches if batch.executor == executor]
        running = [batch for batch in here if not batch.yielded]
        rooms: Sequence[int] = ()
        nbytes = 0.0
        full = False
        job = lane.ready.first()
        if room is not None and job is not None:
            rooms = room[1:]
            nbytes = job.kind.cuda_nbytes
            full = bool(running) and sum(map(_coming, running)) + nbytes > max(room[0], 0)
        if full and not (lanes and rooms):
            return NO_DEVICE
        if not lanes:
            return ANY_DEVICE
        near = shares_of(job, jobs) if job is not None else {}
        return self._choose(here, rooms, nbytes, full, deeper, near)

    def _choose(
        self, batches: Sequence[Batch], rooms: Sequence[int], nbytes: float, full: bool, deeper: bool,
        near: Mapping[int, int],
    ) -> int:  # fmt: skip
        """A device with a lane to spare: whose thread is free if there is one, with room, where most bytes of the
        inputs are ``near``, and where least runs. To bring inputs from another costs less than to wait for a device.

        Where the devices together are ``full``, only one on which nothing runs.
        """
        chosen, least = NO_DEVICE, (True, True, 0, 0, True)
        for device, lanes in enumerate(self._lanes):
            there = [batch for batch in batches if batch.device == device]
            running = [batch for batch in there if not batch.yielded]
            stacked = len(there) >= lanes
            if len(running) >= lanes or (stacked and not deeper):
                continue
            over = bool(rooms) and sum(map(_coming, running)) + nbytes > max(rooms[device], 0)
            if running and (full or over):
                continue
            order = (stacked, over, -near.get(device, 0), len(running), device != self.before)
            if chosen == NO_DEVICE or order < least:
                chosen, least = device, order
        return chosen


def _coming(batch: Batch) -> float:
    """The bytes of results on a device that a batch is expected to make."""
    return sum(job.kind.cuda_nbytes for job in batch.jobs.values())
