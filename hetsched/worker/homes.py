"""Where a job's inputs are, among a worker's devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsched.core.types import TaskId

from .instructions import ANY_DEVICE
from .jobs import Job

__all__ = ["home_of", "locate", "shares_of"]


def locate(found: Sequence[tuple[TaskId, int, int]], jobs: Mapping[TaskId, Job]) -> None:
    """Note down on which device results are, told as ``(task, device, bytes there)``."""
    for task, device, nbytes in found:
        job = jobs.get(task)
        if job is not None:
            job.device, job.cuda_nbytes = device, nbytes


def shares_of(job: Job, jobs: Mapping[TaskId, Job]) -> dict[int, int]:
    """The bytes of the job's inputs on each device that has any."""
    found: dict[int, int] = {}
    inputs: Any = job.inputs if job.near else ()
    for i in inputs:
        dep = jobs.get(i)
        if dep is not None and dep.device >= 0:
            found[dep.device] = found.get(dep.device, 0) + dep.cuda_nbytes
    return found


def home_of(job: Job, jobs: Mapping[TaskId, Job]) -> int:
    """The device with most bytes of the job's inputs, the lowest of equals; ANY_DEVICE where none has any."""
    home, most = ANY_DEVICE, 0
    for device, nbytes in shares_of(job, jobs).items():
        if nbytes > most or (nbytes == most and device < home):
            home, most = device, nbytes
    return home
