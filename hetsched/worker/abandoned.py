"""Slots that are busy with what nobody wants any more: a thread cannot be stopped, so it goes on until its task ends.

The scheduler takes such slots for free, so it is told that they are not, and what would wait for them here is put down
for others to run. A worker whose hands never say that patience has ended counts no such slots.
"""

from __future__ import annotations

from collections.abc import Mapping

from .instructions import Announce, Instruction, Reclaim
from .jobs import CANCELLED, NOTHING, QUEUED, READY, Batch, Job, Lane, ReadyQueue

__all__ = ["Abandoned"]


class Abandoned:
    """The batches that are at a cancelled task and were given time to end it.

    A batch that waits inside of its task counts once it has its slot again.
    """

    __slots__ = ("_asked", "_behind", "batches", "taken")

    def __init__(self) -> None:
        self.batches: dict[int, None] = {}
        self.taken: dict[str, int] = {}
        """How many slots they have, by executor, as was announced."""
        self._asked: dict[int, None] = {}
        """Batches with cancelled tasks that have given back what they had not begun."""
        self._behind: list[Job] = []

    def look(self, batches: Mapping[int, Batch], out: list[Instruction]) -> None:
        """Find the batches that go on with a cancelled task.

        Which task a batch is at shows when it has given back those that it has not begun: it is the last one left. One
        that was not asked yet is asked to, and counts when it is looked at again.
        """
        self._asked = {number: None for number in self._asked if number in batches}
        for number, batch in batches.items():
            if batch.yielded or number in self.batches:
                continue
            jobs = list(batch.jobs.values())
            if not any(job.phase is CANCELLED for job in jobs):
                continue
            if len(jobs) > 1 and number not in self._asked:
                self._asked[number] = None
                batch.asked = True
                out.append(Reclaim(number, len(jobs)))
            elif jobs[-1].phase is CANCELLED:
                self.batches[number] = None
                self._take_out(batch, jobs)

    def _take_out(self, batch: Batch, jobs: list[Job]) -> None:
        """What the batch has run before is not told of until it ends, so it is done once more, and not waited for."""
        batch.independent = 0
        for job in jobs:
            if job.phase is QUEUED:
                gone = batch.jobs[job.id] = Job(job.id)
                gone.phase = CANCELLED
                job.drops = NOTHING
                self._behind.append(job)

    def settle(self, batches: Mapping[int, Batch], lanes: Mapping[str, Lane], out: list[Instruction]) -> list[Job]:
        """Announce how many slots are taken, if that has changed; return the jobs that are to be put down.

        They are those that nobody would start, as all slots of their executor are taken.
        """
        self.batches = {number: None for number in self.batches if number in batches}
        taken: dict[str, int] = {}
        for number in self.batches:
            batch = batches[number]
            if not batch.yielded:
                taken[batch.executor] = taken.get(batch.executor, 0) + 1
        if taken != self.taken:
            self.taken = taken
            out.append(Announce(sorted(taken.items())))
        homeless, self._behind = self._behind, []
        for name, count in taken.items():
            lane = lanes[name]
            if count >= lane.slots and lane.ready.levels:
                homeless += dict.fromkeys(job for job in lane.ready if job.phase is READY)
                lane.ready = ReadyQueue()
        return homeless
