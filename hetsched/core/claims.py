"""What workers say in numbers, and what of it cannot be true.

Estimates are sums, so one number that is not finite would be in all that follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hetsched.errors import ProtocolError

from .types import Capacity, Outcome

__all__ = ["MOST_AMOUNT", "MOST_BYTES", "MOST_SECONDS", "MOST_SLOTS", "check_capacity", "check_outcomes"]

MOST_SECONDS: Final = 1e9
"""No task runs longer: some thirty years."""

MOST_BYTES: Final = 1 << 60
"""No result is larger: an exbibyte."""

MOST_SLOTS: Final = 1 << 30
"""No executor has more slots, and no worker wants more tasks per slot."""

MOST_AMOUNT: Final = 1e18
"""Of no resource is there more."""


def check_outcomes(worker: str, outcomes: Sequence[Outcome]) -> None:
    """Raise ProtocolError for a task that ran for no time at all, or for ever, or made less than nothing."""
    claims: Sequence[Any] = outcomes
    for claim in claims:
        start: float = claim[2]
        stop: float = claim[3]
        nbytes: int = claim[4]
        cuda_nbytes: int = claim[5]
        # Not a number is neither more nor less than anything, so only what is in between passes.
        if 0.0 <= stop - start <= MOST_SECONDS and 0 <= nbytes <= MOST_BYTES and 0 <= cuda_nbytes <= MOST_BYTES:
            continue
        raise ProtocolError(
            f"{worker} says that the task {claim[0]} ran from {claim[2]!r} to {claim[3]!r} s and made {claim[4]!r} "
            f"bytes, {claim[5]!r} of them on a device: that cannot be"
        )


def check_capacity(worker: str, capacity: Capacity) -> None:
    """Raise ProtocolError for slots, resources or wishes that are negative, without end or not numbers."""
    wrong = [f"executor {name!r}: {n!r}" for name, n in capacity.executors.items() if not 0 <= n <= MOST_SLOTS]
    wrong += [f"resource {name!r}: {n!r}" for name, n in capacity.resources.items() if not 0 <= n <= MOST_AMOUNT]
    if not 0 <= capacity.window <= MOST_SLOTS:
        wrong.append(f"window: {capacity.window!r}")
    if not 0.0 <= capacity.ahead <= MOST_SECONDS:
        wrong.append(f"ahead: {capacity.ahead!r}")
    if wrong:
        raise ProtocolError(f"{worker} says that it has {', '.join(wrong)}: that cannot be")
