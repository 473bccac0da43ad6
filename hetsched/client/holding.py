"""Find the Futures that collections and containers hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dask._task_spec import DataNode, Task
from dask.base import is_dask_collection

from .futures import BaseFuture

__all__ = ["futures_of"]


def futures_of(collections: Any) -> list[Any]:
    """Return the Futures within dask collections, as of ``client.persist``, or within nested containers of those.

    Each once, in the order in which they are found. Other objects hold none. A collection whose blocks were persisted
    keeps their results on the workers as long as it is there; its Futures tell what has become of them.
    """
    found: dict[BaseFuture, None] = {}
    seen: dict[int, Any] = {}
    left: list[Any] = [collections]
    while left:
        obj = left.pop()
        if isinstance(obj, BaseFuture):
            found[obj] = None
        elif id(obj) not in seen:
            seen[id(obj)] = obj
            left.extend(reversed(list(_parts(obj))))
    return list(found)


def _parts(obj: Any) -> Iterable[Any]:
    if is_dask_collection(obj):
        return dict(obj.__dask_graph__()).values()
    match obj:
        case DataNode():
            return (obj.value,)
        case Task():
            return (*obj.args, *obj.kwargs.values())
        case dict():
            return obj.values()
        case list() | tuple() | set() | frozenset():
            return obj
        case _:
            return ()
