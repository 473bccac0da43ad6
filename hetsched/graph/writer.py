"""Write down the task that is being read: its call, what it depends on, and the annotations met on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hetsched.core.annotations import combine
from hetsched.core.graph_task import GraphTask
from hetsched.core.types import EACH, Key, Ref, prefix_of

from .builder import Builder
from .carried import CARRIERS, CONTAINERS, carried
from .draft import Draft
from .keys import VALUE, Keys

__all__ = ["OF", "Part", "Writer"]

_REFS: Final = [Ref(position) for position in range(64)]

OF: Final = object()
"""In a part's scope, the key of the whole task."""


class Part(NamedTuple):
    """One of the tasks that a fused task is taken apart into."""

    node: Any
    scope: dict[Key, Any]


class Writer:
    """Fills a draft, a task at a time and in the order of their numbers. ``notes`` gives the annotations of a key."""

    def __init__(self, graph: Mapping[Key, Any], notes: Callable[[Key], dict[str, Any] | None] | None) -> None:
        self.draft = Draft()
        self.keys = Keys(graph)
        self.notes = notes
        self.found: dict[str, Any] | None = None
        """The annotations carried by callables met in the task being read."""
        self._graph = graph
        self._carrier: Any = None
        self._by_carrier: dict[str, Any] | None = None
        """What the callable last met carries: most tasks of a layer call the same."""
        self._combined: dict[tuple[int, int], tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}

    def annotate(self, number: int, raw: Any) -> None:
        """Give a task that was read, and its call written, the annotations of its key and those found in it."""
        if self.notes is None and type(raw) is not Part:
            found, self.found = self.found, None
            if found:
                self.draft.annotate(number, found)
            return
        name = self.keys.names[number]
        if isinstance(raw, Part):
            name = self.draft.part_of[number] = raw.scope[OF]
        note = self.notes(name) if self.notes is not None else None
        found, self.found = self.found, None
        if found:
            note = self._both(note, found) if note else found
        if note:
            self.draft.annotate(number, note)

    def _both(self, note: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
        """Annotations of a layer and of a callable: one dict for all tasks that have the same of both."""
        known = self._combined.get((id(note), id(found)))
        if known is None:
            known = note, found, combine(note, found)
            self._combined[id(note), id(found)] = known
        return known[2]

    def carried(self, func: Any) -> None:
        """Take up what a callable, or a container of some, in the task being read carries."""
        if self.found is not None:
            self.found = carried(func, self.found)
            return
        if func is not self._carrier:
            self._carrier, self._by_carrier = func, carried(func)
        self.found = self._by_carrier

    def put(self, func: Any, args: list[Any], kwargs: dict[str, Any] | None, deps: dict[int, Ref], refs: int) -> None:
        """Write down the task being read; ``refs`` of its arguments are Refs."""
        draft = self.draft
        if type(func) in CARRIERS:
            self.carried(func)
        if kwargs:
            draft.kwargs[len(draft.funcs)] = kwargs
        draft.funcs.append(func)
        draft.deps.append(tuple(deps))
        # Refs come in the order of first use, so as many as there are dependencies are each of them once.
        if deps and refs == len(args) == len(deps) and not kwargs:
            draft.args.append(EACH)
        else:
            draft.args.append(tuple(args))

    def builder(self, scope: dict[Key, Any]) -> Builder:
        """What builds the call of the task being read, where ``scope`` hides keys of the graph."""
        return Builder(self.keys, self._graph, scope, self._apart)

    def _apart(self, task: GraphTask, scope: dict[Key, Any]) -> int:
        """Make a task of its own of a call with annotations inside of another task."""
        keys = self.keys
        of = scope.get(OF, keys.reader)
        name = (f"{getattr(task.func, '__name__', prefix_of(of))}-part", of, len(keys.names))
        return keys.add(name, Part(task, {**scope, OF: of}))

    def fill(self, builder: Builder, read: Any) -> None:
        """Write down the task being read, as its builder has it."""
        func, args, kwargs = builder.finish(read)
        if builder.found:
            self.found = combine(self.found, builder.found) if self.found else builder.found
        draft = self.draft
        if kwargs:
            draft.kwargs[len(draft.funcs)] = kwargs
        draft.funcs.append(func)
        draft.args.append(args)
        draft.deps.append(tuple(builder.deps))

    def nested(self, raw: Any, legacy: bool, scope: dict[Key, Any]) -> None:
        """Write down a task with calls or containers inside; Builder says what ``legacy`` and ``scope`` are."""
        builder = self.builder(scope)
        self.fill(builder, builder.read(raw, legacy))

    def reference(self, key: Key, deps: dict[int, Ref]) -> Any:
        """Stand for a key: by a Ref to the task that makes it, or by its value."""
        number = self.keys.resolve(key)
        return deps[number] if number in deps else self.refer(key, number, deps)

    def refer(self, key: Key, number: int, deps: dict[int, Ref]) -> Any:
        """Stand for a key spoken of for the first time in a task."""
        if number < 0:
            number = self.keys.resolve(key)
        if number == VALUE:
            value = self.keys.values[key]
            if type(value) in CARRIERS or type(value) in CONTAINERS:
                self.carried(value)
            return value
        count = len(deps)
        ref = deps[number] = _REFS[count] if count < 64 else Ref(count)
        return ref
