"""Computations that somebody follows: dask callbacks, and tasks run again in the caller's thread when they fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from dask._task_spec import convert_legacy_graph

from hetsched.core.types import EACH, Key, Ref, TaskSpec
from hetsched.embedded import LOOK_SECONDS, Call, Embedded
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
        self.built = built
        self.callbacks = list(callbacks)
        self.rerun = rerun
        self.told: SimpleQueue[_Started | _Ended | None] = SimpleQueue()
        self.broken: list[tuple[BaseException, TaskSpec, Any]] = []
        self._graph: dict[Key, Any] = {}
        self._state: dict[str, Any] = {}

    def run(self, cluster: Embedded, cpus: int | None) -> tuple[Call | None, dict[Key, Any]]:
        """Run it; raises what the first task that failed raised, or what a callback raised."""
        started = []
        succeeded = False
        try:
            shown = self._show()
            self._graph = dict(shown)
            for callback in self.callbacks:
                if callback[0]:
                    callback[0](self._graph)
                started.append(callback)
            built = self._with_changes(shown)
            self._state = _start_state(built)
            for callback in self.callbacks:
                if callback[1]:
                    callback[1](self._graph, self._state)
            watched = [self._wrap(spec) for spec in built.tasks]
            try:
                call = run(cluster, built._replace(tasks=watched), cpus, self._follow)
            except Exception as error:
                self._run_again(error)
                raise
            finally:
                self.broken.clear()
            succeeded = True
            return call, values_of(built, call)
        finally:
            for callback in started:
                if callback[4]:
                    callback[4](self._graph, self._state, not succeeded)

    def _wrap(self, spec: TaskSpec) -> TaskSpec:
        return TaskSpec(spec.key, _Watched(spec, self), EACH, None, spec.dependencies, spec.annotations)

    def _run_again(self, error: BaseException) -> None:
        """Run the task that raised this again in this thread, so that a debugger stops where it fails."""
        for raised, spec, inputs in self.broken:
            if raised is error:
                spec(inputs)
                return

    def _show(self) -> dict[Key, Any]:
        """The graph as callbacks expect it: dask's nodes, of the tasks that will run and the values they read."""
        source = self.built.source
        wanted = [*(spec.key for spec in self.built.tasks), *self.built.literals]
        nodes = convert_legacy_graph({key: source[key] for key in wanted if key in source}, all_keys=set(source))
        return {**{spec.key: spec for spec in self.built.tasks}, **nodes}

    def _with_changes(self, shown: dict[Key, Any]) -> Built:
        """Take up the values that callbacks (dask's opportunistic cache) put in place of tasks."""
        known = {
            place: self._graph[spec.key]
            for place, spec in enumerate(self.built.tasks)
            if spec.key in self._graph and self._graph[spec.key] is not shown[spec.key]
        }
        return _with_known(self.built, known) if known else self.built

    def _next(self) -> _Started | _Ended | None:
        while True:
            try:
                return self.told.get(timeout=LOOK_SECONDS)
            except Empty:
                continue

    def _follow(self, call: Call) -> None:
        """Call the callbacks until the call is over."""
        call.on_finish(lambda: self.told.put(None))
        before = [callback[2] for callback in self.callbacks if callback[2]]
        after = [callback[3] for callback in self.callbacks if callback[3]]
        state, graph = self._state, self._graph
        while (event := self._next()) is not None:
            key = event.key
            if isinstance(event, _Started):
                if key in state["ready"]:
                    state["ready"].remove(key)
                state["running"].add(key)
                for callback in before:
                    callback(key, graph, state)
            else:
                _finish(key, event.value, state)
                for callback in after:
                    callback(key, event.value, graph, state, event.thread)


def _with_known(built: Built, known: dict[int, Any]) -> Built:
    """Drop the tasks whose values are known, and those that only they need."""
    needed: set[int] = set()
    todo = [place for place in built.places.values() if place not in known]
    while todo:
        place = todo.pop()
        if place not in needed:
            needed.add(place)
            todo.extend(d for d in built.tasks[place].dependencies if d not in known)
    moved: dict[int, int] = {}
    tasks: list[TaskSpec] = []
    for place in sorted(needed):
        moved[place] = len(tasks)
        tasks.append(_without(built.tasks[place], known, moved))
    places = {key: moved[place] for key, place in built.places.items() if place in moved}
    values = {key: known[place] for key, place in built.places.items() if place in known}
    return built._replace(tasks=tasks, places=places, values={**built.values, **values})


def _without(spec: TaskSpec, known: dict[int, Any], moved: dict[int, int]) -> TaskSpec:
    """Put known values where a task would read them."""
    kept = [d for d in spec.dependencies if d not in known]
    now = {d: Ref(position) for position, d in enumerate(kept)}
    read = [known[d] if d in known else now[d] for d in spec.dependencies]
    args = tuple(read) if spec.args is EACH else tuple(read[a.position] if type(a) is Ref else a for a in spec.args)
    kwargs = spec.kwargs and {k: read[a.position] if type(a) is Ref else a for k, a in spec.kwargs.items()}
    return TaskSpec(spec.key, spec.func, args, kwargs, [moved[d] for d in kept], spec.annotations)


def _start_state(built: Built) -> dict[str, Any]:
    """The bookkeeping that dask's callbacks look at."""
    keys = [spec.key for spec in built.tasks]
    dependencies = {spec.key: {keys[d] for d in spec.dependencies} for spec in built.tasks}
    dependents: dict[Key, set[Key]] = {key: set() for key in keys}
    for key, inputs in dependencies.items():
        for d in inputs:
            dependents[d].add(key)
    return {
        "dependencies": dependencies,
        "dependents": dependents,
        "waiting": {key: set(inputs) for key, inputs in dependencies.items() if inputs},
        "waiting_data": {key: set(readers) for key, readers in dependents.items()},
        "cache": dict(built.literals),
        "ready": [key for key in reversed(keys) if not dependencies[key]],
        "running": set(),
        "finished": set(),
        "released": set(),
        "wanted": set(built.places),
    }


def _finish(key: Key, value: Any, state: dict[str, Any]) -> None:
    state["cache"][key] = value
    state["running"].discard(key)
    state["finished"].add(key)
    for reader in state["dependents"][key]:
        waits = state["waiting"].get(reader)
        if waits is not None:
            waits.discard(key)
            if not waits:
                del state["waiting"][reader]
                state["ready"].append(reader)
    for d in state["dependencies"][key]:
        readers = state["waiting_data"].get(d)
        if readers is not None:
            readers.discard(key)
            if not readers and d not in state["wanted"]:
                del state["waiting_data"][d]
                state["cache"].pop(d, None)
                state["released"].add(d)
