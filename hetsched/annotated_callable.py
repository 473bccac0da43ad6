"""A callable that carries its annotations, through every wrapper and optimiser of dask's.

This module does not import dask: a worker unpickles these, and needs nothing else to call them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, final
from uuid import uuid4

from hetsched.core.annotations import VOCABULARY

__all__ = ["AnnotatedCallable", "annotations_of", "carried_by"]

_PLAIN = frozenset({FunctionType, BuiltinFunctionType})
P = ParamSpec("P")
R = TypeVar("R")


@final
class AnnotatedCallable(Generic[P, R]):
    """``func`` with its validated ``annotations``; made by :func:`hetsched.task`, called like ``func``.

    It looks like ``func``: name, documentation, signature and public attributes are those of ``func``. As an
    attribute of a class it binds like ``func``. It pickles by name where ``func`` would, and by value elsewhere.
    The ``annotations`` are shared, not copied: leave them as they are.
    """

    __slots__ = ("__dict__", "__weakref__", "_carried", "_stamp", "annotations", "func")

    made: ClassVar[bool] = False
    """Whether there ever was one in this process."""

    func: Callable[P, R]
    annotations: dict[str, object]
    _stamp: str | None

    def __init__(self, func: Callable[P, R], annotations: dict[str, object], site: str | None = None) -> None:
        self.func = func
        self.annotations = annotations
        self._carried = annotations if site is None else {"provenance": site, **annotations}
        self._stamp = None
        AnnotatedCallable.made = True
        functools.update_wrapper(self, func, updated=())
        self.__dict__["__wrapped__"] = getattr(func, "__wrapped__", func)  # dask looks one step far, and means func's
        self.__dict__.setdefault("__name__", _name_of(func))
        self.__dict__.setdefault("__qualname__", self.__dict__["__name__"])

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.func(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        bind = getattr(type(self.func), "__get__", None)
        if instance is None or bind is None:
            return self
        bound = bind(self.func, instance, owner)
        if isinstance(bound, MethodType) and bound.__func__ is self.func:
            return MethodType(self, instance)
        return self if bound is self.func else AnnotatedCallable(bound, self.annotations, self._site())

    def _site(self) -> str | None:
        site = self._carried.get("provenance") if self._carried is not self.annotations else None
        return None if site is None else str(site)

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__":  # dask asks inspect.getfullargspec too, which does not look at __wrapped__
            with contextlib.suppress(ValueError, TypeError):
                return inspect.signature(self.func)
        if name.startswith("_") or name in ("func", "annotations"):  # not there: being unpickled, say
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.func, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AnnotatedCallable):
            return NotImplemented
        mine, theirs = self.annotations, other.annotations
        return _identity(self.func) == _identity(other.func) and (
            mine is theirs or (mine.keys() == theirs.keys() and mine.keys() <= VOCABULARY.keys() and mine == theirs)
        )

    def __hash__(self) -> int:
        return hash(_identity(self.func))

    def __repr__(self) -> str:
        name = self.__dict__["__qualname__"]
        return f"<task {name} with {', '.join(self.annotations)}>" if self.annotations else f"<task {name}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By name where the name leads here, as for the function under a decorator; else by value.

        What is in ``__main__``, or in a module that cloudpickle was told to send by value, is sent by value.
        """
        module, name = str(self.__dict__.get("__module__")), str(self.__dict__["__qualname__"])
        if module != "__main__" and not _sent_by_value(module):
            found: object = sys.modules.get(module)
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is self:
                return name
        return AnnotatedCallable, (self.func, self.annotations)

    def __dask_tokenize__(self) -> object:
        """The same for the same function with the same annotations, in whatever order and process.

        Where an annotation's value (a lock, say) has no such token, this object is equal to itself alone.
        """
        from dask.tokenize import TokenizationError, normalize_token, tokenize

        said = sorted(self.annotations.items(), key=lambda item: item[0])
        try:
            token = tokenize(said, ensure_deterministic=True)
        except TokenizationError:
            token = self._stamp = self._stamp or uuid4().hex
        return "hetsched.task", normalize_token(self.func), token


def annotations_of(func: object) -> dict[str, object] | None:
    """The annotations a callable carries, also through partials, curries and bound methods; None where none."""
    annotated = _annotated(func)
    return None if annotated is None else annotated.annotations


def carried_by(func: object) -> dict[str, object] | None:
    """The same with the line that annotated it: what a task that runs it gets."""
    annotated = _annotated(func)
    return None if annotated is None else annotated._carried  # noqa: SLF001 - of this module


def _annotated(func: object) -> AnnotatedCallable[..., Any] | None:
    while True:
        if type(func) in _PLAIN:
            return None
        if isinstance(func, AnnotatedCallable):
            return func
        if isinstance(func, functools.partial):
            func = func.func
        elif isinstance(func, MethodType):
            func = func.__func__
        elif type(func).__name__ == "curry" and "toolz" in type(func).__module__:
            func = getattr(func, "func", None)
        else:
            return None


def _name_of(func: object) -> str:
    while isinstance(func, functools.partial):
        func = func.func
    return str(getattr(func, "__name__", type(func).__name__))


def _identity(func: object) -> object:
    """Bound methods are made anew at each look: they are the same where their object and function are."""
    return (id(func.__self__), id(func.__func__)) if isinstance(func, MethodType) else id(func)


def _sent_by_value(module: str) -> bool:
    """Whether cloudpickle, if there is one, was told to send the module (or a package above it) by value."""
    cloudpickle = sys.modules.get("cloudpickle")
    registered = cloudpickle.list_registry_pickle_by_value() if cloudpickle else ()
    return any(module == name or module.startswith(f"{name}.") for name in registered)
