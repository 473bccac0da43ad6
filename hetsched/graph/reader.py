"""Read a dask graph, from the requested keys back, into a draft: only what is needed, each task once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from dask._task_spec import Alias, DataNode, GraphNode, List, Task, TaskRef, _execute_subgraph

from hetsched.core.annotations import combine
from hetsched.core.graph_task import GraphTask
from hetsched.core.types import Key, Ref
from hetsched.errors import GraphError
from hetsched.worker.plan import OnList, OwnCall

from .builder import KEY_TYPES
from .carried import CARRIERS, CONTAINERS
from .checked import Checked
from .keys import Container
from .subgraphs import Subgraphs
from .writer import OF, Writer

__all__ = ["Reader"]


class Reader:
    """Turns the tasks of one graph into a draft, in the order in which they are first spoken of.

    Literals are not tasks: they are put into the arguments of those that read them, by identity, and an alias is the
    task it leads to. The graph given is not changed.
    """

    def __init__(self, graph: Mapping[Key, Any], notes: Callable[[Key], dict[str, Any] | None] | None = None) -> None:
        self._writer = writer = Writer(graph, notes)
        self.draft = writer.draft
        self.keys = writer.keys
        self._subgraphs = Subgraphs(graph, writer)
        self._checked = Checked()

    def read(self, wanted: Iterable[Key]) -> dict[Key, int]:
        """Read what these keys need; returns the number of each that is a task, -1 for one that has a value.

        Raises MissingKeyError, BadKeyError or CycleError (of aliases) naming the key and who needs it.
        """
        keys = self.keys
        writer = self._writer
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
                writer.nested(raw.items, True, {})
            elif type(raw.node) is GraphTask:
                self._read_own_form(raw.node, raw.scope[OF], raw.scope)
            else:
                writer.nested(raw.node, False, raw.scope)
            if writer.notes is not None or writer.found is not None:
                writer.annotate(number, raw)
            number += 1
        self.draft.keys = names
        return numbers

    def _read_own_form(self, task: GraphTask, name: Key, scope: dict[Key, Any] | None = None) -> None:
        """Read one of our own calls, and take up its annotations. Raises GraphError where it calls nothing."""
        if not callable(task.func):
            given = f"{task.func!r:.200}; it was given for the task {name!r}"
            raise GraphError(f"hetsched.Task takes a callable, not {given}")
        if task.kwargs or scope:
            note, bare = task.annotations, GraphTask(task.func, task.args, task.kwargs, None)
            self._writer.nested(bare, True, scope or {})
        else:
            note = task.annotations
            self._read_call((task.func, *task.args))
        if note:
            mine = self._checked.check(note, name)
            self._writer.found = combine(self._writer.found, mine) if self._writer.found else mine

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
                    return self._writer.nested(raw, True, {})
                try:
                    number = numbers.get(arg)
                    if number is None:
                        number = find(arg)
                except Exception:  # a part of it may refuse to be hashed, in its own way
                    number = None
                if number is not None:
                    known = deps.get(number)
                    ref: Any = self._writer.refer(arg, number, deps) if known is None else known
                    refs += type(ref) is Ref
                    args.append(ref)
                    continue
                if kind is tuple:
                    return self._writer.nested(raw, True, {})
            elif isinstance(arg, _COMPOUND):
                return self._writer.nested(raw, True, {})
            elif kind in CARRIERS:
                self._writer.carried(arg)
            args.append(arg)
        if not only_list:
            self._writer.put(raw[0], args, None, deps, refs)
        elif deps and refs == len(args) == len(deps):
            if type(raw[0]) in CARRIERS:
                self._writer.carried(raw[0])
            self._writer.put(OnList(raw[0]), args, None, deps, refs)
        else:
            self._writer.found = None
            self._writer.nested(raw, True, {})
        return None

    def _read_node(self, node: Task) -> None:
        """Read a task node; one with nodes for arguments goes to the builder, one that holds a graph is planned."""
        if node.func is _execute_subgraph:
            return self._subgraphs.read(node)
        if type(node) is not Task and type(node).__call__ is not Task.__call__:
            return self._read_own(node)
        args = node.args
        if len(args) == 1 and type(args[0]) is List:
            return self._writer.nested(node, False, {})
        deps: dict[int, Ref] = {}
        given: list[Any] = []
        refs = 0
        kwargs = node.kwargs
        every: tuple[Any, ...] = (*args, *kwargs.values()) if kwargs else tuple(args)
        for arg in every:
            kind = type(arg)
            if kind is TaskRef or kind is Alias:
                ref = self._writer.reference(arg.key if kind is TaskRef else arg.target, deps)
                refs += type(ref) is Ref
                given.append(ref)
                continue
            if kind is DataNode:
                arg = arg.value
            elif isinstance(arg, _NODES):
                self._writer.found = None
                return self._writer.nested(node, False, {})
            if type(arg) in CARRIERS or type(arg) in CONTAINERS:
                self._writer.carried(arg)
            given.append(arg)
        named = None
        if kwargs:
            named = dict(zip(kwargs, given[len(args) :], strict=True))
            del given[len(args) :]
        self._writer.put(node.func, given, named, deps, refs)
        return None

    def _read_own(self, node: Task) -> None:
        """Read a task of a class that runs itself in its own way, given the values of its dependencies by key."""
        names = sorted(node.dependencies, key=str)
        builder = self._writer.builder({})
        values = [builder.read(TaskRef(name), False) for name in names]
        self._writer.fill(builder, builder.step(OwnCall(node, names), values, None))


_NODES: Final[tuple[Any, ...]] = (GraphNode, TaskRef, GraphTask)
_SIMPLE: Final = frozenset({str, int, float, tuple})
_COMPOUND: Final[tuple[Any, ...]] = (GraphNode, TaskRef, GraphTask, *KEY_TYPES, list, dict, set, frozenset)
