"""Move jobs from one of a worker's executors to another: what turned out to be a GPU task, or to be none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hetsched.core.evidence import STRONG, Evidence
from hetsched.core.remembered import Remembered
from hetsched.core.types import TaskId

from .jobs import HELD, QUEUED, READY, WAITING, Batch, Job, Kind, Lane

__all__ = ["GPU", "Finder", "kind_of", "misplaced", "put_on", "shift"]

GPU = "gpu"


def kind_of(kinds: Remembered[Kind], name: str) -> Kind:
    """The kind of this name, a new one if it is not known."""
    kind = kinds.get(name)
    if kind is None:
        kind = kinds[name] = Kind(name)
    return kind


def put_on(job: Job, executor: str) -> None:
    """Give a job to an executor, with the share of a device that tasks on a GPU lane take."""
    job.executor = executor
    rest = [(name, amount) for name, amount in job.resources if name != "GPU"]
    if executor == GPU:
        rest.append(("GPU", 1.0))
    job.resources = tuple(sorted(rest))


def shift(moves: Iterable[tuple[Job, str]], lanes: Mapping[str, Lane]) -> list[Job]:
    """Carry moves out, ``(job, executor)``; returns the jobs, in no batch, for which there is no such executor.

    A job that is in a batch keeps its place there; it goes its new way if it is taken back. Others have been at work
    on it, or have its result: they stay as they are.
    """
    ready: dict[str, set[Job]] = {}
    arrived: list[Job] = []
    homeless: list[Job] = []
    for job, executor in moves:
        if job.phase not in (WAITING, READY, QUEUED) or job.executor == executor:
            continue
        if job.phase is READY:
            ready.setdefault(job.executor, set()).add(job)
        put_on(job, executor)
        if executor not in lanes:
            if job.phase is not QUEUED:
                homeless.append(job)
        elif job.phase is READY:
            arrived.append(job)
    for executor, gone in ready.items():
        lanes[executor].ready.remove(gone)
    for job in sorted(arrived, key=_by_rank):
        lanes[job.executor].ready.add(job)
    return homeless


def misplaced(batches: Iterable[Batch]) -> list[Batch]:
    """The batches with jobs that should go elsewhere, if it is not too late."""
    return [
        batch
        for batch in batches
        if any(job.phase is QUEUED and job.executor != batch.executor for job in batch.jobs.values())
    ]


def _by_rank(job: Job) -> int:
    return job.rank


class Finder:
    """What a worker finds out about GPU tasks by itself, before the scheduler has heard of it.

    A task on the CPU whose result is on a device was in the wrong place, and so are the others of its kind; what reads
    such a result belongs on a GPU lane. Only jobs for the CPU are moved, and none of which a person has said so.
    """

    __slots__ = ("_has_gpu", "found")

    def __init__(self, has_gpu: bool) -> None:
        self._has_gpu = has_gpu
        self.found: list[Kind] = []
        """The kinds whose jobs are to be moved."""

    def place(self, job: Job) -> None:
        """Give a job of a kind that is the GPU's, or with an input on a device, to the GPU lane, if there is one."""
        if self._has_gpu and _movable(job):
            put_on(job, GPU)

    def on_device(self, job: Job, executor: str, cuda_nbytes: int) -> None:
        """The result of a job, which ran on this executor, is on a device."""
        job.cuda_nbytes = cuda_nbytes
        kind = job.kind
        kind.cuda_nbytes += (0.2 if kind.cuda_nbytes else 1.0) * (cuda_nbytes - kind.cuda_nbytes)
        if not self._has_gpu:
            return
        self.near(job)
        if executor != GPU and not job.near:
            self._find(job.kind)

    def near(self, job: Job) -> None:
        """What reads the result of a job, which is on a device, belongs on a GPU lane."""
        for d in job.dependents:
            d.near = True
            if d.phase is not READY:  # in no queue, that is
                self.place(d)

    def saw(self, seen: Sequence[tuple[TaskId, Evidence]], jobs: Mapping[TaskId, Job], executor: str) -> None:
        """Probes saw that these, which have run on this executor, used a device."""
        for task, evidence in seen if executor != GPU else ():
            job = jobs.get(task)
            if job is not None and job.phase is HELD and evidence.weight >= STRONG:
                self._find(job.kind)

    def _find(self, kind: Kind) -> None:
        if self._has_gpu and kind.free and not kind.gpu:
            kind.gpu = True
            self.found.append(kind)

    def moves(self, jobs: Mapping[TaskId, Job]) -> list[tuple[Job, str]]:
        """The moves that bring all jobs of the kinds found to the GPU lane."""
        if not self.found:
            return []
        kinds, self.found = self.found, []
        ordered = (WAITING, READY, QUEUED)
        return [(job, GPU) for job in jobs.values() if job.phase in ordered and job.kind in kinds and _movable(job)]


def _movable(job: Job) -> bool:
    return job.kind.free and job.executor.startswith("cpu")
