"""Tasks grouped by the annotation ``job``: how far each job is, the time it took, the bytes it made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .annotations import WHOLE_LIMIT
from .results import Done
from .state import Graph, Phase, State, TaskState

__all__ = ["MOST_JOBS", "Jobs", "job_of"]

MOST_JOBS: Final = 1000
"""Of so many jobs the sums are kept; of more, those that ran longest ago are forgotten."""


def job_of(ts: TaskState) -> str | None:
    """The job a task belongs to, None for none."""
    job = ts.annotations.get("job")
    return job if isinstance(job, str) else None


class _Sums:
    __slots__ = ("began", "ended", "nbytes", "runs", "seconds")

    def __init__(self, began: float) -> None:
        self.began = self.ended = began
        self.runs = self.nbytes = 0
        self.seconds = 0.0


class Jobs:
    """What ran, summed up by job. How far a job is follows from the phases of its tasks, so that is not kept."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sums] = {}

    def ran(self, jobs: Mapping[str, Done], now: float) -> None:
        """Add what has run to its end of each job."""
        for job, done in jobs.items():
            sums = self._sums.get(job)
            if sums is None:
                sums = self._sums[job] = _Sums(now - done.first)
                if len(self._sums) > MOST_JOBS:
                    del self._sums[min(self._sums, key=lambda name: (self._sums[name].ended, name))]
            sums.ended = now
            sums.runs += done.runs
            sums.seconds += done.seconds
            sums.nbytes += done.nbytes

    def report(self, state: State) -> dict[str, dict[str, Any]]:
        """For each job, by name: its tasks by phase, as far as they are known still, and the sums of what ran.

        ``runs`` counts a task that ran twice as two, ``seconds`` are those of running, ``nbytes`` those of results,
        ``lasted`` the seconds from the first task's start to the last one's end. A released result is a ``done`` one.
        """
        found: dict[str, dict[str, Any]] = {}
        for graph in state.graphs.values():
            _count(graph, found)
        for job, sums in self._sums.items():
            row = found.setdefault(job, _nothing())
            nbytes = min(sums.nbytes, WHOLE_LIMIT)  # a worker may have said anything
            row |= {"runs": sums.runs, "seconds": sums.seconds, "nbytes": nbytes, "lasted": sums.ended - sums.began}
        return {job: found[job] for job in sorted(found)}


_WORDS: Final = {
    Phase.WAITING: "waiting",
    Phase.READY: "waiting",
    Phase.ASSIGNED: "assigned",
    Phase.MEMORY: "done",
    Phase.RELEASED: "done",
    Phase.FAILED: "failed",
}


def _nothing() -> dict[str, Any]:
    counts = dict.fromkeys(("tasks", *_WORDS.values()), 0)
    return {**counts, "runs": 0, "seconds": 0.0, "nbytes": 0, "lasted": 0.0}


def _count(graph: Graph, found: dict[str, dict[str, Any]]) -> None:
    for ts in graph.tasks:
        job = job_of(ts) if ts.spec.annotations else None
        if job is not None:
            row = found.setdefault(job, _nothing())
            row["tasks"] += 1
            row[_WORDS[ts.phase]] += 1
