"""What an experiment is expected to show, so that it fails on the day on which it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetsched.errors import HetschedError

from .statistics import geometric_mean

__all__ = ["Expectation", "Outcome", "judge"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A measure of one cell, or by how many times it is that of another, and what that should be.

    Over seeds it is the arithmetic mean of a measure, and the geometric mean of ratios, each of runs with equal seeds.
    """

    claim: str
    of: str
    measure: str = "makespan"
    to: str = ""
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """An expectation, what was found, and whether that is as expected."""

    expectation: Expectation
    found: float
    holds: bool

    def sentence(self) -> str:
        """In words."""
        e = self.expectation
        what = f"{e.measure} of {e.of}" + (f" to that of {e.to}" if e.to else "")
        bars = [f"at {word} {bar:g}" for word, bar in (("most", e.at_most), ("least", e.at_least)) if bar is not None]
        return f"{'yes' if self.holds else 'NO'}: {e.claim} ({what}: {self.found:.4g}; expected {' and '.join(bars)})"


def judge(expectation: Expectation, runs: Mapping[str, Sequence[Mapping[str, float]]]) -> Outcome:
    """Compare with the measures of each cell, by seed. Raises HetschedError for a measure there is not."""
    values = _values(expectation, runs[expectation.of])
    if expectation.to:
        others = _values(expectation, runs[expectation.to])
        found = geometric_mean([a / b if b else float("inf") for a, b in zip(values, others, strict=True)])
    else:
        found = sum(values) / len(values)
    low, high = expectation.at_least, expectation.at_most
    return Outcome(expectation, found, (low is None or found >= low) and (high is None or found <= high))


def _values(expectation: Expectation, runs: Sequence[Mapping[str, float]]) -> list[float]:
    if expectation.measure not in runs[0]:
        raise HetschedError(f"there is no measure {expectation.measure!r}; there are {', '.join(runs[0])}")
    return [run[expectation.measure] for run in runs]
