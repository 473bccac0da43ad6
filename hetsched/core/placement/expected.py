"""What policies expect of a task on a worker: the class of hardware, seconds to run, seconds until it is done.

A task that takes another time on a device says so: ``durations={"cpu": 4.0, "gpu": 0.5}``. A worker whose CPU slots
stand for a device announces a resource ``GPU`` and no executor ``gpu``. One that announces a resource ``speed`` is
taken to be so many times as fast as the durations say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetsched.core.costs import duration_of, transfer_seconds, wait_seconds
from hetsched.core.state import TaskState, WorkerState

__all__ = ["class_of", "expected_finish", "seconds_on", "stand_ins", "typical_seconds"]


def class_of(worker: WorkerState, executor: str) -> str:
    """The class of hardware, "cpu" or "gpu", that an executor of a worker is."""
    capacity = worker.capacity
    if executor == "gpu" or ("GPU" in capacity.resources and "gpu" not in capacity.executors):
        return "gpu"
    return "cpu"


def seconds_on(task: TaskState, worker: WorkerState) -> float:
    """Seconds the task is expected to run on a worker."""
    speed = worker.capacity.resources.get("speed", 1.0)
    durations = task.annotations.get("durations")
    if isinstance(durations, Mapping):
        found = durations.get(class_of(worker, task.needs.executor))
        if isinstance(found, int | float):
            return found / speed
    return duration_of(task) / speed


def expected_finish(task: TaskState, worker: WorkerState) -> float:
    """Seconds until a worker would have done the task: inputs come while it waits for a slot, and then it runs."""
    start = max(wait_seconds(worker, task.needs), transfer_seconds(task, worker))
    return start + seconds_on(task, worker)


def stand_ins(workers: Sequence[WorkerState]) -> list[tuple[WorkerState, int]]:
    """One worker of each kind, with how many slots the workers of its kind have together."""
    kinds: dict[tuple[str, float], tuple[WorkerState, int]] = {}
    for worker in workers:
        kind = class_of(worker, "cpu"), worker.capacity.resources.get("speed", 1.0)
        first, slots = kinds.get(kind, (worker, 0))
        kinds[kind] = first, slots + sum(worker.capacity.executors.values())
    return list(kinds.values())


def typical_seconds(task: TaskState, kinds: Sequence[tuple[WorkerState, int]]) -> float:
    """The mean of the task's seconds over all slots; what is known of the task alone where there is no worker."""
    slots = sum(count for _, count in kinds)
    if not slots:
        return duration_of(task)
    return sum(seconds_on(task, worker) * count for worker, count in kinds) / slots
