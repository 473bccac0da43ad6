"""What is known of one annotation, and the annotations that libraries made known in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = ["ABSENT", "REFUSED", "REGISTERED", "Join", "Rule"]

Join: TypeAlias = Callable[[Any, Any], object]


class _Word:
    """A value that means itself and nothing else, also after a pickle or a copy."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"hetsched.annotations.{self._name}"

    def __reduce__(self) -> str:
        return self._name


ABSENT: Final = _Word("ABSENT")
"""Given to a merge, and answered by it: that task does not have the annotation."""

REFUSED: Final = _Word("REFUSED")
"""Answered by a merge: the two tasks must not be fused."""


class Rule(NamedTuple):
    """One known annotation: three texts for people, two functions for the code."""

    meaning: str
    allowed: str
    """Which values it takes; empty where what ``normalise`` raises tells."""
    fused: str
    normalise: Callable[[object], object]  # raises TypeError, ValueError or OverflowError at a bad value
    join: Join | None
    """Of the values of the first task to run and of the one after it; None: fused where the two are plainly equal."""


REGISTERED: Final[dict[str, Rule]] = {}
"""What libraries registered, by name."""
