"""Linear programmes, by scipy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hetsched.errors import HetschedError

__all__ = ["Programme"]


class Programme:
    """A linear programme over variables of at least 0, solved by HiGHS."""

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._rows: tuple[_Rows, _Rows] = (_Rows(), _Rows())

    def variable(self, cost: float = 0.0) -> int:
        """A new variable; ``cost`` is its part in what is to be as little as can be."""
        self._costs.append(cost)
        return len(self._costs) - 1

    def at_most(self, terms: Iterable[tuple[int, float]], limit: float) -> None:
        """Have a sum of variables, each times a factor, be at most so much."""
        self._rows[0].add(terms, limit)

    def equal(self, terms: Iterable[tuple[int, float]], value: float) -> None:
        """Have such a sum be just so much."""
        self._rows[1].add(terms, value)

    def minimum(self) -> float:
        """The least cost. Raises HetschedError where scipy is not installed."""
        try:
            from scipy.optimize import linprog
        except ImportError:
            words = "bounds of tasks that may run on several classes of hardware, or have to read from other pools,"
            raise HetschedError(f"{words} need scipy: pip install 'hetsched[sims]'") from None
        upper, equal = self._rows
        count = len(self._costs)
        found = linprog(
            self._costs,
            A_ub=upper.matrix(count), b_ub=upper.values or None,
            A_eq=equal.matrix(count), b_eq=equal.values or None,
            method="highs",
        )  # fmt: skip
        if found.status != 0:
            raise HetschedError(f"the linear programme was not solved: {found.message}")
        return float(found.fun)


class _Rows:
    def __init__(self) -> None:
        self.values: list[float] = []
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._entries: list[float] = []

    def add(self, terms: Iterable[tuple[int, float]], value: float) -> None:
        for variable, factor in terms:
            self._rows.append(len(self.values))
            self._columns.append(variable)
            self._entries.append(factor)
        self.values.append(value)

    def matrix(self, columns: int) -> Any:
        from scipy.sparse import csr_array

        if not self.values:
            return None
        return csr_array((self._entries, (self._rows, self._columns)), shape=(len(self.values), columns))
