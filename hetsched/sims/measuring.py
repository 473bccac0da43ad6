"""What thinking takes the scheduler that ships on this machine: what an experiment may say in ``[server]``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hetsched.core.commands import Command
from hetsched.core.events import Event

from .engine import Simulation, shipped
from .model import Machine, ServerCost, Submission
from .scenario import Scenario
from .server import Mind
from .thinking import Changes
from .workloads import SOURCES

__all__ = ["Measurement", "measure_scheduler", "usual_load"]


class Measurement(NamedTuple):
    """What was measured: how many events and changes of phase there were, and the seconds that all took together."""

    events: int
    transitions: int
    seconds: float
    cost: ServerCost
    """An event as long as those that changed no phase; all the rest is shared out among the changes."""


class _Timed:
    """A mind of which every event is timed."""

    def __init__(self, mind: Mind) -> None:
        self._mind = mind
        self.state = mind.state
        self.seconds: list[float] = []

    @property
    def due(self) -> float | None:
        return self._mind.due

    def handle(self, event: Event, now: float) -> list[Command]:
        start = time.perf_counter()
        commands = self._mind.handle(event, now)
        self.seconds.append(time.perf_counter() - start)
        return commands


class _Counted(_Timed):
    """A mind of which the changes of phase are counted, event by event."""

    def __init__(self, mind: Mind) -> None:
        super().__init__(mind)
        self._changes = Changes(mind.state)
        self.counts: list[int] = []

    def handle(self, event: Event, now: float) -> list[Command]:
        before = self._changes.count
        commands = super().handle(event, now)
        self.counts.append(self._changes.count - before)
        return commands


def usual_load() -> Scenario:
    """What the scheduler is measured with where nothing else is said: a tree of 4,287 tasks on 128 cores."""
    machines = [Machine(f"w{n}", 4) for n in range(32)]
    return Scenario([Submission(SOURCES["tree"](n=2000, seconds=0.5, nbytes=1_000_000))], machines, delay=0.001)


def measure_scheduler(scenario: Scenario, repeats: int = 3) -> Measurement:
    """Measure the scheduler with the events of a scenario, each the quickest of some runs.

    It is the deciding alone: what its process does to read and write messages is not in it. Raises HetschedError where
    the scenario comes to a standstill.
    """
    scenario = replace(scenario, server=ServerCost())  # the same events in every run
    counted = _Counted(shipped(scenario))
    Simulation(scenario, mind=counted, detail=False).run()
    runs = []
    for _ in range(repeats):
        timed = _Timed(shipped(scenario))
        Simulation(scenario, mind=timed, detail=False).run()
        runs.append(timed.seconds)
    seconds = [min(each) for each in zip(*runs, strict=True)]
    return Measurement(len(seconds), sum(counted.counts), sum(seconds), _shared_out(seconds, counted.counts))


def _shared_out(seconds: Sequence[float], counts: Sequence[int]) -> ServerCost:
    """Seconds for each event and each change that together are what all events took."""
    idle = [taken for taken, count in zip(seconds, counts, strict=True) if not count]
    changes, total = sum(counts), sum(seconds)
    event = sum(idle) / len(idle) if idle else 0.0
    if not changes or event * len(seconds) > total:
        return ServerCost(event=total / len(seconds) if seconds else 0.0)
    return ServerCost(event=event, transition=(total - event * len(seconds)) / changes)
