"""What a recorded run says of the machine it ran on: overheads, delays, durations and sizes by kind of task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from hetsched.core.types import prefix_of

from .model import ServerCost
from .network.spec import NetworkSpec
from .scenario import Scenario
from .workloads.recorded import Recording

__all__ = ["calibrate", "scenario_of"]

_SANE = 1.0
"""Delays beyond so many seconds are no delays but clocks that differ."""


def calibrate(recording: Recording) -> dict[str, Any]:
    """Estimate what a simulation of the recorded cluster should be told.

    ``overhead`` is the median time between two tasks in one slot. ``delay`` is what a message takes one way: half of
    the median time from the end of a message's last task until the scheduler had it, where workers and scheduler go by
    one clock (on one machine they do; elsewhere it is left out). ``kinds`` are count, mean seconds and mean bytes of
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


def scenario_of(recording: Recording, network: NetworkSpec, server: ServerCost | None = None) -> Scenario:
    """The recorded run as a scenario, its overheads and delays those that were measured."""
    said = calibrate(recording)
    plain = Scenario(recording.submissions, recording.machines, network, overhead=said["overhead"])
    plain = replace(plain, delay=min(said.get("delay", 0.0005), 0.05))
    return plain if server is None else replace(plain, server=server)


def _middle(values: Sequence[float]) -> float:
    return median(values) if values else 0.0
