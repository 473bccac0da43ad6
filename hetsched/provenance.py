"""Where in a person's program a layer was built, or a callable annotated: a file, a line and a function.

dask gives each new layer a copy of the annotations that are in force. :class:`Noted` is such a mapping, and its copies
have the line of whoever asked for them: one look at the stack for each layer, and nothing for each task.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import _getframe as getframe
from types import FrameType
from typing import Any, Final

from hetsched import config

__all__ = ["Noted", "Site", "call_site"]

_NOT_A_PERSON: Final = frozenset({"contextlib", "cytoolz", "dask", "functools", "hetsched", "tlz", "toolz", "xarray"})
"""Packages whose frames are passed over."""


class Site(str):
    """``file:line in function``; to dask all of them are equal, so it goes on fusing layers built on several lines."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Site) or NotImplemented

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, Site)

    def __hash__(self) -> int:
        return hash(Site)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str.__str__(self),)


class Noted(dict[str, Any]):
    """Annotations in force, whose copies say where they were made."""

    __slots__ = ()

    def copy(self) -> dict[str, Any]:
        """A plain dict, with the line that led here as ``provenance``, unless there is one or nobody wants it.

        Empty where dask.delayed only wraps tasks that were built before, and without annotations.
        """
        if _called_by("_finalize_args_collections"):
            return {}
        copied = dict(self)
        if "provenance" not in copied and (site := call_site()):
            copied["provenance"] = Site(site)
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def call_site() -> str | None:
    """The line of a person's program that led here; None under ``hetsched.provenance: false``.

    In an interactive session the file is the cell's or ``<stdin>``.
    """
    if not config.get("provenance"):
        return None
    for frame in _frames():
        if _is_a_persons(frame):
            code = frame.f_code
            where = f"{code.co_filename}:{frame.f_lineno}"
            return where if code.co_qualname == "<module>" else f"{where} in {code.co_qualname}"
    return None


def _called_by(name: str) -> bool:
    """Whether a function of that name is under way between here and a person's program."""
    for frame in _frames():
        if frame.f_code.co_name == name:
            return True
        if _is_a_persons(frame):
            break
    return False


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_a_persons(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_A_PERSON
