"""Unlearn what was learned of GPU tasks, because a person has said so."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from .kinds import judge
from .state import State

__all__ = ["fits", "forget"]


def forget(state: State, patterns: Sequence[str], now: float) -> None:
    """Forget what runs have shown, and earlier starts, of kinds of tasks whose name fits one of these patterns.

    What their code says stays: it would be read again with the next graph. Verdicts that change are to be carried out.
    """
    for kind in state.prefixes.values():
        case = kind.case
        if case is not None and any(fits(case.name, pattern) for pattern in patterns):
            kind.case = case.unlearned(now)
            judge(state, kind)


def fits(name: str, pattern: str) -> bool:
    """Tell whether a function's name, or its last word, fits a shell pattern."""
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.rpartition(".")[2], pattern)
