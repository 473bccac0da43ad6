"""Join slices of slices: ``x[5:][2:6]`` is read as ``x[7:11]``, so that less is read of a file.

dask does this while it fuses chains, in the step that loses annotations. Which slices may be joined is as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from dask.array.chunk import getitem
from dask.array.core import getter, getter_inline, getter_nofancy
from dask.array.optimization import fuse_slice

from hetsched.core.types import EACH, Ref
from hetsched.worker.plan import Link

__all__ = ["join_slices"]

_FANCY = (list, np.ndarray)
_NAMES = {"asarray", "lock"}
_fuse: Any = fuse_slice


class _Get(NamedTuple):
    """A call that takes a part of an array."""

    func: Any
    array: Any
    index: Any
    asarray: Any
    lock: Any


def join_slices(links: Sequence[Link]) -> list[Link]:
    """The links of a chain, with neighbours that take a part of a part made one."""
    joined: list[Link] = []
    last: _Get | None = None
    for link in links:
        get = _read(link)
        both = _join(last, get) if last is not None and get is not None else None
        if both is not None:
            joined[-1] = _link(both)
            last = both
        else:
            joined.append(link)
            last = get
    return joined


def _read(link: Link) -> _Get | None:
    func, args, kwargs = link
    if not (func is getitem or func is getter or func is getter_nofancy or func is getter_inline):
        return None
    if args is EACH or len(args) not in (2, 4) or (kwargs and (len(args) == 4 or not kwargs.keys() <= _NAMES)):
        return None
    said = kwargs or dict(zip(("asarray", "lock"), args[2:], strict=False))
    get = _Get(func, args[0], args[1], said.get("asarray", func is not getitem), said.get("lock"))
    return None if isinstance(get.index, Ref) or isinstance(get.lock, Ref) else get


def _join(inner: _Get, outer: _Get) -> _Get | None:
    if type(outer.array) is not Ref or (outer.lock and outer.lock is not inner.lock):
        return None
    index = _index(inner.index, outer.index, inner.func is not getter_nofancy)
    if index is None:
        return None
    func = getter if inner.func is getter_inline else inner.func
    return _Get(func, inner.array, index, outer.asarray or inner.asarray, inner.lock)


def _index(inner: Any, outer: Any, fancy: bool) -> Any:
    if (type(inner) is tuple) is not (type(outer) is tuple):
        return None
    parts = inner + outer if type(inner) is tuple else (inner, outer)
    if type(inner) is tuple and len(inner) != len(outer) and any(part is None for part in parts):
        return None
    if not fancy and any(isinstance(part, _FANCY) for part in parts):
        return None
    try:
        return _fuse(inner, outer)
    except (NotImplementedError, IndexError):
        return None


def _link(get: _Get) -> Link:
    if get.func is getitem or (get.asarray and not get.lock):
        return get.func, (get.array, get.index), None
    return get.func, tuple(get[1:]), None
