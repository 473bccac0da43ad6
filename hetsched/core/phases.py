"""The phases of a task, and the table of legal changes between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

__all__ = ["LEGAL", "LEGAL_BITS", "LIVE", "Phase"]


class Phase(IntEnum):
    """Where a task stands."""

    WAITING = 0
    """Some of its inputs do not exist yet."""
    READY = 1
    """Its inputs exist; it waits for a worker."""
    ASSIGNED = 2
    """A worker was told to run it (perhaps ahead of its inputs, which that worker is making)."""
    MEMORY = 3
    """Workers hold its result."""
    RELEASED = 4
    """Nobody needs its result."""
    FAILED = 5
    """It raised and may not try again, or an input of it did."""


LEGAL: Mapping[Phase, frozenset[Phase]] = {
    Phase.WAITING: frozenset({Phase.READY, Phase.ASSIGNED, Phase.RELEASED, Phase.FAILED}),
    Phase.READY: frozenset({Phase.WAITING, Phase.ASSIGNED, Phase.RELEASED, Phase.FAILED}),
    Phase.ASSIGNED: frozenset({Phase.WAITING, Phase.READY, Phase.MEMORY, Phase.RELEASED, Phase.FAILED}),
    Phase.MEMORY: frozenset({Phase.WAITING, Phase.RELEASED}),
    Phase.RELEASED: frozenset({Phase.WAITING}),
    Phase.FAILED: frozenset({Phase.RELEASED}),
}
"""From each phase, the phases a task may go to next."""

LIVE: Final = (Phase.WAITING, Phase.READY, Phase.ASSIGNED)
"""The phases of a task that is still to run."""

LEGAL_BITS: Final = tuple(sum(1 << target for target in LEGAL[phase]) for phase in Phase)
"""The same as bits: from each phase, by its number, a one at the place of each phase that may follow."""
