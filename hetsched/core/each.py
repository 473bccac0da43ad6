"""The arguments of a task that takes each of its dependencies once, in order, and nothing else."""

from __future__ import annotations

from typing import Any

__all__ = ["EACH"]


class _Each(tuple[Any, ...]):
    """A tuple that is known by identity, also in another process: a pickle names it."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "EACH"


EACH: tuple[Any, ...] = _Each(("each",))
"""Stands for one reference to each dependency; told by identity."""
