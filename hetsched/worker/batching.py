"""Cut ready tasks into batches, one for each free slot.

A batch is what a slot runs without asking anybody: as many tasks as are expected to fill :data:`BATCH_SECONDS`, taken
in the very order in which they would start one by one, *as if each ended when it is taken*. A task whose inputs all
come from earlier in the batch may therefore be in it, so a chain stays in one slot and a block that was loaded is
reduced before the next is loaded. With each task go the results that nobody needs once it has run, so that they are
dropped then and there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hetsched.core.types import TaskId

from .homes import home_of
from .instructions import ANY_DEVICE, Item
from .jobs import NOTHING, QUEUED, WAITING, Batch, Job, Lane, ReadyQueue

__all__ = ["BATCH_BYTES", "BATCH_SECONDS", "BATCH_TASKS", "fullest", "items_of", "pick"]

BATCH_SECONDS: Final = 0.001
"""Seconds of work a batch is meant to hold; a task that lasts longer, or of unknown length, is a batch of its own."""

BATCH_BYTES: Final = 100_000.0
"""Bytes of results a batch is meant to make at most: what runs ahead of its rank in a slot costs memory."""

BATCH_TASKS: Final = 512
"""The most tasks a batch may hold."""


def pick(
    lane: Lane, executor: str, available: dict[str, float], device: int, known: Mapping[TaskId, Job]
) -> list[Job]:
    """Take the next batch out of a lane's queue; none if nothing in it can start with the resources available.

    On one ``device`` of several the batch ends before a job whose inputs are elsewhere than those of the first.
    """
    ready = lane.ready
    aside: list[Job] = []
    jobs: list[Job] = []
    while (job := ready.first()) is not None:
        ready.pop(job)
        if job.resources and not all(available.get(name, 0.0) >= amount for name, amount in job.resources):
            aside.append(job)
            continue
        # Leave the other free slots their share.
        share = -(-(len(ready) + 1) // lane.free) - 1 if lane.free > 1 else BATCH_TASKS
        home = home_of(job, known) if device >= 0 else ANY_DEVICE
        # Where the inputs of the first have to be brought from another device, so may those of others be.
        jobs = _follow(job, ready, executor, min(share, BATCH_TASKS), home if home >= 0 else device, known)
        break
    for job in aside:
        ready.add(job)
    return jobs


def _follow(
    job: Job, ready: ReadyQueue, executor: str, share: int, home: int, known: Mapping[TaskId, Job]
) -> list[Job]:
    """Collect ``job`` and what comes after it: ``share`` more of the queue at most, and what becomes ready.

    Of the queue only what has its inputs on the device ``home``, if it is one, or on none.
    """
    jobs: list[Job] = []
    resources = job.resources
    level = job.level
    budget: float = BATCH_SECONDS
    room: float = BATCH_BYTES
    left: dict[Job, int] = {}
    soon: list[Job] = []
    queued = _next(ready, home, known) if share else None
    while True:
        job.phase = QUEUED
        jobs.append(job)
        seconds = job.kind.seconds
        budget -= seconds
        room -= job.kind.nbytes
        if seconds < 0.0 or budget <= 0.0 or room <= 0.0 or len(jobs) >= BATCH_TASKS:
            return jobs
        for d in reversed(job.dependents):
            if d.waiting > 1 and (waiting := left.get(d, d.waiting) - 1):
                left[d] = waiting
            elif d.phase is WAITING and d.executor == executor and d.level == level and d.resources == resources:
                soon.append(d)
        if soon and (queued is None or level <= queued.level):
            job = soon[-1]
        elif queued is not None and queued.level == level and queued.resources == resources:
            job = queued
        else:
            return jobs
        if not 0.0 <= job.kind.seconds <= budget or job.kind.nbytes > room:
            return jobs  # it does not fit: a batch of its own, now or when its inputs are really there
        if job is not queued:
            soon.pop()
        else:
            ready.pop(queued)
            share -= 1
            queued = _next(ready, home, known) if share else None


def _next(ready: ReadyQueue, home: int, known: Mapping[TaskId, Job]) -> Job | None:
    """The first of the queue; None where its inputs are on another device."""
    job = ready.first()
    if home >= 0 and job is not None and home_of(job, known) not in (home, ANY_DEVICE):
        return None
    return job


def items_of(batch: Batch, jobs: list[Job], known: dict[TaskId, Job]) -> list[Item]:
    """Put a batch into the form its slot needs, working out what may be dropped after each task."""
    left: dict[TaskId, int] = {}
    items: list[Item] = []
    in_batch = batch.jobs
    for job in jobs:
        inputs: Any = job.inputs  # ids as the objects they are, which compiled code need not make anew
        drops = NOTHING
        for i in inputs:
            uses = known[i].uses
            if uses > 1:
                left[i] = uses = left.get(i, uses) - 1
            elif uses:
                uses = 0
            else:
                continue
            if not uses:
                if drops:
                    drops.append(i)
                else:
                    drops = [i]
        job.drops = drops
        batch.independent += not job.waiting
        task: Any = job.id
        in_batch[task] = job
        items.append((task, job.attempt, job.spec, inputs, drops))
    return items


def fullest(batches: Iterable[Batch], executor: str) -> Batch | None:
    """Find the batch of an executor with most to share: more than one task that could run in another slot."""
    found: Batch | None = None
    for batch in batches:
        more = found is None or batch.independent > found.independent
        if batch.executor == executor and batch.independent > 1 and more and not batch.asked:
            found = batch
    return found
