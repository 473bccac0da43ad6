"""Read a dask graph, from the requested keys back, into a draft: only what is needed, each task once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MethodType
from typing import Any

from dask._task_spec import Alias, DataNode, GraphNode, List, Task, TaskRef, _execute_subgraph

from hetsched.annotated_callable import AnnotatedCallable, annotations_of
from hetsched.core.annotations import combine
from hetsched.core.types import EACH, Key, Ref, prefix_of
from hetsched.errors import BadKeyError, CycleError, MissingKeyError
from hetsched.worker.plan import Link

from .builder import KEY_TYPES, Builder, Made, is_call
from .draft import Draft

__all__ = ["Reader"]

_REFS = [Ref(position) for position in range(64)]
_VALUE = -1
_PENDING = -2


class Reader:
    """Turns the tasks of one graph into a draft.

    Literals are not tasks: they are put into the arguments of those that read them, by identity, and an alias is the
    task it leads to. The graph given is not changed.
    """

    def __init__(self, graph: Mapping[Key, Any], notes: Callable[[Key], dict[str, Any] | None]) -> None:
        self.draft = Draft()
        self.values: dict[Key, Any] = {}
        """The values of keys that no task makes."""
        self._graph = graph
        self._notes = notes
        self._numbers: dict[Key, int] = {}
        self._todo: list[tuple[int, Any, dict[Key, Any]]] = []
        self._plans: dict[tuple[int, Key], tuple[Link | None, list[Key]]] = {}
        self._reader: Key = None

    def read(self, keys: Iterable[Key]) -> dict[Key, int]:
        """Read what these keys need; returns the number of each that is a task, -1 for one that is in ``values``.

        Raises MissingKeyError, BadKeyError or CycleError (of aliases) naming the key and who needs it.
        """
        wanted = {}
        for key in keys:
            self._reader = None
            wanted[key] = self._resolve(key)
        todo = self._todo
        while todo:
            number, raw, scope = todo.pop()
            self._reader = self.draft.keys[number]
            if type(raw) is tuple:
                self._read_call(number, raw)
            elif isinstance(raw, Task):
                self._read_node(number, raw, scope)
            else:
                self._read_nested(number, raw[0], True, scope)
        return wanted

    # Keys

    def _resolve(self, key: Key) -> int:
        """Give the number of the task that makes a key's value, or -1 where the value is known."""
        number = self._numbers.get(key)
        if number is None:
            return self._discover(key)
        if number == _PENDING:
            raise CycleError([key])
        return number

    def _discover(self, key: Key) -> int:
        chain: list[Key] = []
        while True:
            number = self._numbers.get(key)
            if number == _PENDING:
                raise CycleError(chain[chain.index(key) :])
            if number is None:
                raw = self._lookup(key)
                target = self._alias_target(raw)
                if target is not None:
                    self._numbers[key] = _PENDING
                    chain.append(key)
                    key = target[0]
                    continue
                number = self._numbers[key] = self._enter(key, raw)
            for alias in chain:
                self._numbers[alias] = number
                if number == _VALUE:
                    self.values[alias] = self.values[key]
            return number

    def _lookup(self, key: Key) -> Any:
        try:
            return self._graph[key]
        except KeyError:
            needed = "was asked for" if self._reader is None else f"is needed by {self._reader!r}"
            if key is None:
                raise BadKeyError(f"None cannot be a key; it {needed}") from None
            raise MissingKeyError(f"the key {key!r} is not in the graph; it {needed}") from None

    def _alias_target(self, raw: Any) -> tuple[Key] | None:
        if isinstance(raw, Alias):
            return (raw.target,)
        if isinstance(raw, TaskRef):
            return (raw.key,)
        if isinstance(raw, KEY_TYPES) and not is_call(raw):
            try:
                return (raw,) if raw in self._graph else None
            except TypeError:
                return None
        return None

    def _enter(self, key: Key, raw: Any) -> int:
        """Give a key that is no alias its number, to be read later, or its value."""
        if isinstance(raw, DataNode):
            self.values[key] = raw.value
            return _VALUE
        if is_call(raw) or isinstance(raw, Task):
            number = self.draft.reserve(key, self._notes(key))
            self._todo.append((number, raw, {}))
            return number
        if isinstance(raw, list | tuple | set | frozenset):
            if self._holds_reference(raw):
                # Making such a container is a task.
                number = self.draft.reserve(key, self._notes(key))
                self._todo.append((number, [raw], {}))
                return number
            raw = self._builder({}).read(raw, True)
        self.values[key] = raw
        return _VALUE

    def _holds_reference(self, container: Any) -> bool:
        """Tell whether a container of the older form holds a key or a call, at any depth."""
        stack = [container]
        while stack:
            for item in stack.pop():
                if is_call(item) or isinstance(item, GraphNode | TaskRef):
                    return True
                try:
                    if isinstance(item, KEY_TYPES) and item in self._graph:
                        return True
                except TypeError:
                    pass
                if isinstance(item, list | tuple | set | frozenset):
                    stack.append(item)
        return False

    # Tasks

    def _fill(self, number: int, builder: Builder, read: Any) -> None:
        draft = self.draft
        draft.funcs[number], draft.args[number], draft.kwargs[number] = builder.finish(read)
        draft.deps[number] = list(builder.deps)
        self._note(number, builder.found)

    def _note(self, number: int, found: dict[str, Any] | None) -> None:
        if found:
            note = self.draft.notes[number]
            self.draft.notes[number] = combine(note, found) if note else found

    def _builder(self, scope: dict[Key, Any]) -> Builder:
        return Builder(self._resolve, self.values, self._graph, scope)

    def _read_nested(self, number: int, raw: Any, legacy: bool, scope: dict[Key, Any]) -> None:
        builder = self._builder(scope)
        self._fill(number, builder, builder.read(raw, legacy))

    def _read_call(self, number: int, raw: tuple[Any, ...]) -> None:
        """Read the commonest form, a tuple of a function and plain arguments; anything else goes to the builder."""
        graph = self._graph
        numbers = self._numbers
        deps: dict[int, Ref] = {}
        args: list[Any] = []
        for arg in raw[1:]:
            kind = type(arg)
            if kind is tuple or kind is str or kind is int or kind is float:
                if kind is tuple and arg and callable(arg[0]):
                    return self._read_nested(number, raw, True, {})
                try:
                    known = arg in graph
                except TypeError:
                    return self._read_nested(number, raw, True, {})
                if not known:
                    if kind is tuple:
                        return self._read_nested(number, raw, True, {})
                    args.append(arg)
                    continue
                dep = numbers.get(arg, _PENDING)
                if dep == _PENDING:
                    dep = self._resolve(arg)
                if dep == _VALUE:
                    args.append(self.values[arg])
                    continue
                ref = deps.get(dep)
                if ref is None:
                    count = len(deps)
                    ref = deps[dep] = _REFS[count] if count < 64 else Ref(count)
                args.append(ref)
            elif kind in _COMPOUND or isinstance(arg, _COMPOUND_BASES):
                return self._read_nested(number, raw, True, {})
            else:
                if kind in _CARRIERS:
                    self._note(number, annotations_of(arg))
                args.append(arg)
        self._put(number, raw[0], args, None, deps)
        return None

    def _read_node(self, number: int, node: Task, scope: dict[Key, Any]) -> None:
        """Read a task node; one with nodes for arguments goes to the builder, one that holds a graph is planned."""
        if node.func is _execute_subgraph and not scope:
            return self._read_subgraph(number, node)
        args = node.args
        if scope or (len(args) == 1 and type(args[0]) is List):
            return self._read_nested(number, node, False, scope)
        deps: dict[int, Ref] = {}
        given: list[Any] = []
        kwargs = node.kwargs
        for arg in (*args, *kwargs.values()) if kwargs else args:
            kind = type(arg)
            if kind is TaskRef or kind is Alias:
                key = arg.key if kind is TaskRef else arg.target
                dep = self._resolve(key)
                if dep == _VALUE:
                    given.append(self.values[key])
                    continue
                ref = deps.get(dep)
                if ref is None:
                    ref = deps[dep] = Ref(len(deps))
                given.append(ref)
            elif isinstance(arg, GraphNode | TaskRef):
                return self._read_nested(number, node, False, scope)
            else:
                if kind in _CARRIERS:
                    self._note(number, annotations_of(arg))
                given.append(arg)
        named = None
        if kwargs:
            named = dict(zip(kwargs, given[len(args) :], strict=True))
            del given[len(args) :]
        self._put(number, node.func, given, named, deps)
        return None

    def _put(
        self, number: int, func: Any, args: list[Any], kwargs: dict[str, Any] | None, deps: dict[int, Ref]
    ) -> None:
        draft = self.draft
        if type(func) in _CARRIERS:
            self._note(number, annotations_of(func))
        draft.funcs[number] = func
        draft.kwargs[number] = kwargs
        if not deps:
            draft.args[number] = tuple(args)
            return
        draft.deps[number] = list(deps)
        # Refs come in the order of first use, so as many as there are dependencies are each of them once.
        if len(args) == len(deps) and not kwargs and all(type(arg) is Ref for arg in args):
            draft.args[number] = EACH
        else:
            draft.args[number] = tuple(args)

    # Fused tasks

    def _read_subgraph(self, number: int, node: Task) -> None:
        """Read a task that dask made of several: by a plan shared by all tasks with the same inner graph."""
        inner, outkey, inkeys = node.args[:3]
        refs = node.args[3:]
        plan, parts = self._plan(inner, outkey, tuple(inkeys))
        if plan is None:
            return self._split(number, inner, parts, dict(zip(inkeys, refs, strict=True)))
        deps: dict[int, Ref] = {}
        outer = []
        for ref in refs:
            if type(ref) is DataNode:
                outer.append(ref.value)
                continue
            if not isinstance(ref, TaskRef | Alias):
                return self._read_whole(number, plan, refs)
            key = ref.key if isinstance(ref, TaskRef) else ref.target
            dep = self._resolve(key)
            if dep == _VALUE:
                outer.append(self.values[key])
                continue
            if dep not in deps:
                deps[dep] = Ref(len(deps))
            outer.append(deps[dep])
        func, args, kwargs = plan
        if args is not EACH:
            outer, kwargs = _replace(args, kwargs, outer)
        self._put(number, func, outer, kwargs, deps)
        return None

    def _read_whole(self, number: int, plan: Link, refs: Sequence[Any]) -> None:
        """Read a fused task whose inputs are nodes themselves."""
        builder = self._builder({})
        outer = [builder.read(ref, False) for ref in refs]
        func, args, kwargs = plan
        if args is not EACH:
            outer, kwargs = _replace(args, kwargs, outer)
        self._fill(number, builder, builder.step(func, outer, kwargs))

    def _plan(self, inner: dict[Key, Any], outkey: Key, inkeys: tuple[Key, ...]) -> tuple[Link | None, list[Key]]:
        """Plan an inner graph; no plan where callables in it carry annotations, since they are not the whole task's."""
        known = self._plans.get((id(inner), outkey))
        if known is not None:
            return known
        scope: dict[Key, Any] = {}
        builder = self._builder(scope)
        for position, key in enumerate(inkeys):
            scope[key] = builder.input(position)
        parts = _sort(inner, outkey)
        for key in parts:
            scope[key] = builder.read(inner[key], False)
        link = builder.finish(scope[outkey]) if builder.found is None else None
        self._plans[id(inner), outkey] = plan = (link, parts)
        return plan

    def _split(self, number: int, inner: dict[Key, Any], parts: list[Key], outer: dict[Key, Any]) -> None:
        """Make a task of each part again, so that each keeps its own annotations."""
        key = self.draft.keys[number]
        note = self._notes(key)
        builder = self._builder({})
        scope = {name: builder.read(ref, False) for name, ref in outer.items()}
        numbers = list(builder.deps)
        scope = {name: Made(numbers[read.position]) if type(read) is Ref else read for name, read in scope.items()}
        for part in parts:
            mine = number if part == parts[-1] else self.draft.reserve((f"{prefix_of(part)}-part", key, part), note)
            self._read_nested(mine, inner[part], False, scope)
            scope[part] = Made(mine)


def _replace(args: Sequence[Any], kwargs: dict[str, Any] | None, outer: list[Any]) -> tuple[list[Any], Any]:
    """Put what is outside into the one call of a plan."""
    named = {k: outer[a.position] if type(a) is Ref else a for k, a in kwargs.items()} if kwargs else None
    return [outer[a.position] if type(a) is Ref else a for a in args], named


def _sort(inner: Mapping[Key, Any], outkey: Key) -> list[Key]:
    """Order the parts of an inner graph, each after what it reads, the output last."""
    done: dict[Key, None] = {}
    stack: list[tuple[Key, bool]] = [(outkey, False)]
    open_keys = set()
    while stack:
        key, read = stack.pop()
        if read:
            done[key] = None
            open_keys.discard(key)
        elif key not in done:
            open_keys.add(key)
            stack.append((key, True))
            needs = [d for d in sorted(inner[key].dependencies, key=str) if d in inner and d not in done]
            if any(d in open_keys for d in needs):
                raise CycleError([key])
            stack.extend((d, False) for d in needs)
    return list(done)


_COMPOUND = frozenset({list, dict, set, frozenset})
_COMPOUND_BASES = (GraphNode, TaskRef, *KEY_TYPES, list, set, frozenset)
_CARRIERS = frozenset({AnnotatedCallable, partial, MethodType})
