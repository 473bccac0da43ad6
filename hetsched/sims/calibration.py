"""What a recorded run says of the machine it ran on: overheads, delays, durations and sizes by kind of task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from hetsched.core.types import prefix_of

from .model import ServerCost
from .network.spec import NetworkSpec, Wire
from .scenario import Scenario
from .workloads.recorded import Moved, Recording

__all__ = ["BANDWIDTH", "calibrate", "scenario_of"]

BANDWIDTH = 500e6
"""Bytes per second between two workers of which nothing was measured."""

_EARLIER = 1.0
"""Seconds before the first submission at which a simulation begins, so that workers that were there are there."""

_LARGE = 1 << 16  # bytes of a transfer that tells of a bandwidth

_SANE = 1.0
"""Delays beyond so many seconds are no delays but clocks that differ."""


def calibrate(recording: Recording) -> dict[str, Any]:
    """Estimate what a simulation of the recorded cluster should be told.

    ``overhead`` is the median time between two tasks in one slot. ``delay`` is what a message takes one way: half of
    the median time from the end of a message's last task until the scheduler had it, where workers and scheduler go by
    one clock (on one machine they do; elsewhere it is left out). ``links`` are bytes per second from pool to pool: all
    that large results had, over the time in which any was on its way. ``bandwidth`` is that between workers of one
    pool, which nine of ten transfers did not exceed. ``kinds`` are count, mean seconds and mean bytes of
    each kind of task.
    """
    found: dict[str, Any] = {
        "tasks": recording.ran,
        "makespan": recording.makespan,
        "overhead": _middle(recording.gaps),
    }
    delays = [delay for delay in recording.delays if 0.0 <= delay < _SANE]
    if len(delays) > len(recording.delays) / 2:
        found["delay"] = median(delays) / 2
    inside = [t.nbytes / (t.stop - t.start) for t in _large(recording) if t.source == t.target]
    if inside:
        found["bandwidth"] = sorted(inside)[min(len(inside) - 1, len(inside) * 9 // 10)]
    found["links"] = {f"{a} to {b}": speed for (a, b), speed in _links(recording).items()}
    kinds: dict[str, list[float]] = {}
    for submission in recording.submissions:
        for task in submission.workload.tasks:
            row = kinds.setdefault(prefix_of(task.key), [0, 0.0, 0.0])
            row[0] += 1
            row[1] += task.seconds_on("cpu")
            row[2] += task.nbytes
    found["kinds"] = {
        name: {"tasks": int(n), "seconds": seconds / n, "nbytes": nbytes / n}
        for name, (n, seconds, nbytes) in kinds.items()
    }
    return found


def scenario_of(recording: Recording, network: NetworkSpec | None = None, server: ServerCost | None = None) -> Scenario:
    """The recorded run as a scenario, its overheads, delays and links those that were measured.

    ``network`` is what is known of it otherwise, and stronger where it says something of links between pools.
    """
    said = calibrate(recording)
    network = network or NetworkSpec("maxmin", said.get("bandwidth", BANDWIDTH))
    measured = {pools: Wire(speed) for pools, speed in _links(recording).items()}
    network = replace(network, between={**measured, **network.between})
    submissions = [replace(s, at=s.at + _EARLIER) for s in recording.submissions]
    machines = [replace(m, arrives=m.arrives + _EARLIER) if m.arrives else m for m in recording.machines]
    plain = Scenario(submissions, machines, network, overhead=said["overhead"])
    plain = replace(plain, delay=min(said.get("delay", 0.0005), 0.05))
    return plain if server is None else replace(plain, server=server)


def _large(recording: Recording) -> list[Moved]:
    return [t for t in recording.transfers if t.nbytes >= _LARGE and t.stop > t.start]


def _links(recording: Recording) -> dict[tuple[str, str], float]:
    """Bytes per second from pool to pool, while anything was on its way: those who share a link have it together."""
    by_pools: dict[tuple[str, str], list[Moved]] = {}
    for t in _large(recording):
        if t.source != t.target:
            by_pools.setdefault((t.source, t.target), []).append(t)
    return {pools: sum(t.nbytes for t in some) / _busy(some) for pools, some in sorted(by_pools.items())}


def _busy(transfers: Sequence[Moved]) -> float:
    """The seconds in which any of them was on its way."""
    seconds, until = 0.0, float("-inf")
    for t in sorted(transfers, key=lambda t: t.start):
        seconds += max(0.0, t.stop - max(t.start, until))
        until = max(until, t.stop)
    return seconds


def _middle(values: Sequence[float]) -> float:
    return median(values) if values else 0.0
