"""What the last computation did, task by task."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from hetsched.core.gpu import Case
from hetsched.core.types import Key, TaskSpec, prefix_of
from hetsched.core.verdicts import GpuRow, rows
from hetsched.embedded.call import Call

__all__ = ["Report", "TaskRow", "last_report", "remember"]


class TaskRow(NamedTuple):
    """One task that ran. ``start`` and ``stop`` are seconds since the call began; sizes are in bytes."""

    key: Key
    prefix: str
    annotations: Mapping[str, Any]
    executor: str
    worker: str
    start: float
    stop: float
    nbytes: int
    cuda_nbytes: int


class Report:
    """The tasks of one computation that ran to their end, in the order in which they ended.

    ``seconds`` is the whole time of the call, ``pretended_gpu`` whether its GPU tasks ran on a lane without a device.
    ``plugins`` says of each plugin how many ``errors`` it has raised in this process, and what the ``last`` was.
    """

    def __init__(
        self,
        tasks: Sequence[TaskSpec],
        call: Call | None,
        worker: str,
        started: float,
        pretended_gpu: bool,
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
        cases: Sequence[Case] = (),
    ) -> None:
        self.seconds = perf_counter() - started
        self.pretended_gpu = pretended_gpu
        self.plugins = dict(plugins or {})
        self._cases = cases
        self._keys = [spec.key for spec in tasks]
        self._annotations = [spec.annotations for spec in tasks]
        self._base = call.base if call is not None else 0
        self._runs = call.runs if call is not None else ()
        self._worker = worker
        self._started = started
        self._rows: list[TaskRow] | None = None

    @property
    def tasks(self) -> list[TaskRow]:
        """One row per task."""
        if self._rows is None:
            self._rows = list(self._make_rows())
        return self._rows

    @property
    def gpu(self) -> list[GpuRow]:
        """What is thought, up to now, of the kinds of tasks on which there is evidence that they are for the GPU.

        Of all computations of this process so far, not of this one alone; empty where nothing was seen of a device.
        """
        return rows(self._cases)

    def _make_rows(self) -> Iterator[TaskRow]:
        count = len(self._keys)
        for executor, outcomes in self._runs:
            lane = executor.partition(":")[0]
            for task, _, start, stop, nbytes, cuda_nbytes in outcomes:
                place = task - self._base
                if 0 <= place < count:
                    key = self._keys[place]
                    began, ended = start - self._started, stop - self._started
                    notes = self._annotations[place] or {}
                    yield TaskRow(key, prefix_of(key), notes, lane, self._worker, began, ended, nbytes, cuda_nbytes)

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[TaskRow]:
        return iter(self.tasks)

    def by_executor(self) -> dict[str, tuple[int, float, int, int]]:
        """Sum up per executor: tasks, seconds of running, nbytes and cuda_nbytes of results."""
        return _sums((row.executor, row) for row in self.tasks)

    def by_job(self) -> dict[str, tuple[int, float, int, int]]:
        """Sum up per job, that is by the annotation of that name: as :meth:`by_executor` does. Others are left out."""
        return _sums((str(row.annotations["job"]), row) for row in self.tasks if "job" in row.annotations)

    def __repr__(self) -> str:
        lanes = ", ".join(f"{n} on {name}" for name, (n, *_) in self.by_executor().items())
        pretended = "; the GPU lane has no device" if self.pretended_gpu and "gpu" in self.by_executor() else ""
        return f"<Report {len(self)} tasks in {self.seconds:.3f} s ({lanes or 'none'}){pretended}>"


def _sums(rows: Iterable[tuple[str, TaskRow]]) -> dict[str, tuple[int, float, int, int]]:
    sums: dict[str, tuple[int, float, int, int]] = {}
    for name, row in rows:
        n, seconds, nbytes, cuda = sums.get(name, (0, 0.0, 0, 0))
        sums[name] = (n + 1, seconds + row.stop - row.start, nbytes + row.nbytes, cuda + row.cuda_nbytes)
    return sums


class _Last(threading.local):
    report: Report | None = None


_here = _Last()
_anywhere: list[Report] = []


def remember(report: Report) -> None:
    """Make this the last report of this thread and of the process."""
    _here.report = report
    _anywhere[:] = [report]


def last_report() -> Report | None:
    """Return the report of the last ``get`` that ended well in this thread, else in any; None before the first."""
    return _here.report or (_anywhere[0] if _anywhere else None)
