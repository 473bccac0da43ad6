"""What things cost: durations and sizes learned per kind of task, and the time to move bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .links import BANDWIDTH, LATENCY, LinkTable
from .needs import Needs
from .prefixes import Estimate, TaskPrefix
from .shares import rows_of, starts_at_once
from .state import State, TaskState, WorkerState

__all__ = [
    "BANDWIDTH", "LARGE", "LATENCY", "duration_of", "is_known", "is_large", "learn", "measured_duration",
    "measured_sizes", "mostly_elsewhere", "nbytes_of", "nearest", "transfer_seconds", "wait_seconds",
]  # fmt: skip

LARGE: Final = 1_000_000
"""Bytes of an input from which on a task may rather wait for a worker that holds it than have it moved."""

UNKNOWN = 0.1
"""Seconds a task is taken to last while nothing is known of its kind."""

_MEMORY: Final = 1000.0


def learn(prefix: TaskPrefix, executor: str, count: int, seconds: float, nbytes: int) -> None:
    """Add ``count`` measured runs, which took ``seconds`` and made ``nbytes`` together.

    Past 1,000 runs the old ones count half, so that a kind of task that changes is learned anew.
    """
    estimate = prefix.on.get(executor)
    if estimate is None:
        estimate = prefix.on[executor] = Estimate()
    elif estimate.count > _MEMORY:
        estimate.count *= 0.5
        estimate.seconds *= 0.5
        estimate.nbytes *= 0.5
    estimate.count += count
    estimate.seconds += seconds
    estimate.nbytes += nbytes


def measured_duration(ts: TaskState) -> float | None:
    """Seconds that tasks of this kind took so far on the task's executor, None where none has run."""
    estimate = ts.prefix.on.get(ts.needs.executor)
    if estimate is not None and estimate.count:
        return estimate.seconds / estimate.count
    return None


def is_known(ts: TaskState) -> bool:
    """Whether tasks of this kind were measured on the task's executor, or a person said how long it takes."""
    return measured_duration(ts) is not None or "duration" in ts.annotations


def duration_of(ts: TaskState) -> float:
    """Seconds the task is expected to run: measured, else the person's hint, else :data:`UNKNOWN`."""
    measured = measured_duration(ts)
    if measured is not None:
        return measured
    hint = ts.annotations.get("duration")
    return float(hint) if isinstance(hint, int | float) else UNKNOWN


def nbytes_of(ts: TaskState) -> float:
    """Bytes of the task's result: what it is in memory, else expected as for :func:`duration_of`, else 0."""
    if ts.who_has:
        return float(ts.nbytes)
    estimate = ts.prefix.on.get(ts.needs.executor)
    if estimate is not None and estimate.count:
        return estimate.nbytes / estimate.count
    hint = ts.annotations.get("nbytes")
    return float(hint) if isinstance(hint, int | float) else 0.0


def measured_sizes(state: State, prefixes: Iterable[str]) -> dict[str, float]:
    """The mean bytes of a result for those kinds of tasks, told by prefix, that were measured on any executor."""
    found: dict[str, float] = {}
    for name in prefixes:
        prefix = state.prefixes.get(name)
        if prefix is not None:
            estimates = list(prefix.on.values())
            count = sum([estimate.count for estimate in estimates])
            if count:
                found[name] = sum([estimate.nbytes for estimate in estimates]) / count
    return found


def transfer_seconds(ts: TaskState, worker: WorkerState) -> float:
    """Seconds to bring the inputs of a task to a worker that neither has them nor is about to have them."""
    if worker.links is not None:
        return _seconds_by_links(ts, worker, worker.links)
    seconds = 0.0
    fetching = worker.fetching
    for d in ts.dependencies:  # written out: a call for each input of each task takes its time
        if worker not in d.who_has and d.processing_on is not worker and d not in fetching:
            seconds += LATENCY + nbytes_of(d) / BANDWIDTH
    return seconds


def _seconds_by_links(ts: TaskState, worker: WorkerState, links: LinkTable) -> float:
    """As :func:`transfer_seconds`, by what is known of the links; one request brings all that a pool holds."""
    seconds = 0.0
    asked: list[str | None] = []
    for d in ts.dependencies:
        if worker.gets(d):
            continue
        holder = nearest(d, worker, links)
        pool = holder.capacity.pool if holder is not None else worker.capacity.pool
        way = links.way(pool, worker.capacity.pool)
        seconds += nbytes_of(d) * way.per_byte
        if pool not in asked:
            asked.append(pool)
            seconds += way.latency
    return seconds


def nearest(ts: TaskState, worker: WorkerState, links: LinkTable) -> WorkerState | None:
    """The worker that holds a result, or is making it, from which it is soonest brought to another."""
    best = ts.processing_on
    least = -1.0
    nbytes = nbytes_of(ts)
    for holder in ts.who_has:
        way = links.way(holder.capacity.pool, worker.capacity.pool)
        seconds = way.latency + nbytes * way.per_byte
        if best is None or least < 0 or seconds < least:
            best, least = holder, seconds
        if holder.capacity.pool == worker.capacity.pool:
            break
    return best


def wait_seconds(worker: WorkerState, needs: Needs, more: float = 0.0) -> float:
    """Seconds until a worker comes to a task of these needs given to it now, if ``more`` seconds of work go before."""
    if needs.resources:
        return 0.0 if starts_at_once(worker, needs) else (worker.occupancy + more) / rows_of(worker, needs)
    slots = worker.capacity.executors[needs.executor]
    return (worker.occupancy + more) / slots if worker.assigned[needs.executor] >= slots else 0.0


def is_large(ts: TaskState, worker: WorkerState) -> bool:
    """Whether a result, held elsewhere, takes as long to bring to a worker as :data:`LARGE` bytes on a usual link."""
    links = worker.links
    if links is None or ts.nbytes > LARGE:
        return ts.nbytes > LARGE
    holder = nearest(ts, worker, links)
    if holder is None or holder.capacity.pool == worker.capacity.pool:
        return False
    way = links.way(holder.capacity.pool, worker.capacity.pool)
    return way.latency + ts.nbytes * way.per_byte > LARGE / BANDWIDTH


def mostly_elsewhere(ts: TaskState, worker: WorkerState) -> bool:
    """Whether a task reads a large result that a worker has not got, and fewer bytes that it has or is making."""
    large = False
    for d in ts.dependencies:
        if d.who_has and not worker.gets(d) and is_large(d, worker):
            large = True
    if not large:
        return False
    there = elsewhere = 0.0
    for d in ts.dependencies:
        if worker.gets(d):
            there += nbytes_of(d)
        else:
            elsewhere += nbytes_of(d)
    return elsewhere > there
