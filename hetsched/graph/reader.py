"""Read a dask graph, from the requested keys back, into a draft: only what is needed, each task once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dask._task_spec import Alias, DataNode, GraphNode, List, Task, TaskRef, _execute_subgraph

from hetsched.core.annotations import combine
from hetsched.core.graph_task import GraphTask
from hetsched.core.types import EACH, Key, Ref, prefix_of
from hetsched.errors import GraphError
from hetsched.worker.plan import Link, OnList, OwnCall

from .builder import KEY_TYPES, Builder, Made
from .carried import CARRIERS, CONTAINERS, carried
from .checked import Checked
from .draft import Draft
from .inner import sort_inner
from .keys import VALUE, Container, Keys

__all__ = ["Reader"]

_REFS: Final = [Ref(position) for position in range(64)]


class _Part(NamedTuple):
    """One of the tasks that a fused task is taken apart into."""

    node: Any
    scope: dict[Key, Any]


class Reader:
    """Turns the tasks of one graph into a draft, in the order in which they are first spoken of.

    Literals are not tasks: they are put into the arguments of those that read them, by identity, and an alias is the
    task it leads to. The graph given is not changed.
    """

    def __init__(self, graph: Mapping[Key, Any], notes: Callable[[Key], dict[str, Any] | None] | None = None) -> None:
        self.draft = Draft()
        self.keys = Keys(graph)
        self._graph = graph
        self._notes = notes
        self._found: dict[str, Any] | None = None
        """The annotations carried by callables met in the task being read."""
        self._carrier: Any = None
        self._by_carrier: dict[str, Any] | None = None
        """What the callable last met carries: most tasks of a layer call the same."""
        self._plans: dict[tuple[int, Key], tuple[Link | None, list[Key]]] = {}
        self._checked = Checked()
        self._combined: dict[tuple[int, int], tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}

    def read(self, wanted: Iterable[Key]) -> dict[Key, int]:
        """Read what these keys need; returns the number of each that is a task, -1 for one that has a value.

        Raises MissingKeyError, BadKeyError or CycleError (of aliases) naming the key and who needs it.
        """
        keys = self.keys
        numbers = {key: keys.resolve(key) for key in wanted}
        names, raws = keys.names, keys.raws
        number = 0
        while number < len(raws):
            raw = raws[number]
            raws[number] = None
            keys.reader = names[number]
            if type(raw) is tuple:
                self._read_call(raw)
            elif type(raw) is GraphTask:
                self._read_own_form(raw, names[number])
            elif isinstance(raw, Task):
                self._read_node(raw)
            elif isinstance(raw, Container):
                self._read_nested(raw.items, True, {})
            elif type(raw.node) is GraphTask:
                self._read_own_form(raw.node, raw.scope[_OF], raw.scope)
            else:
                self._read_nested(raw.node, False, raw.scope)
            if self._notes is not None or self._found is not None:
                self._annotate(number, raw)
            number += 1
        self.draft.keys = names
        return numbers

    def _annotate(self, number: int, raw: Any) -> None:
        if self._notes is None and type(raw) is not _Part:
            found, self._found = self._found, None
            if found:
                self.draft.annotate(number, found)
            return
        name = self.keys.names[number]
        if isinstance(raw, _Part):
            name = self.draft.part_of[number] = raw.scope[_OF]
        note = self._notes(name) if self._notes is not None else None
        found, self._found = self._found, None
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

    def _carried(self, func: Any) -> None:
        if self._found is not None:
            self._found = carried(func, self._found)
            return
        if func is not self._carrier:
            self._carrier, self._by_carrier = func, carried(func)
        self._found = self._by_carrier

    def _put(self, func: Any, args: list[Any], kwargs: dict[str, Any] | None, deps: dict[int, Ref], refs: int) -> None:
        """Write down the task being read; ``refs`` of its arguments are Refs."""
        draft = self.draft
        if type(func) in CARRIERS:
            self._carried(func)
        if kwargs:
            draft.kwargs[len(draft.funcs)] = kwargs
        draft.funcs.append(func)
        draft.deps.append(tuple(deps))
        # Refs come in the order of first use, so as many as there are dependencies are each of them once.
        if deps and refs == len(args) == len(deps) and not kwargs:
            draft.args.append(EACH)
        else:
            draft.args.append(tuple(args))

    def _builder(self, scope: dict[Key, Any]) -> Builder:
        return Builder(self.keys, self._graph, scope, self._apart)

    def _apart(self, task: GraphTask, scope: dict[Key, Any]) -> int:
        """Make a task of its own of a call with annotations inside of another task."""
        keys = self.keys
        of = scope.get(_OF, keys.reader)
        name = (f"{getattr(task.func, '__name__', prefix_of(of))}-part", of, len(keys.names))
        return keys.add(name, _Part(task, {**scope, _OF: of}))

    def _fill(self, builder: Builder, read: Any) -> None:
        func, args, kwargs = builder.finish(read)
        if builder.found:
            self._found = combine(self._found, builder.found) if self._found else builder.found
        draft = self.draft
        if kwargs:
            draft.kwargs[len(draft.funcs)] = kwargs
        draft.funcs.append(func)
        draft.args.append(args)
        draft.deps.append(tuple(builder.deps))

    def _read_nested(self, raw: Any, legacy: bool, scope: dict[Key, Any]) -> None:
        builder = self._builder(scope)
        self._fill(builder, builder.read(raw, legacy))

    def _read_own_form(self, task: GraphTask, name: Key, scope: dict[Key, Any] | None = None) -> None:
        """Read one of our own calls, and take up its annotations. Raises GraphError where it calls nothing."""
        if not callable(task.func):
            given = f"{task.func!r:.200}; it was given for the task {name!r}"
            raise GraphError(f"hetsched.Task takes a callable, not {given}")
        if task.kwargs or scope:
            note, bare = task.annotations, GraphTask(task.func, task.args, task.kwargs, None)
            self._read_nested(bare, True, scope or {})
        else:
            note = task.annotations
            self._read_call((task.func, *task.args))
        if note:
            mine = self._checked.check(note, name)
            self._found = combine(self._found, mine) if self._found else mine

    def _read_call(self, raw: tuple[Any, ...]) -> None:  # noqa: C901 - hot
        """Read the commonest form, a tuple of a function and plain arguments; anything else goes to the builder."""
        deps: dict[int, Ref] = {}
        args: list[Any] = []
        refs = 0
        numbers = self.keys.numbers
        find = self.keys.find
        only_list = len(raw) == 2 and type(raw[1]) is list
        given: tuple[Any, ...] = tuple(raw[1]) if only_list else raw[1:]
        for arg in given:
            kind = type(arg)
            if kind in _SIMPLE:
                if kind is tuple and arg and callable(arg[0]):
                    return self._read_nested(raw, True, {})
                try:
                    number = numbers.get(arg)
                    if number is None:
                        number = find(arg)
                except Exception:  # a part of it may refuse to be hashed, in its own way
                    number = None
                if number is not None:
                    known = deps.get(number)
                    ref: Any = self._refer(arg, number, deps) if known is None else known
                    refs += type(ref) is Ref
                    args.append(ref)
                    continue
                if kind is tuple:
                    return self._read_nested(raw, True, {})
            elif isinstance(arg, _COMPOUND):
                return self._read_nested(raw, True, {})
            elif kind in CARRIERS:
                self._carried(arg)
            args.append(arg)
        if not only_list:
            self._put(raw[0], args, None, deps, refs)
        elif deps and refs == len(args) == len(deps):
            if type(raw[0]) in CARRIERS:
                self._carried(raw[0])
            self._put(OnList(raw[0]), args, None, deps, refs)
        else:
            self._found = None
            self._read_nested(raw, True, {})
        return None

    def _reference(self, key: Key, deps: dict[int, Ref]) -> Any:
        """Stand for a key: by a Ref to the task that makes it, or by its value."""
        number = self.keys.resolve(key)
        return deps[number] if number in deps else self._refer(key, number, deps)

    def _refer(self, key: Key, number: int, deps: dict[int, Ref]) -> Any:
        """Stand for a key spoken of for the first time in a task."""
        if number < 0:
            number = self.keys.resolve(key)
        if number == VALUE:
            value = self.keys.values[key]
            if type(value) in CARRIERS or type(value) in CONTAINERS:
                self._carried(value)
            return value
        count = len(deps)
        ref = deps[number] = _REFS[count] if count < 64 else Ref(count)
        return ref

    def _read_node(self, node: Task) -> None:
        """Read a task node; one with nodes for arguments goes to the builder, one that holds a graph is planned."""
        if node.func is _execute_subgraph:
            return self._read_subgraph(node)
        if type(node) is not Task and type(node).__call__ is not Task.__call__:
            return self._read_own(node)
        args = node.args
        if len(args) == 1 and type(args[0]) is List:
            return self._read_nested(node, False, {})
        deps: dict[int, Ref] = {}
        given: list[Any] = []
        refs = 0
        kwargs = node.kwargs
        every: tuple[Any, ...] = (*args, *kwargs.values()) if kwargs else tuple(args)
        for arg in every:
            kind = type(arg)
            if kind is TaskRef or kind is Alias:
                ref = self._reference(arg.key if kind is TaskRef else arg.target, deps)
                refs += type(ref) is Ref
                given.append(ref)
                continue
            if kind is DataNode:
                arg = arg.value
            elif isinstance(arg, _NODES):
                self._found = None
                return self._read_nested(node, False, {})
            if type(arg) in CARRIERS or type(arg) in CONTAINERS:
                self._carried(arg)
            given.append(arg)
        named = None
        if kwargs:
            named = dict(zip(kwargs, given[len(args) :], strict=True))
            del given[len(args) :]
        self._put(node.func, given, named, deps, refs)
        return None

    def _read_own(self, node: Task) -> None:
        """Read a task of a class that runs itself in its own way, given the values of its dependencies by key."""
        names = sorted(node.dependencies, key=str)
        builder = self._builder({})
        values = [builder.read(TaskRef(name), False) for name in names]
        self._fill(builder, builder.step(OwnCall(node, names), values, None))

    # Fused tasks

    def _read_subgraph(self, node: Task) -> None:
        """Read a task that dask made of several: by a plan shared by all tasks with the same inner graph."""
        inner, outkey, inkeys = node.args[:3]
        refs = node.args[3:]
        plan, parts = self._plan(inner, outkey, tuple(inkeys))
        if plan is None or any(type(ref) is DataNode and carried(ref.value) for ref in refs):
            return self._split(inner, parts, dict(zip(inkeys, refs, strict=True)))
        deps: dict[int, Ref] = {}
        outer = []
        for ref in refs:
            kind = type(ref)
            if kind is TaskRef or kind is Alias:
                outer.append(self._reference(ref.key if kind is TaskRef else ref.target, deps))
            elif kind is DataNode:
                outer.append(ref.value)
            else:
                return self._read_whole(plan, refs)
        func, args, kwargs = plan
        if args is not EACH:
            outer, kwargs = _replace(args, kwargs, outer)
        # The plan's call may take the inputs in another order than that in which they are spoken of here.
        in_order = args is EACH and all(type(ref) is Ref and ref.position == n for n, ref in enumerate(outer))
        self._put(func, outer, kwargs, deps, len(outer) if in_order else 0)
        return None

    def _read_whole(self, plan: Link, refs: Sequence[Any]) -> None:
        """Read a fused task whose inputs are nodes themselves."""
        builder = self._builder({})
        outer = [builder.read(ref, False) for ref in refs]
        func, args, kwargs = plan
        if args is not EACH:
            outer, kwargs = _replace(args, kwargs, outer)
        self._fill(builder, builder.step(func, outer, kwargs))

    def _plan(self, inner: dict[Key, Any], outkey: Key, inkeys: tuple[Key, ...]) -> tuple[Link | None, list[Key]]:
        """Plan an inner graph; no plan where callables in it carry annotations, since they are not the whole task's."""
        known = self._plans.get((id(inner), outkey))
        if known is not None:
            return known
        scope: dict[Key, Any] = {}
        builder = Builder(self.keys, self._graph, scope)
        for position, key in enumerate(inkeys):
            scope[key] = builder.input(position)
        parts = sort_inner(inner, outkey)
        for key in parts:
            scope[key] = builder.read(inner[key], False)
        link = builder.finish(scope[outkey]) if builder.found is None else None
        self._plans[id(inner), outkey] = plan = (link, parts)
        return plan

    def _split(self, inner: dict[Key, Any], parts: list[Key], outer: dict[Key, Any]) -> None:
        """Make a task of each part again, so that each keeps its own annotations."""
        scope = {name: self._seen(ref, {}) for name, ref in outer.items()}
        scope[_OF] = self.keys.reader
        self._add_parts(inner, parts, scope, whole=True)

    def _seen(self, ref: Any, scope: dict[Key, Any]) -> Any:
        """What a part's scope holds for something outside of it: a value, or which task makes it."""
        builder = self._builder(scope)
        read = builder.read(ref, False)
        return Made(list(builder.deps)[read.position]) if type(read) is Ref else read

    def _add_parts(self, inner: dict[Key, Any], parts: list[Key], scope: dict[Key, Any], whole: bool) -> Any:
        """Make tasks of parts; the last is the task being read if ``whole``. Returns what stands for the last."""
        of = scope[_OF]
        for part in parts:
            node = inner[part]
            last = whole and part == parts[-1]
            if isinstance(node, Task) and node.func is _execute_subgraph:
                deeper, outkey, inkeys = node.args[:3]
                inside = {name: self._seen(ref, scope) for name, ref in zip(inkeys, node.args[3:], strict=True)}
                inside[_OF] = of
                scope[part] = self._add_parts(deeper, sort_inner(deeper, outkey), inside, last)
            elif isinstance(node, DataNode) and not last:
                scope[part] = node.value
            elif last:
                self._read_nested(node, False, scope)
            else:
                name = (f"{prefix_of(part)}-part", of, part, len(self.keys.names))
                scope[part] = Made(self.keys.add(name, _Part(node, scope)))
        return scope.get(parts[-1])


def _replace(args: Sequence[Any], kwargs: dict[str, Any] | None, outer: list[Any]) -> tuple[list[Any], Any]:
    """Put what is outside into the one call of a plan."""
    named = {k: outer[a.position] if type(a) is Ref else a for k, a in kwargs.items()} if kwargs else None
    return [outer[a.position] if type(a) is Ref else a for a in args], named


_OF: Final = object()
"""In a part's scope, the key of the whole task."""

_NODES: Final[tuple[Any, ...]] = (GraphNode, TaskRef, GraphTask)
_SIMPLE: Final = frozenset({str, int, float, tuple})
_COMPOUND: Final[tuple[Any, ...]] = (GraphNode, TaskRef, GraphTask, *KEY_TYPES, list, dict, set, frozenset)
