"""A task in a graph that is written by hand: a call, named arguments and annotations, in one object.

It is made by the thousand, so making one does little: what the annotations say is checked when the graph is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

__all__ = ["GraphTask", "Task"]


@final
class GraphTask:
    """A call in a graph, made by :func:`hetsched.Task`; ``kwargs`` and ``annotations`` are None if there are none."""

    __slots__ = ("annotations", "args", "func", "kwargs")

    def __init__(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        annotations: Mapping[str, Any] | None,
    ) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.annotations = annotations

    def __repr__(self) -> str:
        given = [getattr(self.func, "__name__", None) or repr(self.func), *map(repr, self.args)]
        if self.kwargs:
            given += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        if self.annotations:
            given.append(f"annotations={self.annotations!r}")
        return f"Task({', '.join(given)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphTask, (self.func, self.args, self.kwargs, self.annotations)


# A function, since calling one takes a third of the time that it takes to call a class with a keyword.
def Task(
    func: Callable[..., Any], /, *args: Any, annotations: Mapping[str, Any] | None = None, **kwargs: Any
) -> GraphTask:
    """A task for a graph that is written by hand, beside dask's own nodes and plain tuples, or nested in them.

    >>> graph = {"x": 1, "y": Task(sum, ["x", "x"], annotations={"priority": 3}), "z": (abs, "y")}

    Arguments mean what they mean in a tuple: keys of the graph stand for their results, also within lists and
    calls. One with annotations that is nested in another call becomes a task of its own, so its annotations are its
    alone. ``annotations`` are checked when the graph is run; tasks may share one dict. A named argument that is
    called ``annotations`` itself must go in by ``functools.partial``.
    """
    return GraphTask(func, args, kwargs or None, annotations or None)
