"""What the mind asks of plugins, without knowing what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .needs import Needs
from .types import Capacity, WorkerId

__all__ = ["Steering"]


class Steering(Protocol):
    """Plugins, as a scheduler's state knows them. Tasks are task states, which it has not heard of."""

    narrows: bool
    """Whether any of them has a say in where tasks run."""
    again: bool
    """Whether they are asked again for a task that waits; else what they say of a new graph holds."""

    def narrow(self, task: Any) -> Needs:
        """What a task demands of its worker when they have been asked."""
        ...

    def moved(self, tasks: Sequence[Any], phase: str, cause: str, now: float) -> None:
        """Note that tasks came to a phase; told to plugins by :meth:`tell`."""
        ...

    def changed(self, workers: Mapping[WorkerId, Capacity]) -> None:
        """Note that other workers are there, or can do something else, than before."""
        ...

    def tell(self) -> None:
        """Tell plugins what was noted. The mind is whole then: nothing is half done."""
        ...
