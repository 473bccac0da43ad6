"""Propagation of pools in a graph that is about to run, where that is switched on."""

from __future__ import annotations

from typing import Any

import dask

from hetsched import config
from hetsched.core.pools import Plan, Prices, propagate
from hetsched.pool_links import min_saving, prices
from hetsched.worker.collector import collector_paused

from .draft import Draft
from .groups import Groups, Measured, group, restrict, says_pool
from .sizes import sizes_of

__all__ = ["is_propagating", "plan_pools", "spread_pools"]


def is_propagating() -> bool:
    """Whether ``hetsched.pools.propagate`` is set; it costs nothing where dask's configuration has no word of it."""
    settings = dask.config.config.get("hetsched")
    return isinstance(settings, dict) and "pools" in settings and bool(config.get("pools.propagate"))


def plan_pools(draft: Draft, dsk: Any, measured: Measured | None = None) -> tuple[Groups, Plan]:
    """Choose pools for the layers of a graph that was read from ``dsk``."""
    with collector_paused(len(draft)):
        groups = group(draft, sizes_of(dsk), measured)
        return groups, propagate(groups.layers, Prices(prices()), min_saving())


def spread_pools(draft: Draft, dsk: Any, measured: Measured | None = None) -> None:
    """Annotate tasks with the pools that others' pools ask for; nothing where no pool is said."""
    if says_pool(draft.notes.values()):
        restrict(draft, *plan_pools(draft, dsk, measured))
