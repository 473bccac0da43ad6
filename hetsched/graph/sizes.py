"""How many bytes a layer's results take, by what its collection says of itself: an array's chunks, a frame's rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from dask._expr import Expr, HLGExpr
from dask._task_spec import TaskRef
from dask.highlevelgraph import HighLevelGraph

__all__ = ["Size", "Sizes", "sizes_of"]


class Size(NamedTuple):
    """The bytes of all of a layer's results, how many results those are, and where this was read.

    ``chunks`` are, where known, the lengths of the blocks along each axis, ``itemsize`` the bytes of an item.
    """

    nbytes: float
    parts: int
    source: str
    chunks: Sequence[Sequence[int]] = ()
    itemsize: int = 0

    def of(self, keys: Sequence[Any]) -> float:
        """The bytes of some of the results; those of which no more is known take all the same."""
        if len(keys) >= self.parts:
            return self.nbytes
        axes = self.chunks
        if not axes or not all(type(key) is tuple and len(key) == len(axes) + 1 for key in keys):
            return self.nbytes * len(keys) / max(1, self.parts)
        try:
            items = sum([math.prod([axis[n] for axis, n in zip(axes, key[1:], strict=True)]) for key in keys])
        except (IndexError, TypeError):  # it names its blocks otherwise
            return self.nbytes * len(keys) / max(1, self.parts)
        return float(items * self.itemsize)


Sizes: TypeAlias = Mapping[str, Size]
"""By the layer's name; what is not known is not there."""


def sizes_of(dsk: Any) -> dict[str, Size]:
    """Read the sizes of any form of graph's layers. Never raises for what cannot be read."""
    found: dict[str, Size] = {}
    for part in _parts(dsk):
        if isinstance(part, HighLevelGraph):
            for name, layer in part.layers.items():
                size = _array_size(layer)
                if size is not None:
                    found[str(name)] = size
                    if str(name).startswith("rechunk-merge-"):
                        _split(layer, str(name), size, found)
        else:
            _Frames(found).read(part)
    return found


def _parts(dsk: Any) -> Iterator[HighLevelGraph | Expr]:
    if isinstance(dsk, HighLevelGraph):
        yield dsk
    elif isinstance(dsk, HLGExpr):
        yield dsk.hlg
    elif isinstance(dsk, Expr):
        seen = False
        for operand in dsk.walk():
            if isinstance(operand, HLGExpr):
                yield operand.hlg
            elif not seen:
                seen = True
                yield dsk


def _split(layer: Any, name: str, size: Size, found: dict[str, Size]) -> None:
    """The pieces that a rechunking is made of come to what it makes."""
    counts = Counter(key[0] for key in layer if isinstance(key, tuple))
    for inner, parts in counts.items():
        if inner != name:
            found[str(inner)] = size._replace(parts=parts, chunks=())


def _array_size(layer: Any) -> Size | None:
    about = layer.collection_annotations or {}
    chunks, dtype = about.get("chunks"), about.get("dtype")
    if chunks is None or dtype is None or dtype.hasobject or _selects(layer):
        return None
    reduced = _reduced_axes(layer, len(chunks))
    lengths = [(1,) * len(c) if axis in reduced else c for axis, c in enumerate(chunks)]
    items = math.prod(map(sum, lengths))
    if items != items:  # nan: chunks of unknown length
        return None
    parts = math.prod(map(len, chunks))
    return Size(float(items * dtype.itemsize), parts, "shape", lengths, dtype.itemsize)


def _selects(layer: Any) -> bool:
    """Whether blocks are indexed by blocks: dask notes the shape before the selection."""
    task = getattr(layer, "task", None)
    if task is None:
        return False
    func = task.kwargs.get("enforce_dtype_function", task.func)  # what dask's elementwise functions wrap
    return getattr(func, "__name__", "") == "getitem" and sum(isinstance(a, TaskRef) for a in task.args) > 1


def _reduced_axes(layer: Any, ndim: int) -> tuple[int, ...]:
    """The axes of which a block keeps one item: of a reduction's first step dask notes the shape of what it reads."""
    kwargs = getattr(getattr(layer, "task", None), "kwargs", None) or {}
    axis = kwargs.get("axis")
    if kwargs.get("keepdims") is not True or not isinstance(axis, tuple):
        return ()
    return tuple(n % ndim for n in axis if isinstance(n, int)) if ndim else ()


class _Frames:
    """Rows times bytes per row, for the expressions that data frames are made of."""

    def __init__(self, found: dict[str, Size]) -> None:
        self._found = found
        self._rows: dict[str, float | None] = {}

    def read(self, expr: Expr) -> None:
        for each in expr.walk():
            # What the planner or a source says goes through code of many kinds, and a size is not worth an error.
            with suppress(Exception):
                size = self._size(each)
                if size is not None:
                    self._found[each._name] = size  # noqa: SLF001 - an expression's name

    def _size(self, expr: Any) -> Size | None:
        meta = expr._meta  # noqa: SLF001 - dask's own word
        parts = int(expr.npartitions)
        if not hasattr(meta, "memory_usage"):
            import numpy as np

            return Size(float(np.asarray(meta).nbytes) * parts, parts, "rows") if np.isscalar(meta) else None
        rows = self._count(expr)
        return None if rows is None else Size(rows * _bytes_per_row(meta), parts, "rows")

    def _count(self, expr: Any) -> float | None:
        name = expr._name  # noqa: SLF001
        if name not in self._rows:
            self._rows[name] = None  # of a ring, if there ever is one
            with suppress(Exception):
                self._rows[name] = self._count_anew(expr)
        return self._rows[name]

    def _count_anew(self, expr: Any) -> float | None:
        lengths: Callable[[], Any] | None = getattr(expr, "_get_lengths", None)
        told = lengths() if lengths is not None else None
        if told is not None:
            return float(sum(told))
        from dask.dataframe.dask_expr._expr import Elemwise, Fused
        from dask.dataframe.dask_expr._repartition import Repartition
        from dask.dataframe.dask_expr.io.io import FusedIO

        if isinstance(expr, FusedIO):
            return self._count(expr.operand("_expr"))  # type: ignore[no-untyped-call]
        if isinstance(expr, Fused):
            return self._count(expr.exprs[0])
        if isinstance(expr, (Elemwise, Repartition)):
            inputs = expr.dependencies()  # type: ignore[no-untyped-call]
            frames = [each for each in inputs if getattr(each, "ndim", 0)]
            return self._count(frames[0]) if frames else None
        return None


def _bytes_per_row(meta: Any) -> float:
    """Of texts and other objects the size of dask's sample of such a frame: a guess, and not nothing."""
    from dask.dataframe.dispatch import meta_nonempty

    sample = meta_nonempty(meta)
    index = getattr(sample, "index", None)
    if index is None:  # it is one
        nbytes = sample.memory_usage(deep=True)
    else:
        usage = sample.memory_usage(index=False, deep=True)
        nbytes = getattr(usage, "sum", lambda: usage)()
        if type(index).__name__ != "RangeIndex":  # one of those takes no more for more rows
            nbytes += index.memory_usage(deep=True)
    return float(nbytes) / max(1, len(sample))
