"""Recompute every index of a worker's mind from the truth and compare."""

from __future__ import annotations

from .jobs import Job, JobPhase
from .lanes import GPU
from .state import WorkerState

__all__ = ["check"]

_ORDERED = (JobPhase.WAITING, JobPhase.READY, JobPhase.QUEUED)


def check(mind: WorkerState) -> None:
    """Raise AssertionError where anything the mind keeps in place differs from what follows from the phases."""
    for task, job in mind.jobs.items():
        assert job.id == task
        _check_job(mind, job)
    queued = {(name, job) for name, lane in mind.slots.lanes.items() for job in lane.ready}
    for job in mind.jobs.values():
        if job.phase is JobPhase.READY:
            assert (job.executor, job) in queued, f"{job!r} is ready and not in its executor's queue"
    used = dict.fromkeys(mind.slots.lanes, 0)
    in_use: dict[str, float] = {}
    for batch in mind.slots.batches.values():
        if not batch.yielded:
            used[batch.executor] += 1
            for name, amount in batch.resources:
                in_use[name] = in_use.get(name, 0.0) + amount
        several = mind.slots.admission.several and batch.executor == GPU
        assert (batch.device >= 0) == several, f"batch {batch.number} on device {batch.device}"
        for job in batch.jobs.values():
            assert job.phase in (JobPhase.QUEUED, JobPhase.CANCELLED), f"{job!r} is in a batch"
    for name, lane in mind.slots.lanes.items():
        assert lane.free == lane.slots - used[name], f"{name}: {lane.free} of {lane.slots} free, {used[name]} used"
    _check_abandoned(mind)
    for name, amount in in_use.items():
        assert mind.slots.total.get(name, 0.0) - amount == mind.slots.available[name], f"{name}: {mind.slots.available}"


def _check_abandoned(mind: WorkerState) -> None:
    taken: dict[str, int] = {}
    for number in mind.abandoned.batches:
        batch = mind.slots.batches[number]
        assert all(job.phase is JobPhase.CANCELLED for job in batch.jobs.values()), f"batch {number} is not abandoned"
        if not batch.yielded:
            taken[batch.executor] = taken.get(batch.executor, 0) + 1
    assert mind.abandoned.taken == taken, f"{mind.abandoned.taken} are said to be taken, and {taken} are"
    for name, count in taken.items():
        lane = mind.slots.lanes[name]
        waits = [job for job in lane.ready if job.phase is JobPhase.READY] if count >= lane.slots else []
        assert not waits, f"{waits} wait for {name}, all of whose slots are abandoned"


def _check_job(mind: WorkerState, job: Job) -> None:
    assert job.phase is not JobPhase.CANCELLED, f"{job!r} is still known"
    if job.phase is JobPhase.QUEUED:
        assert any(batch.jobs.get(job.id) is job for batch in mind.slots.batches.values()), f"{job!r} is in no batch"
    if job.phase is JobPhase.ABSENT:
        expected = mind.fetcher.expects(job.id) or any(d.phase in _ORDERED for d in job.dependents)
        assert expected, f"a place is kept for {job!r}, which nobody reads"
    if job.phase in _ORDERED:
        inputs = [mind.jobs.get(i) for i in job.inputs]
        if job.phase is JobPhase.QUEUED:  # another slot may have dropped one: it will find out when it comes to it
            inputs = [i for i in inputs if i is not None]
        missing = [i for i in inputs if i is None or i.phase is not JobPhase.HELD]
        assert job.waiting == len(missing), f"{job!r} waits for {job.waiting} inputs, truly for {missing}"
        assert (job.phase is JobPhase.WAITING) == bool(missing) or job.phase is JobPhase.QUEUED, repr(job)
        for i in missing:
            assert i is not None and job in i.dependents, f"{job!r} waits for {i!r}, which does not know it"
    for d in job.dependents:
        if d.phase in _ORDERED:
            assert job.id in d.inputs, f"{job!r} has a dependent {d!r} that does not read it"
