"""Means and how sure of them one can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log

from .noise import uniform

__all__ = ["bootstrap", "geometric_mean", "mean"]


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; 0 where a value is 0, infinite where one is."""
    if any(v <= 0 for v in values):
        return 0.0
    if any(v == float("inf") for v in values):
        return float("inf")
    return exp(sum(map(log, values)) / len(values))


def bootstrap(
    values: Sequence[float], of: Callable[[Sequence[float]], float] = mean, level: float = 0.95, samples: int = 1000
) -> tuple[float, float]:
    """The interval in which a statistic lies with this confidence, by resampling; the same for the same values.

    The percentile method of B. Efron and R. Tibshirani, "An introduction to the bootstrap" (1993), chapter 13.
    """
    n = len(values)
    if n == 1:
        return values[0], values[0]
    found = sorted(of([values[int(uniform(sample, k, 9) * n)] for k in range(n)]) for sample in range(samples))
    cut = (1 - level) / 2
    return found[int(cut * (samples - 1))], found[round((1 - cut) * (samples - 1))]
