"""What a task may know of itself while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .current import current_batch

__all__ = ["TaskInfo", "current_task", "set_in_child"]


class TaskInfo(NamedTuple):
    """A task that runs: its annotations, the executor it runs on, and its worker's name and pool (None: in no pool)."""

    annotations: Mapping[str, Any]
    executor: str
    worker: str
    pool: str | None


_in_child: TaskInfo | None = None


def current_task() -> TaskInfo | None:
    """Return what there is to know of the task that this thread runs; None outside of tasks.

    Annotations are those that the task had when it was submitted, whole, in their normal form.
    """
    batch = current_batch()
    if batch is None or batch.owner is None:
        return _in_child
    spec = next((item[2] for item in batch.given if item[0] == batch.task), None)
    annotations = spec.loaded().annotations if spec is not None else None
    return TaskInfo(annotations or {}, batch.executor.partition(":")[0], batch.owner.worker, batch.owner.pool)


def set_in_child(info: TaskInfo | None) -> None:
    """Say what this process's one thread runs, which was told by its parent."""
    global _in_child
    _in_child = info
