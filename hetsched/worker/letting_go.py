"""A worker's mind lets go of jobs: of inputs that have no reader, and of readers whose inputs will not come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from hetsched.core.types import TaskId

from .fetching import Fetcher
from .jobs import ABSENT, HELD, NOTHING, QUEUED, READY, WAITING, Job

__all__ = ["absent", "count_off", "leave_inputs", "put_down"]

_ORDERED: Final = (WAITING, READY, QUEUED)


def leave_inputs(gone: Iterable[Job], jobs: dict[TaskId, Job], fetcher: Fetcher) -> None:
    """Strike jobs off the readers of inputs that have not come; a place kept for nobody goes."""
    for i in {i: None for job in gone for i in job.inputs}:
        dep = jobs.get(i)
        if dep is None:
            continue
        # Whether and where its readers will run is open again, so from now on the scheduler says when it goes.
        dep.uses = 0
        if dep.phase is HELD:
            continue
        dep.dependents = [d for d in dep.dependents if d.phase in _ORDERED]
        if dep.phase is ABSENT and not dep.dependents:
            del jobs[i]
            fetcher.give_up(i)


def absent(gone: list[Job], jobs: dict[TaskId, Job], fetcher: Fetcher) -> None:
    """Put down jobs that were ordered and are in no batch; a place is kept for those that others here read."""
    for job in gone:
        job.phase = ABSENT
    leave_inputs(gone, jobs, fetcher)
    for job in gone:
        job.inputs = NOTHING
        if not job.dependents:
            jobs.pop(job.id, None)


def put_down(lost: list[TaskId], jobs: dict[TaskId, Job], fetcher: Fetcher) -> list[Job]:
    """Nobody has these inputs: put their readers down, and return them."""
    readers: dict[TaskId, Job] = {}
    for task in lost:
        place = jobs.get(task)
        if place is None:
            continue
        readers.update((d.id, d) for d in place.dependents if d.phase is WAITING)
        if not place.dependents and place.phase is ABSENT:
            del jobs[task]  # it was to be copied
    found = list(readers.values())
    absent(found, jobs, fetcher)
    return found


def count_off(job: Job, jobs: dict[TaskId, Job], drop: list[TaskId], untold: list[TaskId]) -> None:
    """Count a job off the readers of its inputs; what nobody reads any more goes, unless its slot dropped it.

    ``drop`` gets what is to be dropped; ``untold`` what a slot dropped that was to stay after all, so that others may
    be waiting for it.
    """
    inputs: Any = job.inputs
    drops: Any = job.drops
    dropped = drops if len(drops) < 4 else frozenset(drops)
    for i in inputs:
        dep = jobs.get(i)
        if dep is None:
            continue
        if dep.uses:
            dep.uses -= 1
            if not dep.uses:
                del jobs[i]
                if i not in dropped:
                    drop.append(i)
        elif i in dropped and dep.phase is HELD:
            del jobs[i]
            drop.append(i)
            untold.append(i)
