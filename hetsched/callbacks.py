"""dask's callbacks, called as dask's own schedulers call them, and the bookkeeping that they look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dask._task_spec import convert_legacy_graph
from dask.cache import Cache

from hetsched.core.types import EACH, Key, Ref, TaskSpec
from hetsched.graph.build import Built

__all__ = ["Callbacks", "with_known"]


class Callbacks:
    """The callbacks of one computation; all of it belongs to one thread, the caller's."""

    def __init__(self, built: Built, callbacks: Iterable[Any]) -> None:
        self._built = built
        self._callbacks = list(callbacks)
        self._graph: dict[Key, Any] = {}
        self._state: dict[str, Any] = {}

    @contextmanager
    def around(self) -> Iterator[Built]:
        """Tell of the start and the end; gives what is to run, which callbacks may have changed.

        Raises what a callback raises.
        """
        started = []
        succeeded = False
        try:
            shown = self._show()
            self._graph = dict(shown)
            for callback in self._callbacks:
                if callback[0]:
                    callback[0](self._graph)
                started.append(callback)
            built = self._with_changes(shown)
            self._state = _start_state(built)
            for callback in self._callbacks:
                if callback[1]:
                    callback[1](self._graph, self._state)
            yield built
            succeeded = True
        finally:
            for callback in started:
                if callback[4]:
                    callback[4](self._graph, self._state, not succeeded)

    def started(self, key: Key) -> None:
        """A task begins to run."""
        state = self._state
        if key in state["ready"]:
            state["ready"].remove(key)
        elif key in state["waiting"]:  # of what runs elsewhere not every step is seen
            del state["waiting"][key]
        state["running"].add(key)
        for callback in self._callbacks:
            if callback[2]:
                callback[2](key, self._graph, state)

    def ended(self, key: Key, value: Any, where: object, *, here: bool = True) -> None:
        """A task has run; ``here`` says that the value is the value, and not None in its place."""
        _finish(key, value, self._state)
        for callback in self._callbacks:
            if callback[3] and (here or not isinstance(getattr(callback[3], "__self__", None), Cache)):
                callback[3](key, value, self._graph, self._state, where)

    def _show(self) -> dict[Key, Any]:
        """The graph as callbacks expect it: dask's nodes, of the tasks that will run and the values they read."""
        source = self._built.source
        wanted = [*(spec.key for spec in self._built.tasks), *self._built.literals]
        nodes = convert_legacy_graph({key: source[key] for key in wanted if key in source}, all_keys=set(source))
        return {**{spec.key: spec for spec in self._built.tasks}, **nodes}

    def _with_changes(self, shown: dict[Key, Any]) -> Built:
        """Take up the values that callbacks (dask's opportunistic cache) put in place of tasks."""
        known = {
            place: self._graph[spec.key]
            for place, spec in enumerate(self._built.tasks)
            if spec.key in self._graph and self._graph[spec.key] is not shown[spec.key]
        }
        return with_known(self._built, known) if known else self._built


def with_known(built: Built, known: dict[int, Any]) -> Built:
    """Drop the tasks whose values are known, and those that nothing asked for needs."""
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
