"""Run what was built, and give the caller the values or the exception."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hetsched.core.commands import KeysFailed
from hetsched.core.makers import Maker
from hetsched.core.types import Key, TaskSpec
from hetsched.embedded.call import Call
from hetsched.embedded.cluster import Embedded
from hetsched.graph.build import Built
from hetsched.worker.context import put_in_context
from hetsched.worker.running import Failure

__all__ = ["note_task", "run", "shaped", "told", "values_of"]


def run(
    cluster: Embedded,
    built: Built,
    cpus: int | None,
    follow: Callable[[Call], None] | None = None,
    seen: tuple[Sequence[Maker], Sequence[int]] = ((), ()),
) -> Call | None:
    """Run the tasks, if there are any; raises what the first that failed raised. ``seen`` are their makers."""
    if not built.tasks:
        return None
    put_in_context(built.tasks)
    call = cluster.run(built.tasks, list(dict.fromkeys(built.places.values())), cpus, follow, *seen)
    if call.failure is not None:
        failure, call.failure = call.failure, None
        error = told(failure, built.tasks)
        try:
            raise error
        finally:
            # The traceback holds this frame; without this the frame would hold the error, in a ring.
            del error, failure, call
    return call


def values_of(built: Built, call: Call | None) -> dict[Key, Any]:
    """Collect the values of the requested keys."""
    values = dict(built.values)
    if call is not None:
        values.update((key, call.results[place]) for key, place in built.places.items())
    return values


def shaped(keys: Any, values: Mapping[Key, Any]) -> Any:
    """Arrange values as their keys were asked for; a list gives a tuple."""
    if isinstance(keys, list):
        return tuple(shaped(key, values) for key in keys)
    return values[keys]


def told(failure: KeysFailed, tasks: Sequence[TaskSpec]) -> BaseException:
    """Return the exception of a failure, with a note that says whose it is and where it was raised."""
    error = failure.error
    if not isinstance(error, Failure):
        assert isinstance(error, BaseException)
        return error
    raised: BaseException = error.error
    note_task(raised, tasks[failure.root], error.executor, str(failure.worker), error.thread)
    return raised


def note_task(raised: BaseException, spec: TaskSpec | None, executor: str, worker: str, thread: str) -> None:
    """Add a note to an exception: the task that raised it, None where it is not known, and where it ran."""
    where = f"on executor {executor.partition(':')[0]!r} of {worker!r}, thread {thread!r}"
    whose = "a task that this one needs" if spec is None else f"the task {spec.key!r}{_made_of(spec)}"
    note = f"raised by {whose}, {where}"
    if spec is not None and spec.annotations and isinstance(built := spec.annotations.get("provenance"), str):
        note += f"; built at {built}"
    try:
        if note not in getattr(raised, "__notes__", ()):
            raised.add_note(note)
    except Exception:
        pass


def _made_of(spec: TaskSpec) -> str:
    """Name the function a task calls and its file, where that can be known."""
    try:
        func: Any = spec.func
        while (inner := getattr(func, "__wrapped__", None)) is not None:
            func = inner
        code = getattr(func, "__code__", None)
        name = getattr(func, "__qualname__", None)
        if code is not None:
            return f" (function {name} at {code.co_filename}:{code.co_firstlineno})"
        return f" ({func!r})"[:300]
    except Exception:
        return ""
