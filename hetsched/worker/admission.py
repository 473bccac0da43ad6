"""Choose the device of a GPU task; have it wait where no device has room for its result, while others run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from .instructions import ANY_DEVICE
from .jobs import Batch, Lane

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

    def place(self, lane: Lane, batches: Iterable[Batch], executor: str) -> int:
        """The device of the next task; :data:`ANY_DEVICE` where there is no choice, :data:`NO_DEVICE` if it must wait.

        A task waits while its result is not expected to fit. It does not wait for a device on which nothing runs: there
        nothing would end. Nor, where the devices together are full, if nothing runs at all.
        """
        lanes, room = self._lanes, self.room
        if room is None and not lanes:
            return ANY_DEVICE
        running = [batch for batch in batches if batch.executor == executor and not batch.yielded]
        job = lane.ready.first() if room is not None else None
        if room is None or job is None or not running:
            return self._choose(running, (), 0.0) if lanes else ANY_DEVICE
        coming = sum(map(_coming, running))
        if coming + job.kind.cuda_nbytes > max(room[0], 0):
            return NO_DEVICE
        return self._choose(running, room[1:], job.kind.cuda_nbytes) if lanes else ANY_DEVICE

    def _choose(self, running: Sequence[Batch], room: Sequence[int], nbytes: float) -> int:
        """A device with a lane to spare: one with room if there is one, and where least runs."""
        chosen, least = NO_DEVICE, (True, 0, True)
        for device, lanes in enumerate(self._lanes):
            here = [batch for batch in running if batch.device == device]
            if len(here) >= lanes:
                continue
            full = bool(room) and sum(map(_coming, here)) + nbytes > max(room[device], 0)
            if full and here:
                continue
            order = (full, len(here), device != self.before)
            if chosen == NO_DEVICE or order < least:
                chosen, least = device, order
        return chosen


def _coming(batch: Batch) -> float:
    """The bytes of results on a device that a batch is expected to make."""
    return sum(job.kind.cuda_nbytes for job in batch.jobs.values())
