"""How a reference case went."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Verdict"]


class Verdict(NamedTuple):
    """How one case went: its name, the value found and the one expected, the largest difference, if that is right."""

    case: str
    found: float
    expected: float
    difference: float
    is_right: bool
