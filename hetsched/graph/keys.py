"""Find out what each key of a graph is: a task with a number, a value, or another name for one of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef

from hetsched.core.graph_task import GraphTask
from hetsched.core.types import Key
from hetsched.errors import BadKeyError, CycleError, MissingKeyError

from .builder import CONTAINERS, KEY_TYPES, Builder, is_call

__all__ = ["VALUE", "Container", "Keys"]

VALUE: Final = -1
"""The number of a key that no task makes: its value is known."""

_PENDING: Final = -2
_NODES: Final[tuple[Any, ...]] = (GraphNode, TaskRef, GraphTask)
_UNKNOWN: Final = object()


class Container:
    """A container of the older form that holds keys or calls, so that making it is a task."""

    __slots__ = ("items",)

    def __init__(self, items: Any) -> None:
        self.items = items


class Keys:
    """Numbers the tasks of a graph as they are first spoken of.

    ``names[n]`` is the key of task ``n`` and ``raws[n]`` what the graph says of it; ``values`` are those of keys that
    no task makes. An alias has the number, or the value, of what it leads to.
    """

    __slots__ = ("_graph", "names", "numbers", "raws", "reader", "values")

    def __init__(self, graph: Mapping[Key, Any]) -> None:
        self.names: list[Key] = []
        self.raws: list[Any] = []
        self.values: dict[Key, Any] = {}
        self.reader: Key = None
        """The task being read, for error messages."""
        self._graph = graph
        self.numbers: dict[Key, int] = {}

    def resolve(self, key: Key) -> int:
        """Give the number of the task that makes a key's value, or -1 where the value is known.

        Raises MissingKeyError, BadKeyError or CycleError (of aliases), naming the key and who needs it.
        """
        number = self.numbers.get(key)
        if number is not None and number != _PENDING:
            return number
        raw = self._graph.get(key, _UNKNOWN)
        if type(raw) is Task or type(raw) is GraphTask or (type(raw) is tuple and raw and callable(raw[0])):
            number = self.numbers[key] = self.add(key, raw)
            return number
        return self._follow(key)

    def find(self, obj: Any) -> int | None:
        """Give the number of what may be a key that was not spoken of yet; None if it is none."""
        raw = self._graph.get(obj, _UNKNOWN)
        if raw is _UNKNOWN:
            return None
        if type(raw) is tuple and raw and callable(raw[0]):
            number = len(self.raws)
            self.numbers[obj] = number
            self.names.append(obj)
            self.raws.append(raw)
            return number
        return self._follow(obj)

    def add(self, name: Key, raw: Any) -> int:
        """Number a task."""
        self.names.append(name)
        self.raws.append(raw)
        return len(self.raws) - 1

    def _follow(self, key: Key) -> int:
        """Follow aliases to a task or value."""
        chain: list[Key] = []
        while True:
            number = self.numbers.get(key)
            if number == _PENDING:
                raise CycleError(chain[chain.index(key) :])
            if number is None:
                raw = self._lookup(key)
                target = self._alias_target(raw)
                if target is not None:
                    self.numbers[key] = _PENDING
                    chain.append(key)
                    (key,) = target
                    continue
                number = self.numbers[key] = self._enter(key, raw)
            for alias in chain:
                self.numbers[alias] = number
                if number == VALUE:
                    self.values[alias] = self.values[key]
            return number

    def _lookup(self, key: Key) -> Any:
        try:
            return self._graph[key]
        except KeyError:
            needed = "was asked for" if self.reader is None else f"is needed by {self.reader!r}"
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
            except Exception:  # a part of it may refuse to be hashed, in its own way
                return None
        return None

    def _enter(self, key: Key, raw: Any) -> int:
        """Take in a key that is no alias."""
        if isinstance(raw, DataNode):
            self.values[key] = raw.value
            return VALUE
        if isinstance(raw, (Task, GraphTask)) or is_call(raw):
            return self.add(key, raw)
        if isinstance(raw, CONTAINERS):
            if self._holds_reference(raw):
                return self.add(key, Container(raw))
            builder = Builder(self, self._graph, {})
            read = builder.read(raw, True)
            if builder.has_steps:
                return self.add(key, Container(raw))  # a named tuple is made by a call
            raw = read
        self.values[key] = raw
        return VALUE

    def _holds_reference(self, container: Any) -> bool:
        """Tell whether a container of the older form holds a key or a call, at any depth."""
        stack = [container]
        while stack:
            for item in stack.pop():
                if is_call(item) or isinstance(item, _NODES):
                    return True
                try:
                    if isinstance(item, KEY_TYPES) and item in self._graph:
                        return True
                except Exception:
                    pass
                if isinstance(item, CONTAINERS):
                    stack.append(item)
        return False
