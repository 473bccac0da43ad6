"""Chance that depends on nothing but a seed and what it is for: SplitMix64 (Steele, Lea and Flood 2014) as a hash."""

from __future__ import annotations

from math import cos, exp, log, pi, sqrt
from typing import Final

from .model import Noise

__all__ = ["factor", "uniform"]

_MASK: Final = (1 << 64) - 1


def uniform(*what: int) -> float:
    """A number from [0, 1) that these integers give."""
    z = 0
    for number in what:
        z = (z * 0x9E3779B97F4A7C15 + number + 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        z ^= z >> 31
    return (z >> 11) / (1 << 53)


def factor(noise: Noise, seed: int, task: int, attempt: int) -> float:
    """By what a task's duration differs from what is expected of it."""
    found = 1.0
    if noise.sigma:
        radius = sqrt(-2.0 * log(1.0 - uniform(seed, task, attempt, 1)))
        normal = radius * cos(2.0 * pi * uniform(seed, task, attempt, 2))
        found = exp(noise.sigma * normal - noise.sigma * noise.sigma / 2)
    if noise.straggler_chance and uniform(seed, task, attempt, 3) < noise.straggler_chance:
        found *= noise.straggler_factor
    return found
