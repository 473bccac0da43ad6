"""Two of the three ways to annotate tasks: around what builds them, and in the callable they run.

The third, ``annotations=`` on the call, belongs to :func:`hetsched.get` and to the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, overload

import dask.base

from hetsched.annotated_callable import AnnotatedCallable, annotations_of
from hetsched.core.annotations import combine, validate
from hetsched.errors import AnnotationError
from hetsched.provenance import Noted, call_site

if TYPE_CHECKING:
    from contextlib import _GeneratorContextManager

__all__ = ["AnnotatedCallable", "annotate", "annotations_of", "pool", "task"]

P = ParamSpec("P")
R = TypeVar("R")

_NOT_GIVEN: Final = object()
_in_force: Any = getattr(dask.base, "_annotations", None)
"""Where dask keeps the annotations that are in force; None where it keeps them elsewhere."""


def annotate(**annotations: object) -> _GeneratorContextManager[None]:
    """``dask.annotate`` that checks the values where they are written; also a decorator.

    >>> with annotate(pool="A", priority=3):
    ...     d = dask.delayed(sum)([1, 2])

    A callable is called with each task's key and its answer checked when the graph is run. Inner annotations win
    over outer ones, name by name; ``executor``, ``gpu`` and ``resources["GPU"]`` count as one name for that. Each
    layer built inside remembers the line that built it, see :mod:`hetsched.provenance`.
    """
    return _annotated(_checked(annotations))


def pool(name: str | Sequence[str] | None) -> _GeneratorContextManager[None]:
    """``annotate(pool=name)``: what is built in the block runs in that pool, or in one of several; also a decorator.

    ``None`` says that what is built there, and what follows from it alone, runs anywhere: no pool is propagated to it.

    >>> with hetsched.pool("A"):
    ...     a = dask.array.ones((10, 10))
    """
    return annotate(pool=name)


@contextmanager
def _annotated(annotations: dict[str, object]) -> Iterator[None]:
    with dask.base.annotate(**combine(dask.base.get_annotations(), annotations)):
        if _in_force is None:
            yield
            return
        token = _in_force.set(Noted(dask.base.get_annotations()))
        try:
            yield
        finally:
            _in_force.reset(token)


def _checked(annotations: dict[str, object]) -> dict[str, object]:
    """Check them; of an error the traceback ends where they were written, and not in what checks them."""
    try:
        return validate(annotations, per_key=True)
    except AnnotationError as error:
        raise error.with_traceback(None) from None


@overload
def task(func: Callable[P, R], /, **annotations: object) -> AnnotatedCallable[P, R]: ...
@overload
def task(**annotations: object) -> Callable[[Callable[P, R]], AnnotatedCallable[P, R]]: ...
def task(func: Any = _NOT_GIVEN, /, **annotations: object) -> Any:
    """``func`` carrying annotations: ``task(func, pool="A")``, ``@task`` or ``@task(pool="A")``.

    What comes back is called, pickled and looks like ``func``, and goes wherever dask takes a function: delayed,
    ``map_partitions``, ``map_blocks``, ``Bag.map``. It works for data frames, whose planner ignores
    ``dask.annotate``. Under further decorators it is hidden: put it on top of them, but below ``dask.delayed``.
    """
    checked = _checked(annotations)
    site = call_site() if checked else None
    return (lambda func: _task(func, checked, site)) if func is _NOT_GIVEN else _task(func, checked, site)


def _task(func: object, annotations: dict[str, object], site: str | None) -> AnnotatedCallable[..., Any]:
    if isinstance(func, (staticmethod, classmethod)):
        kind = type(func).__name__
        raise TypeError(f"hetsched.task cannot take a {kind}: put @hetsched.task below @{kind}")
    if dask.base.is_dask_collection(func):
        raise TypeError("hetsched.task cannot take a dask collection; use it first: dask.delayed(hetsched.task(func))")
    if not callable(func):
        raise TypeError(f"hetsched.task takes a callable, not a {type(func).__name__}")
    annotations = combine(annotations_of(func) or {}, annotations)
    return AnnotatedCallable(func.func if isinstance(func, AnnotatedCallable) else func, annotations, site)
