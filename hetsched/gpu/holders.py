"""What objects that are no arrays hold on devices:

data frames, models, estimators, sparse matrices, labelled arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from .pieces import UNTOLD, Device, Piece, Way

__all__ = ["WAYS"]

_MOST_ATTRIBUTES = 200


def _frame(frame: Any) -> Iterator[Any]:
    """Of cudf: the buffers of its columns and its index, else what it says of itself."""
    columns = list(_columns(frame))
    for column in columns:
        yield from _buffers(column, 0)
    if not columns:
        used = frame.memory_usage(deep=False)
        yield Piece(Device("cuda", UNTOLD), int(used if isinstance(used, int) else used.sum()), owner=id(frame))


def _columns(frame: Any) -> Iterator[Any]:
    data = getattr(frame, "_data", None)
    yield from getattr(frame, "_columns", None) or getattr(data, "columns", None) or ()
    index = getattr(frame, "_index", None)
    if index is not None and index is not frame:
        yield from _columns(index)


def _buffers(column: Any, depth: int) -> Iterator[Piece]:
    """A column's buffers.

    They are told apart by their owners, since a pointer that is asked for may bring data back.
    """
    for name in ("base_data", "base_mask"):
        buffer = getattr(column, name, None)
        if buffer is not None and not getattr(buffer, "is_spilled", False):
            yield Piece(Device("cuda", UNTOLD), int(buffer.size), owner=id(getattr(buffer, "owner", None) or buffer))
    if depth < 4:
        for child in getattr(column, "base_children", None) or ():
            yield from _buffers(child, depth + 1)


def _module(module: Any) -> Iterator[Any]:
    """Of torch: parameters and buffers, of all modules in it."""
    yield from module.parameters()
    yield from module.buffers()


def _sparse(matrix: Any) -> Iterable[Any]:
    names = ("data", "indices", "indptr", "row", "col", "offsets")
    return [vars(matrix)[name] for name in names if name in vars(matrix)]


def _attributes(obj: Any) -> Iterable[Any]:
    """What an object keeps in its attributes, without asking for them."""
    return list(vars(obj).values())[:_MOST_ATTRIBUTES]


def _labelled(obj: Any) -> Iterator[Any]:
    """Of xarray: what its variables wrap."""
    inside = vars(obj) if hasattr(obj, "__dict__") else {}
    for name in ("_variables", "_coords"):
        yield from (inside.get(name) or getattr(obj, name, None) or {}).values()
    for name in ("_variable", "_data"):
        inner = getattr(obj, name, None)
        if inner is not None:
            yield inner


WAYS: Final[dict[str, Way]] = {
    "cudf.DataFrame": _frame,
    "cudf.Series": _frame,
    "cudf.Index": _frame,
    "cudf.core.single_column_frame.SingleColumnFrame": _frame,
    "cudf.core.frame.Frame": _frame,
    "torch.nn.Module": _module,
    "torch.nn.modules.module.Module": _module,
    "cupyx.scipy.sparse.spmatrix": _sparse,
    "cupyx.scipy.sparse._base.spmatrix": _sparse,
    "cuml": _attributes,
    "cugraph": _attributes,
    "xarray": _labelled,
}
"""By the names of types, or of packages."""
