"""The pool of a collection, and a collection whose layers have their pools written on them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from dask.highlevelgraph import HighLevelGraph, Layer

from hetsched.core.types import Key
from hetsched.graph.spreading import is_propagating

from .planning import plan_of

__all__ = ["get_pool", "propagate_pools_in_collection"]

C = TypeVar("C")


def get_pool(x: Any) -> str | tuple[str, ...] | None:
    """The pool in which the results of a dask collection would be made, or several.

    Several where any of those will do, and where some results are made in one and some in another. None: any worker
    may make them. It is what was said, or, where propagation is on, what follows from that.
    """
    planned = plan_of([x])
    found: dict[str, None] = {}
    for n in planned.asked:
        pools = planned.plan.restricted[n] if is_propagating() else planned.groups.layers[n].pools
        if pools is None:
            return None
        found.update(dict.fromkeys(pools))
    names = tuple(found)
    return names[0] if len(names) == 1 else names or None


def propagate_pools_in_collection(x: C) -> C:
    """The same collection with the pools that follow from those that were said written on its layers.

    It then runs the same with propagation on or off. Raises TypeError for what has no layers, such as a data frame:
    compute that ``with hetsched.propagate_pools()``.
    """
    graph = _graph_of(x)
    planned = plan_of([x])
    pools: dict[Key, str | tuple[str, ...]] = {}
    for layer, mine, restricted in zip(
        planned.groups.layers, planned.groups.tasks, planned.plan.restricted, strict=True
    ):
        if restricted is None or restricted == layer.pools:
            continue
        value = restricted[0] if len(restricted) == 1 else restricted
        for task in mine:
            pools[planned.draft.keys[task]] = value
    layers: dict[str, Layer] = {name: _noted(layer, pools) for name, layer in graph.layers.items()}
    rebuild, args = x.__dask_postpersist__()  # type: ignore[attr-defined]
    return rebuild(HighLevelGraph(layers, graph.dependencies), *args)  # type: ignore[no-any-return]


def _graph_of(x: Any) -> HighLevelGraph:
    graph = x.__dask_graph__() if hasattr(x, "__dask_graph__") else None
    if not isinstance(graph, HighLevelGraph):
        raise TypeError(
            f"a {type(x).__name__} has no layers that pools could be written on: "
            "compute it under `with hetsched.propagate_pools():` instead"
        )
    return graph


def _noted(layer: Layer, pools: Mapping[Key, str | tuple[str, ...]]) -> Layer:
    mine: dict[Key, str | tuple[str, ...]] = {key: pools[key] for key in layer if key in pools}
    if not mine:
        return layer
    noted = copy.copy(layer)
    given = layer.annotations or {}
    values = set(mine.values())
    # Keys that nobody reads are in no plan, so those of an array that is partly read follow the others.
    pool: Any = values.pop() if len(values) == 1 and "pool" not in given else _ByKey(mine, given.get("pool"))
    noted.annotations = {**given, "pool": pool}
    return noted


class _ByKey:
    """An annotation that is asked for each key."""

    def __init__(self, pools: Mapping[Key, str | tuple[str, ...]], said: Any) -> None:
        self._pools = pools
        self._said = said

    def __call__(self, key: Key) -> Any:
        if key in self._pools:
            return self._pools[key]
        return self._said(key) if callable(self._said) else self._said
