"""What a server waits for, and how long."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Limits"]


class Limits(NamedTuple):
    """How long a server waits for what, in seconds."""

    worker_silence: float = 20.0
    """A worker that was not heard for so long is lost."""
    idle: float | None = None
    """A server without tasks and clients ends after this time; None: never."""
    leaving: float = 60.0
    """A worker that wants to leave has so long to finish what it was told to do."""
    no_worker: float | None = 5.0
    """The log and those who wait are told of tasks that no worker could run after this time; None: never."""
    no_worker_ends: float | None = None
    """Such tasks fail after this time; None: never."""
