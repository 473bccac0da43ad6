"""Placement policies: which of the workers that could take a task shall have it. One policy a file."""

from __future__ import annotations

from collections.abc import Callable

from hetsched.errors import HetschedError

from .earliest_finish import EarliestFinish
from .policy import Policy
from .random import Random
from .round_robin import RoundRobin

__all__ = ["POLICIES", "EarliestFinish", "Policy", "Random", "RoundRobin", "make_policy"]

POLICIES: dict[str, Callable[[int], Policy]] = {
    EarliestFinish.name: lambda _seed: EarliestFinish(),
    Random.name: Random,
    RoundRobin.name: lambda _seed: RoundRobin(),
}
"""The policies by name, each made from a seed."""


def make_policy(name: str, seed: int = 0) -> Policy:
    """Make the policy of this name; raises HetschedError naming those there are."""
    try:
        make = POLICIES[name]
    except KeyError:
        raise HetschedError(f"there is no placement policy {name!r}; there are {', '.join(sorted(POLICIES))}") from None
    return make(seed)
