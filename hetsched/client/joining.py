"""Futures among the arguments of tasks: each becomes an input that another graph of the same Client makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.worker.plan import Chain, OnList, Plan, Step, make_dict, make_list, make_set, make_tuple

from .futures import BaseFuture

__all__ = ["LOOKED_INTO", "MAKERS", "Joined", "fill", "futures_in", "inside", "join"]

_Call = tuple[Callable[..., Any], tuple[Any, ...], "dict[str, Any] | None"]

MAKERS: dict[type, Callable[..., Any]] = {list: make_list, tuple: make_tuple, set: make_set, dict: make_dict}
"""The containers that are looked into, and what makes them of their parts."""

LOOKED_INTO = frozenset({Plan, Chain, OnList, partial})
"""The callables that are looked into."""


_NONE_SHARED: Mapping[int, BaseFuture] = MappingProxyType({})


class Joined:
    """Tasks whose Futures have become inputs: ``-1 - n`` among their dependencies is the n-th of ``futures``.

    ``shared`` are Futures, by id, of values that the tasks hold, and that are replaced too.
    """

    def __init__(self, tasks: Sequence[TaskSpec], shared: Mapping[int, BaseFuture] = _NONE_SHARED) -> None:
        self.shared = shared
        self.futures: dict[BaseFuture, int] = {}
        self._seen: dict[int, bool] = {}  # whether an object that several tasks may share holds Futures
        self.tasks = [self._joined(spec) for spec in tasks]

    def _joined(self, spec: TaskSpec) -> TaskSpec:
        holds = self._holds
        args, kwargs = spec.args, spec.kwargs
        deep = type(spec.func) in LOOKED_INTO and holds(spec.func)
        found = deep or (args is not EACH and any(map(holds, args))) or (kwargs and any(map(holds, kwargs.values())))
        return _Rewriter(self, spec, deep).task() if found else spec

    def number(self, future: BaseFuture) -> int:
        """The dependency that stands for a Future."""
        return -1 - self.futures.setdefault(future, len(self.futures))

    def _holds(self, obj: Any) -> bool:
        """Whether there is a Future somewhere in an argument."""
        kind = type(obj)
        if kind is Ref or kind is str or kind is int or kind is float:
            return False
        if isinstance(obj, BaseFuture) or id(obj) in self.shared:
            return True
        if kind not in MAKERS and kind not in LOOKED_INTO:
            return False
        seen = self._seen.get(id(obj))
        if seen is None:
            self._seen[id(obj)] = False  # it may hold itself
            seen = self._seen[id(obj)] = any(map(self._holds, inside(obj)))
        return seen


def inside(obj: Any) -> Sequence[Any]:
    """Return what is looked at of a container, or of a callable that is made of others."""
    match obj:
        case dict():
            return [*obj.values()]
        case Plan():
            return [part for func, args, kwargs, _ in obj.steps for part in (func, *args, *(kwargs or {}).values())]
        case Chain():
            return [part for func, args, kwargs in obj.links for part in (func, *args, *(kwargs or {}).values())]
        case OnList():
            return [obj.func]
        case partial():
            return [obj.func, *obj.args, *obj.keywords.values()]
        case _:
            return [*obj]


class _Rewriter:
    """Rewrites one task. Where Futures are nested it becomes a plan, whose first slots hold the inputs."""

    def __init__(self, joined: Joined, spec: TaskSpec, deep: bool) -> None:
        self._joined = joined
        self._spec = spec
        self._deep = deep
        self._inputs = list(spec.dependencies)
        self._refs: dict[int, Ref] = {}
        self._steps: list[_Call] = []

    def task(self) -> TaskSpec:
        spec = self._spec
        args: Sequence[Any] = [Ref(n) for n in range(len(self._inputs))] if spec.args is EACH else spec.args
        func, given, named = spec.func, [*map(self._place, args)], spec.kwargs and self._named(spec.kwargs)
        if self._deep or self._steps:
            result = self._call(func, given, named)
            inputs = len(self._inputs)
            steps: list[Step] = [
                (f, tuple(_settled(a, inputs) for a in given), _settled_all(named, inputs), ())
                for f, given, named in self._steps
            ]
            assert type(result) is _Slot and result.step == len(steps) - 1
            return TaskSpec(spec.key, Plan(steps), EACH, None, self._inputs, spec.annotations)
        return TaskSpec(spec.key, func, tuple(given), named or None, self._inputs, spec.annotations)

    def _named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {name: self._place(arg) for name, arg in kwargs.items()}

    def _place(self, obj: Any) -> Any:
        """An argument with its Futures replaced; a container with some is made by a step of its own."""
        obj = self._joined.shared.get(id(obj), obj)
        if isinstance(obj, BaseFuture):
            number = self._joined.number(obj)
            ref = self._refs.get(number)
            if ref is None:
                ref = self._refs[number] = Ref(len(self._inputs))
                self._inputs.append(number)
            return ref
        make = MAKERS.get(type(obj))
        if make is None or not self._joined._holds(obj):  # noqa: SLF001 - of this room
            return obj
        items = [part for pair in obj.items() for part in pair] if type(obj) is dict else obj
        return self._step(make, [self._place(item) for item in items], None)

    def _step(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None) -> _Slot:
        self._steps.append((func, tuple(args), kwargs))
        return _Slot(len(self._steps) - 1)

    def _call(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any] | None) -> _Slot:
        """Call something; what is made of several calls is taken apart where there are Futures in it."""
        if type(func) not in LOOKED_INTO or not self._joined._holds(func):  # noqa: SLF001 - of this room
            return self._step(func, args, kwargs)
        match func:
            case OnList():
                return self._call(func.func, [self._step(make_list, args, None)], None)
            case partial():
                named = {**self._named(func.keywords), **(kwargs or {})}
                return self._call(func.func, [*map(self._place, func.args), *args], named or None)
            case Chain():
                values = args
                for link in func.links:
                    values = [self._linked(link, values)]
                slot: _Slot = values[0]
                return slot
            case Plan():
                values = list(args)
                for step in func.steps:
                    values.append(self._linked(step[:3], values))
                last: _Slot = values[-1]
                return last
        raise AssertionError(func)

    def _linked(self, call: _Call, values: Sequence[Any]) -> _Slot:
        """One call of a plan or a chain, with what its Refs mean."""
        func, args, kwargs = call
        if args is EACH and not kwargs:
            return self._call(func, [*values], None)
        given = [values[a.position] if type(a) is Ref else self._place(a) for a in args]
        named = kwargs and {k: values[a.position] if type(a) is Ref else self._place(a) for k, a in kwargs.items()}
        return self._call(func, given, named)


class _Slot:
    """Stands for the result of a step until it is known how many inputs there are."""

    __slots__ = ("step",)

    def __init__(self, step: int) -> None:
        self.step = step


def _settled_all(kwargs: dict[str, Any] | None, inputs: int) -> dict[str, Any] | None:
    return kwargs and {name: _settled(arg, inputs) for name, arg in kwargs.items()}


def _settled(arg: Any, inputs: int) -> Any:
    return Ref(inputs + arg.step) if type(arg) is _Slot else arg


def join(
    tasks: Sequence[TaskSpec], shared: Mapping[int, BaseFuture] = _NONE_SHARED
) -> tuple[Sequence[TaskSpec], list[BaseFuture]]:
    """Replace Futures in tasks, and the values that ``shared`` has Futures of, by id.

    Returns the tasks and the Futures. Cheap where there never was a Future.
    """
    if not BaseFuture.made:
        return tasks, []
    joined = Joined(tasks, shared)
    return (joined.tasks, list(joined.futures)) if joined.futures else (tasks, [])


def futures_in(obj: Any, found: dict[BaseFuture, None]) -> bool:
    """Collect the Futures in nested lists, tuples, sets and dicts; tells whether there are any."""
    if isinstance(obj, BaseFuture):
        found[obj] = None
        return True
    if type(obj) not in MAKERS:
        return False
    some = False
    for item in obj.values() if type(obj) is dict else obj:
        some = futures_in(item, found) or some
    return some


def fill(obj: Any, values: dict[BaseFuture, Any]) -> Any:
    """The same with values in place of Futures. Of lists, Futures without a value are left out."""
    if isinstance(obj, BaseFuture):
        return values[obj]
    kind = type(obj)
    if kind is dict:
        return {key: fill(item, values) for key, item in obj.items() if _has(item, values)}
    if kind in MAKERS:
        return kind([fill(item, values) for item in obj if _has(item, values)])
    return obj


def _has(obj: Any, values: dict[BaseFuture, Any]) -> bool:
    return not isinstance(obj, BaseFuture) or obj in values
