"""Have a task wait where the device has no room for the result it is expected to make, while others run."""

from __future__ import annotations

from collections.abc import Iterable

from .jobs import Batch, Lane

__all__ = ["Admission"]


class Admission:
    """Lets tasks onto the GPU lanes of a worker. ``room`` is told after each batch: the bytes of device memory that
    results may still take before some have to leave; None where there is no limit.
    """

    __slots__ = ("room",)

    def __init__(self) -> None:
        self.room: int | None = None

    def admits(self, lane: Lane, batches: Iterable[Batch], executor: str) -> bool:
        """Tell whether the next task may start; always if nothing runs, since waiting would help nobody."""
        room = self.room
        job = lane.ready.first() if room is not None else None
        if room is None or job is None:
            return True
        running = [batch for batch in batches if batch.executor == executor and not batch.yielded]
        if not running:
            return True
        coming = sum(other.kind.cuda_nbytes for batch in running for other in batch.jobs.values())
        return coming + job.kind.cuda_nbytes <= max(room, 0)
