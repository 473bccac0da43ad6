"""Read the tasks that dask made of several: whole, by a plan, or taken apart where the parts are annotated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dask._task_spec import Alias, DataNode, Task, TaskRef, _execute_subgraph

from hetsched.core.types import EACH, Key, Ref, prefix_of
from hetsched.worker.plan import Link

from .builder import Builder, Made
from .carried import carried
from .inner import sort_inner
from .writer import OF, Part, Writer

__all__ = ["Subgraphs"]


class Subgraphs:
    """Reads those tasks of a graph that hold a graph of their own. Those that hold the same one share a plan."""

    def __init__(self, graph: Mapping[Key, Any], writer: Writer) -> None:
        self._graph = graph
        self._writer = writer
        self._keys = writer.keys
        self._plans: dict[tuple[int, Key], tuple[Link | None, list[Key]]] = {}

    def read(self, node: Task) -> None:
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
                outer.append(self._writer.reference(ref.key if kind is TaskRef else ref.target, deps))
            elif kind is DataNode:
                outer.append(ref.value)
            else:
                return self._read_whole(plan, refs)
        func, args, kwargs = plan
        if args is not EACH:
            outer, kwargs = _replace(args, kwargs, outer)
        # The plan's call may take the inputs in another order than that in which they are spoken of here.
        in_order = args is EACH and all(type(ref) is Ref and ref.position == n for n, ref in enumerate(outer))
        self._writer.put(func, outer, kwargs, deps, len(outer) if in_order else 0)
        return None

    def _read_whole(self, plan: Link, refs: Sequence[Any]) -> None:
        """Read a fused task whose inputs are nodes themselves."""
        builder = self._writer.builder({})
        outer = [builder.read(ref, False) for ref in refs]
        func, args, kwargs = plan
        if args is not EACH:
            outer, kwargs = _replace(args, kwargs, outer)
        self._writer.fill(builder, builder.step(func, outer, kwargs))

    def _plan(self, inner: dict[Key, Any], outkey: Key, inkeys: tuple[Key, ...]) -> tuple[Link | None, list[Key]]:
        """Plan an inner graph; no plan where callables in it carry annotations, since they are not the whole task's."""
        known = self._plans.get((id(inner), outkey))
        if known is not None:
            return known
        scope: dict[Key, Any] = {}
        builder = Builder(self._keys, self._graph, scope)
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
        scope[OF] = self._keys.reader
        self._add_parts(inner, parts, scope, whole=True)

    def _seen(self, ref: Any, scope: dict[Key, Any]) -> Any:
        """What a part's scope holds for something outside of it: a value, or which task makes it."""
        builder = self._writer.builder(scope)
        read = builder.read(ref, False)
        return Made(list(builder.deps)[read.position]) if type(read) is Ref else read

    def _add_parts(self, inner: dict[Key, Any], parts: list[Key], scope: dict[Key, Any], whole: bool) -> Any:
        """Make tasks of parts; the last is the task being read if ``whole``. Returns what stands for the last."""
        of = scope[OF]
        for part in parts:
            node = inner[part]
            last = whole and part == parts[-1]
            if isinstance(node, Task) and node.func is _execute_subgraph:
                deeper, outkey, inkeys = node.args[:3]
                inside = {name: self._seen(ref, scope) for name, ref in zip(inkeys, node.args[3:], strict=True)}
                inside[OF] = of
                scope[part] = self._add_parts(deeper, sort_inner(deeper, outkey), inside, last)
            elif isinstance(node, DataNode) and not last:
                scope[part] = node.value
            elif last:
                self._writer.nested(node, False, scope)
            else:
                name = (f"{prefix_of(part)}-part", of, part, len(self._keys.names))
                scope[part] = Made(self._keys.add(name, Part(node, scope)))
        return scope.get(parts[-1])


def _replace(args: Sequence[Any], kwargs: dict[str, Any] | None, outer: list[Any]) -> tuple[list[Any], Any]:
    """Put what is outside into the one call of a plan."""
    named = {k: outer[a.position] if type(a) is Ref else a for k, a in kwargs.items()} if kwargs else None
    return [outer[a.position] if type(a) is Ref else a for a in args], named
