"""Computations that somebody follows: dask callbacks, and tasks run again in the caller's thread when they fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from hetsched.callbacks import Callbacks
from hetsched.core.types import EACH, Key, TaskSpec
from hetsched.detection import look
from hetsched.embedded.call import LOOK_SECONDS, Call
from hetsched.embedded.cluster import Embedded
from hetsched.graph.build import Built
from hetsched.outcome import run, values_of

__all__ = ["Watch"]


class _Started(NamedTuple):
    key: Key


class _Ended(NamedTuple):
    key: Key
    value: Any
    thread: int


class _Watched:
    """Wraps a task's function, to tell of its start and end on the way."""

    __slots__ = ("key", "spec", "watch")

    def __init__(self, spec: TaskSpec, watch: Watch) -> None:
        self.spec = spec
        self.key = spec.key
        self.watch = watch

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.spec.func

    def __call__(self, *inputs: Any) -> Any:
        """Run the task; raises what it raises."""
        return self.around(TaskSpec.__call__, inputs)

    def around(self, call: Callable[[TaskSpec, Any], Any], inputs: Any) -> Any:
        """Run the task by ``call``, which may take it to another process; raises what that raises."""
        told = self.watch.told
        told.put(_Started(self.key))
        try:
            value = call(self.spec, inputs)
        except BaseException as error:
            if self.watch.rerun:
                self.watch.broken.append((error, self.spec, inputs))
            raise
        told.put(_Ended(self.key, value, threading.get_ident()))
        return value


class Watch:
    """Runs a graph with callbacks, which are called in the caller's thread as dask's own schedulers do."""

    def __init__(self, built: Built, callbacks: Iterable[Any], rerun: bool) -> None:
        self.callbacks = Callbacks(built, callbacks)
        self.rerun = rerun
        self.told: SimpleQueue[_Started | _Ended | None] = SimpleQueue()
        self.broken: list[tuple[BaseException, TaskSpec, Any]] = []

    def run(self, cluster: Embedded, cpus: int | None) -> tuple[Call | None, dict[Key, Any]]:
        """Run it; raises what the first task that failed raised, or what a callback raised."""
        with self.callbacks.around() as built:
            watched = [self._wrap(spec) for spec in built.tasks]
            try:
                seen = look(built.tasks, cluster)
                call = run(cluster, built._replace(tasks=watched), cpus, self._follow, seen)
            except Exception as error:
                self._run_again(error)
                raise
            finally:
                self.broken.clear()
            return call, values_of(built, call)

    def _wrap(self, spec: TaskSpec) -> TaskSpec:
        return TaskSpec(spec.key, _Watched(spec, self), EACH, None, spec.dependencies, spec.annotations)

    def _run_again(self, error: BaseException) -> None:
        """Run the task that raised this again in this thread, so that a debugger stops where it fails."""
        for raised, spec, inputs in self.broken:
            if raised is error:
                spec(inputs)
                return

    def _next(self) -> _Started | _Ended | None:
        while True:
            try:
                return self.told.get(timeout=LOOK_SECONDS)
            except Empty:
                continue

    def _follow(self, call: Call) -> None:
        """Call the callbacks until the call is over."""
        call.on_finish(lambda: self.told.put(None))
        while (event := self._next()) is not None:
            if isinstance(event, _Started):
                self.callbacks.started(event.key)
            else:
                self.callbacks.ended(event.key, event.value, event.thread)
