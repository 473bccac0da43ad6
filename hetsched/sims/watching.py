"""Note how full each worker's memory is, for pictures: after each message that the scheduler handles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .engine import Simulation

__all__ = ["watch_memory"]


def watch_memory(simulation: Simulation) -> None:
    """Have a run that has not begun fill ``simulation.trace.memory``."""
    world, noted = simulation.world, simulation.trace.memory
    last: dict[str, tuple[int, int]] = {}

    def look(_event: Any, _commands: Sequence[Any]) -> None:
        for name, worker in world.workers.items():
            now = worker.memory.used, worker.memory.used_on_disk
            if last.get(name) != now:
                last[name] = now
                noted.append((world.clock.now, worker.number, *now))

    simulation.server.hook = look
