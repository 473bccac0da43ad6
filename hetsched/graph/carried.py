"""Find the annotations that callables carry, also those among a partial's arguments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from types import MethodType
from typing import Any, Final

import toolz
from dask._task_spec import DataNode, Task
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from hetsched.annotated_callable import AnnotatedCallable, carried_by
from hetsched.core.annotations import combine

__all__ = ["CARRIERS", "CONTAINERS", "carried", "some_carry"]

CONTAINERS: Final = frozenset({list, tuple, dict})
"""The types of what may hold callables; the first few items are looked at."""

_LOOKED_AT: Final = 16

CARRIERS: Final[frozenset[type]] = frozenset({AnnotatedCallable, partial, MethodType, toolz.curry})
"""The types of what may carry annotations and is met often; subclasses are looked at where time allows."""


def carried(obj: Any, found: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Add the annotations an object carries to those found before; returns both, None if there are none."""
    if type(obj) in CONTAINERS:
        for item in islice(obj.values() if isinstance(obj, dict) else obj, _LOOKED_AT):
            if type(item) in CARRIERS:
                found = carried(item, found)
        return found
    if not callable(obj):
        return found
    if isinstance(obj, (partial, toolz.curry)):
        for inner in (*obj.args, *obj.keywords.values()):
            found = carried(inner, found)
    mine = carried_by(obj)
    if not mine:
        return found
    return combine(found, mine) if found else mine


def some_carry(graph: HighLevelGraph) -> bool:
    """Tell whether a callable somewhere in a graph carries annotations. One task stands for the others of its layer."""
    if not AnnotatedCallable.made:
        return False
    for layer in graph.layers.values():
        alike = not isinstance(layer, MaterializedLayer)
        if _carry(islice(layer.values(), 1) if alike else layer.values()):
            return True
    return False


def _carry(objects: Iterable[Any]) -> bool:
    stack = [*objects]
    while stack:
        obj = stack.pop()
        if isinstance(obj, Task):
            stack += (obj.func, *obj.args, *obj.kwargs.values())
        elif isinstance(obj, DataNode):
            stack.append(obj.value)
        elif type(obj) is dict:
            stack += obj.values()
        elif type(obj) is tuple or type(obj) is list:
            stack += obj
        elif callable(obj) and carried(obj):
            return True
    return False
