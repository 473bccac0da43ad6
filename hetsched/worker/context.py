"""Run tasks in the context (:mod:`contextvars`) of whoever asked for them: numpy's errstate lives there, for one."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

from hetsched.core.types import TaskSpec

__all__ = ["InContext", "put_in_context"]


class InContext:
    """A function that runs in a copy of a context, since one context cannot be entered by two threads at once."""

    __slots__ = ("__wrapped__", "_context")

    def __init__(self, func: Callable[..., Any], context: contextvars.Context) -> None:
        self.__wrapped__ = func
        self._context = context

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it; raises what it raises."""
        return self._context.copy().run(self.__wrapped__, *args, **kwargs)

    def __repr__(self) -> str:
        return f"InContext({self.__wrapped__!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A context stays in its process: elsewhere it is the bare function.
        return _same, (self.__wrapped__,)


def _same(func: Callable[..., Any]) -> Callable[..., Any]:
    return func


def put_in_context(tasks: Sequence[TaskSpec]) -> None:
    """Make fresh tasks run in the caller's context, if there is anything in it."""
    context = contextvars.copy_context()
    if len(context):
        for spec in tasks:
            spec.func = InContext(spec.func, context)
