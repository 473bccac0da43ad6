"""Flatten nested calls and containers into one call, or a plan of several; without recursion.

Two dialects are read: dask's task nodes, in which only nodes mean anything, and the older tuples, in which strings,
numbers and tuples that equal a key mean that key's result. A node inside a tuple is read as a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from dask._task_spec import (
    Alias,
    DataNode,
    Dict,
    GraphNode,
    List,
    Set,
    Task,
    TaskRef,
    Tuple,
    _execute_subgraph,
    convert_legacy_task,
)
from dask.utils import is_namedtuple_instance

from hetsched.core.annotations import combine, validate
from hetsched.core.graph_task import GraphTask
from hetsched.core.types import EACH, Key, Ref
from hetsched.worker.plan import Link, OnList, Plan, Step, make_dict, make_list, make_set, make_tuple

from .carried import carried
from .inner import sort_inner

__all__ = ["CONTAINERS", "KEY_TYPES", "Builder", "Made", "is_call"]

KEY_TYPES: Final[tuple[Any, ...]] = (int, float, str, tuple)
"""The types that may name another task inside a tuple or list, as in dask."""

_CONTAINERS: dict[type, Callable[..., Any]] = {List: make_list, Tuple: make_tuple, Set: make_set, Dict: make_dict}
CONTAINERS: Final[tuple[Any, ...]] = (list, tuple, set, frozenset)
"""The containers that are searched for keys in the older form, as in dask."""

_PLAIN: Final = frozenset({list, tuple, str, int, float})
_BUILTIN: dict[type, Callable[..., Any]] = {list: make_list, tuple: make_tuple, set: make_set}


def is_call(obj: Any) -> bool:
    """Tell whether this is a call in the older form: a tuple that begins with something callable."""
    return type(obj) is tuple and bool(obj) and callable(obj[0])


def _construct(kind: type, *items: Any) -> Any:
    return kind(items)


class Made:
    """Stands in a scope for a key that the task of this number makes."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class _Slot:
    """Stands for the result of a step until it is known how many inputs there are."""

    __slots__ = ("step",)

    def __init__(self, step: int) -> None:
        self.step = step


_READ: Final = frozenset({Ref, _Slot})


class _Frame:
    """One call or container on its way: what is to be read, and what was."""

    __slots__ = ("children", "func", "legacy", "names", "original", "out")

    def __init__(
        self, func: Callable[..., Any], children: Sequence[Any], names: Sequence[str], legacy: bool, original: Any
    ) -> None:
        self.func = func
        self.children = children
        self.names = names
        self.legacy = legacy
        self.original = original
        """The container itself, where it may turn out to hold no reference and so to be a plain value."""
        self.out: list[Any] = []


class Numbering(Protocol):
    """Knows what each key of the graph is."""

    values: dict[Key, Any]

    def resolve(self, key: Key) -> int:
        """Give the number of the task that makes a key, or -1 and then ``values`` has its value."""
        ...


class Builder:
    """Builds what one task does. ``scope`` has an inner graph's keys, as they were read; they hide those outside.

    ``apart`` makes a task of its own of a call with annotations, given the scope it stands in, and numbers it; without
    it such a call counts as one that carries annotations.
    """

    __slots__ = ("_apart", "_graph", "_keys", "_scope", "_steps", "deps", "found")

    def __init__(
        self,
        keys: Numbering,
        graph: Mapping[Key, Any],
        scope: dict[Key, Any],
        apart: Callable[[GraphTask, dict[Key, Any]], int] | None = None,
    ) -> None:
        self._keys = keys
        self._graph = graph
        self._scope = scope
        self._apart = apart
        self._steps: list[tuple[Callable[..., Any], list[Any], dict[str, Any] | None]] = []
        self.deps: dict[int, Ref] = {}
        self.found: dict[str, Any] | None = None
        """The annotations carried by callables that were met."""

    def read(self, obj: Any, legacy: bool) -> Any:
        """Read an object; returns a value, a Ref to an input or the slot of a step."""
        first = self._open(obj, legacy, argument=False)
        if first is None:
            return self._leaf(obj, legacy)
        stack = [first]
        while True:
            frame = stack[-1]
            done = len(frame.out)
            if done < len(frame.children):
                child = frame.children[done]
                inner = self._open(child, frame.legacy, argument=frame.original is None)
                if inner is None:
                    frame.out.append(self._leaf(child, frame.legacy))
                else:
                    stack.append(inner)
                continue
            stack.pop()
            read = self._close(frame)
            if not stack:
                return read
            stack[-1].out.append(read)

    def _open(self, obj: Any, legacy: bool, argument: bool) -> _Frame | None:
        """Begin a call or container; None for a leaf."""
        kind = type(obj)
        if not legacy or kind not in _PLAIN:
            if isinstance(obj, Task) or kind is GraphTask:
                return self._open_node(obj)
            if not legacy:
                return None
        elif kind is tuple and obj and callable(obj[0]):
            return _Frame(obj[0], obj[1:], (), True, None)
        elif kind is not list:
            if kind is not tuple or self._is_key(obj):
                return None
            return _Frame(make_tuple, obj, (), True, obj)
        if kind is dict and argument:
            return self._open_node(Dict(obj))
        if not isinstance(obj, CONTAINERS) or self._is_key(obj):
            return None
        if is_namedtuple_instance(obj):
            node = convert_legacy_task(None, obj, self._graph)
            return self._open_node(node) if isinstance(node, Task) else None
        return _Frame(_BUILTIN.get(kind) or partial(_construct, kind), list(obj), (), True, obj)

    def _open_node(self, node: Any) -> _Frame | None:
        if type(node) is GraphTask:
            return self._open_call(node)
        if node.func is _execute_subgraph:
            return None
        container = _CONTAINERS.get(type(node))
        if container is not None:
            return _Frame(container, node.args, (), False, None)
        return _Frame(node.func, [*node.args, *node.kwargs.values()], list(node.kwargs), False, None)

    def _open_call(self, task: GraphTask) -> _Frame | None:
        if task.annotations:
            if self._apart is not None:
                return None
            self.found = combine(self.found or {}, validate(task.annotations))
        names = task.kwargs or {}
        return _Frame(task.func, [*task.args, *names.values()], list(names), True, None)

    def _is_key(self, obj: Any) -> bool:
        if not isinstance(obj, KEY_TYPES):
            return False
        try:
            return obj in self._scope or obj in self._graph
        except Exception:  # a part of it may refuse to be hashed, in its own way
            return False

    def _leaf(self, obj: Any, legacy: bool) -> Any:
        if isinstance(obj, TaskRef):
            return self._reference(obj.key)
        if isinstance(obj, GraphNode):
            if isinstance(obj, Alias):
                return self._reference(obj.target)
            if isinstance(obj, Task):
                return self._inline(obj)
            if not isinstance(obj, DataNode):
                return obj
            obj = obj.value
        elif type(obj) is GraphTask and self._apart is not None:
            return self.input(self._apart(obj, self._scope))
        elif legacy and self._is_key(obj):
            return self._reference(obj)
        self.carry(obj)
        return obj

    def _inline(self, node: Task) -> Any:
        """Read the graph inside of a fused task in the place where the task stands."""
        inner, outkey, inkeys = node.args[:3]
        outer = [self.read(ref, False) for ref in node.args[3:]]
        around, apart = self._scope, self._apart
        self._apart = None  # what the scope has from now on means something in this task alone
        self._scope = {**around, **dict(zip(inkeys, outer, strict=True))}
        for part in sort_inner(inner, outkey):
            self._scope[part] = self.read(inner[part], False)
        result = self._scope[outkey]
        self._scope, self._apart = around, apart
        return result

    def carry(self, obj: Any) -> None:
        """Take up the annotations of a callable."""
        self.found = carried(obj, self.found)

    def _reference(self, key: Key) -> Any:
        if key in self._scope:
            read = self._scope[key]
            if type(read) is Made:
                return self.input(read.number)
            if type(read) not in _READ:
                self.carry(read)
            return read
        number = self._keys.resolve(key)
        if number >= 0:
            return self.input(number)
        value = self._keys.values[key]
        self.carry(value)
        return value

    @property
    def has_steps(self) -> bool:
        """Whether anything read so far has to be called."""
        return bool(self._steps)

    def input(self, number: int) -> Ref:
        """Refer to the result of another task."""
        ref = self.deps.get(number)
        if ref is None:
            ref = self.deps[number] = Ref(len(self.deps))
        return ref

    def _close(self, frame: _Frame) -> Any:
        out = frame.out
        original = frame.original
        if original is not None and not any(type(item) in _READ for item in out):
            return type(original)(out)
        self.carry(frame.func)
        named = len(out) - len(frame.names)
        kwargs = dict(zip(frame.names, out[named:], strict=True)) if frame.names else None
        return self.step(frame.func, out[:named], kwargs)

    def step(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any] | None) -> _Slot:
        """Add a call."""
        self._steps.append((func, args, kwargs))
        return _Slot(len(self._steps) - 1)

    def finish(self, result: Any) -> Link:
        """Return the one call that does all that was read and gives ``result``."""
        steps = self._steps
        if not isinstance(result, _Slot) or result.step != len(steps) - 1:
            self.step(_identity, [result], None)
        if len(steps) == 1:
            func, args, kwargs = steps[0]
            return func, self._each(args, kwargs), kwargs
        last = steps[-1]
        if len(steps) == 2 and steps[0][0] is make_list and not steps[0][2] and not last[2] and len(last[1]) == 1:
            gathered = self._each(steps[0][1], None)
            if gathered is EACH:
                return OnList(last[0]), EACH, None
        return Plan(self._settle()), EACH, None

    def _each(self, args: list[Any], kwargs: dict[str, Any] | None) -> tuple[Any, ...]:
        if kwargs or not args or len(args) != len(self.deps):
            return tuple(args)
        for position, arg in enumerate(args):
            if type(arg) is not Ref or arg.position != position:
                return tuple(args)
        return EACH

    def _settle(self) -> list[Step]:
        """Turn slots into Refs, and find out where each value is read last."""
        inputs = len(self.deps)
        last_read: dict[int, int] = {}

        def settle(number: int, arg: Any) -> Any:
            if type(arg) is _Slot:
                arg = Ref(inputs + arg.step)
            elif type(arg) is not Ref:
                return arg
            last_read[arg.position] = number
            return arg

        settled = []
        for number, (func, args, kwargs) in enumerate(self._steps):
            given = tuple(settle(number, arg) for arg in args)
            named = {name: settle(number, arg) for name, arg in kwargs.items()} if kwargs else None
            settled.append((func, given, named))
        drops: list[list[int]] = [[] for _ in settled]
        for slot, number in last_read.items():
            drops[number].append(slot)
        return [(*call, tuple(drop)) for call, drop in zip(settled, drops, strict=True)]


def _identity(value: Any) -> Any:
    return value
