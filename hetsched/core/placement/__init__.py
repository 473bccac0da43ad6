"""Placement policies: which of the workers that could take a task shall have it. One policy a file."""

from __future__ import annotations

from collections.abc import Callable

from .blevel import BLevel
from .dask_like import DaskLike
from .dmdas import Dmdas
from .earliest_finish import EarliestFinish
from .eft import Eft
from .given import can_move
from .heft import Heft
from .heteroprio import Heteroprio
from .locality import Locality
from .named import find
from .policy import Policy
from .random import Random
from .rebalancing import Rebalancing
from .round_robin import RoundRobin
from .work_stealing import WorkStealing

__all__ = [
    "POLICIES", "BLevel", "DaskLike", "Dmdas", "EarliestFinish", "Eft", "Heft", "Heteroprio", "Locality", "Policy",
    "Random", "Rebalancing", "RoundRobin", "WorkStealing", "can_move", "make_policy",
]  # fmt: skip

POLICIES: dict[str, Callable[..., Policy]] = {
    policy.name: policy
    for policy in (
        BLevel, DaskLike, Dmdas, EarliestFinish, Eft, Heft, Heteroprio, Locality, Random, Rebalancing, RoundRobin,
        WorkStealing,
    )
}  # fmt: skip
"""The policies by name."""


def make_policy(name: str, seed: int = 0) -> Policy:
    """Make a policy: one of :data:`POLICIES` by its name, or a person's own, as ``module:Class``.

    Either may have arguments, ``dask_like(saturation=inf, stealing=no)``. A class that takes a ``seed`` is given it.
    Raises HetschedError that says what there is, where there is none.
    """
    return find(name, POLICIES, seed)
