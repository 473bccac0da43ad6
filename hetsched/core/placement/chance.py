"""Chance that a seed fixes: SplitMix64 (G. L. Steele, D. Lea and C. H. Flood 2014)."""

from __future__ import annotations

from typing import Final

__all__ = ["Chance"]

_MASK: Final = (1 << 64) - 1


class Chance:
    """A stream of numbers; called, it gives the next one from [0, 1)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """The next 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def __call__(self) -> float:
        """The next number."""
        return (self.bits() >> 11) / (1 << 53)
