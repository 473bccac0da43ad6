"""How much of its memory a worker may use before it writes results to disk, waits, or has to go."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Literal, TypeAlias

__all__ = ["MemoryState", "Thresholds", "assess", "excess"]

MemoryState: TypeAlias = Literal["running", "paused", "terminate"]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Fractions of the limit at which something is done, each None (or 0 or False) for never.

    Raises ValueError unless each is above 0 and at most 1, and ``target <= spill <= pause <= terminate`` holds.
    """

    target: float | None = 0.6
    """Results beyond this go to disk, by their own sizes; and down to this when the process has passed ``spill``."""
    spill: float | None = 0.7
    """Results go to disk when the process takes more than this."""
    pause: float | None = 0.8
    """No task is started when the process takes this or more."""
    terminate: float | None = 0.95
    """The process is ended and started anew when it takes this or more."""
    resume: float | None = None
    """A paused worker goes on below this; None is a tenth below ``pause``."""

    def __post_init__(self) -> None:
        for field in fields(self):
            fraction = getattr(self, field.name)
            if not fraction:
                object.__setattr__(self, field.name, None)
            elif not 0 < fraction <= 1:
                raise ValueError(f"memory threshold {field.name} is {fraction}: it should be above 0 and at most 1")
        for names in (("target", "spill", "pause", "terminate"), ("resume", "pause")):
            at = [(name, getattr(self, name)) for name in names if getattr(self, name) is not None]
            for (lower, low), (higher, high) in pairwise(at):
                if low > high:
                    raise ValueError(f"memory threshold {lower} is {low}, more than {higher}, {high}")


def assess(rss: int, limit: int, before: MemoryState = "running", thresholds: Thresholds | None = None) -> MemoryState:
    """Tell whether a process of ``rss`` bytes may start tasks, should wait, or has to go; limit 0 is none.

    A paused one goes on only when it is well below where it was paused (``before`` says what it was), so that it does
    not change at every look.
    """
    at = thresholds or Thresholds()
    if limit <= 0:
        return "running"
    if at.terminate is not None and rss >= at.terminate * limit:
        return "terminate"
    if at.pause is None:
        return "running"
    resume = 0.9 * at.pause if at.resume is None else at.resume
    return "paused" if rss >= (at.pause if before == "running" else resume) * limit else "running"


def excess(rss: int, limit: int, thresholds: Thresholds | None = None) -> int:
    """Tell how many bytes of results a process of ``rss`` bytes should write to disk now; 0 while it need not."""
    at = thresholds or Thresholds()
    if limit <= 0 or at.spill is None or rss <= at.spill * limit:
        return 0
    return math.ceil(rss - (at.spill if at.target is None else at.target) * limit)
