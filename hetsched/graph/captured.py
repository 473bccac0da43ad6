"""The graph that a computation of dask collections would run, without running it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dask.base import compute, get_annotations

from .build import Built, build

__all__ = ["capture"]


class _Caught(BaseException):
    """Ends a computation whose graph is all that was wanted."""


def capture(*collections: Any) -> Built | None:
    """Build what ``hetsched.get`` would run for dask collections; None where there is nothing to compute.

    Raises GraphError or AnnotationError as the graph deserves.
    """
    caught: list[Built] = []

    def catch(dsk: Any, keys: Any, **_: Any) -> Any:
        caught.append(build(dsk, keys, get_annotations()))
        raise _Caught

    with suppress(_Caught):
        compute(*collections, scheduler=catch)  # type: ignore[no-untyped-call]
    return caught[0] if caught else None
