"""What a worker can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["ANY_POOL", "MOST_AHEAD", "Capacity"]

ANY_POOL = "*"
"""The pool of a worker that satisfies every pool name (the embedded one)."""


class Capacity(NamedTuple):
    """What a worker announces it can do.

    ``executors`` maps an executor's name to its slots, ``resources`` a resource to how much of it there is, ``pool``
    is the pool's name, :data:`ANY_POOL` or None. ``window`` is how many tasks per slot it wants to be given ahead of
    time; 0 means all there are. ``ahead`` is how many seconds of expected work per slot it takes whatever their number,
    :data:`MOST_AHEAD` tasks at most. ``python`` is its version, "3.12", where functions may come by value.
    """

    executors: Mapping[str, int]
    resources: Mapping[str, float] = {}
    pool: str | None = None
    window: int = 2
    ahead: float = 0.0
    python: str | None = None


MOST_AHEAD: Final = 512
"""The most tasks per slot that a worker is given ahead of time because they are short."""
