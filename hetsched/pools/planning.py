"""What would be chosen for collections: their graph read as it is read to be run, and the plan for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dask.base import collections_to_expr, get_annotations, is_dask_collection

from hetsched.computing import measured_sizes
from hetsched.core.pools import Plan
from hetsched.graph.build import draft_of
from hetsched.graph.draft import Draft
from hetsched.graph.groups import Groups
from hetsched.graph.request import flat_keys
from hetsched.graph.spreading import plan_pools

__all__ = ["Planned", "plan_of"]


class Planned(NamedTuple):
    """The tasks, their layers, the plan, and the layers (by number) of the keys that would be asked for."""

    draft: Draft
    groups: Groups
    plan: Plan
    asked: list[int]


def plan_of(collections: Sequence[Any]) -> Planned:
    """Read collections' graphs, low-level fusion left out, and plan their pools.

    Raises TypeError for what is no dask collection, and what reading a graph raises.
    """
    for each in collections:
        if not is_dask_collection(each):
            raise TypeError(f"{each!r:.80} is not a dask collection")
    if not collections:
        raise TypeError("there is no collection to look at")
    expr: Any = collections_to_expr(tuple(collections), optimize_graph=False).optimize()
    keys = flat_keys(expr.__dask_keys__())
    draft, numbers = draft_of(expr, keys, get_annotations())
    groups, plan = plan_pools(draft, expr, measured_sizes)
    wanted = {numbers[key] for key in keys}
    asked = [n for n, tasks in enumerate(groups.tasks) if not wanted.isdisjoint(tasks)]
    return Planned(draft, groups, plan, asked)
