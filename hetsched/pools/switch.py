"""Whether pools are propagated: one setting, for a block or from now on."""

from __future__ import annotations

from typing import Any

import dask.config

__all__ = ["propagate_pools"]


def propagate_pools(on: bool = True) -> Any:
    """Have the pools that were said put onto the layers around them, when a graph is run.

    As a context manager it holds for the computations in the block; called by itself, from now on. It is the setting
    ``hetsched.pools.propagate``, which holds for all threads of the process.

    >>> with hetsched.propagate_pools():
    ...     difference.compute(scheduler=client)
    """
    return dask.config.set({"hetsched.pools.propagate": bool(on)})
