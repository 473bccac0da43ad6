"""What functions make the tasks of a graph, and what their code and arguments say for their being GPU tasks.

Each function is looked at once in a graph, and its code once in a process. Tasks that hand other functions on (as
``map_partitions`` does), or a device's name, are told apart by these too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final
from weakref import ref

from hetsched.core.evidence import INPUT, Evidence
from hetsched.core.makers import NOBODY_KNOWN, Maker
from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.gpu.code import evidence_of, evidence_of_call
from hetsched.gpu.digests import digest_of, name_of
from hetsched.gpu.libraries import is_device_type
from hetsched.gpu.objects import cuda_nbytes, may_live_on_device
from hetsched.worker.context import InContext
from hetsched.worker.plan import Chain, OnList, OwnCall, Plan

__all__ = ["Makers"]

_PLAIN: Final = 0
_CALLABLE: Final = 1
_DEVICE: Final = 2
_TEXT: Final = 3
_NAMED: Final = 4
_WORDS: Final = (_TEXT, _NAMED)
_MOST_TYPES: Final = 10_000
_MOST_MAKERS: Final = 4096
"""So many functions of a graph are told apart; what comes after them is by nobody known."""

_kinds: Final[dict[type, int]] = {}
_plain: Final[set[type]] = {Ref, int, float, bool, complex, type(None), bytes, slice, range, tuple, list, dict}
"""The types whose instances tell nothing."""
_known: Final[dict[int, tuple[ref[Any], Maker]]] = {}
"""What was found out about functions that are their code and no more."""
_FUSED: Final = frozenset({OnList, Chain, Plan, OwnCall, InContext})


class Makers:
    """The functions of one graph, whose tasks may come in parts and have to stay until the last has.

    A function is known by its identity, or by those of the functions it was made of.
    """

    __slots__ = ("_calls", "_funcs", "_table")

    def __init__(self) -> None:
        self._funcs: dict[Any, int] = {}
        self._calls: dict[Any, int] = {}
        """Of calls that hand functions on, or a device or its name: by all that tells what they do."""
        self._table: list[Maker] = []

    def take(self, tasks: Sequence[TaskSpec]) -> tuple[list[Maker], list[int]]:
        """Return the functions that are new, and for each task the place of its own among all so far."""
        before = len(self._table)
        funcs, plain = self._funcs, _plain
        made_by: list[Any] = []
        last: Any = None
        place: Any = None
        for spec in tasks:
            func: Any = spec.func
            if func is not last:
                place = funcs.get(id(func))
                if place is None:
                    place = self._new(spec, func)
                last = func
            args = spec.args
            if args is not EACH:
                for arg in args:
                    if type(arg) not in plain and _is_telling(arg):
                        place, last = self._call(spec), None
                        break
            kwargs = spec.kwargs
            if kwargs and last is not None:
                for arg in kwargs.values():
                    if type(arg) not in plain and _is_telling(arg):
                        place, last = self._call(spec), None
                        break
            made_by.append(place)
        return self._table[before:], made_by

    def _new(self, spec: TaskSpec, func: Any) -> int:
        """The place of a function that was not met before, unless one made of the same functions was."""
        key: Any = id(func)
        if type(func) in _FUSED:
            extra: list[Any] = []
            _identify(func, extra)
            key = tuple(extra)
        place = self._funcs.get(key)
        if place is None:
            place = self._funcs[key] = self._add(spec, ())
        self._funcs[id(func)] = place
        return place

    def _call(self, spec: TaskSpec) -> int:
        """The place of a call with telling arguments."""
        extra: list[Any] = []
        _identify(spec.func, extra)
        args: list[Any] = [] if spec.args is EACH else [*spec.args]
        args += (spec.kwargs or {}).values()
        for arg in args:
            _tell(arg, extra)
        key = tuple(extra)
        place = self._calls.get(key)
        if place is None:
            place = self._calls[key] = self._add(spec, args)
        return place

    def _add(self, spec: TaskSpec, args: Sequence[Any]) -> int:
        place = len(self._table)
        if place >= _MOST_MAKERS:
            return _MOST_MAKERS - 1
        if place == _MOST_MAKERS - 1:
            self._table.append(NOBODY_KNOWN)
            return place
        func = spec.func
        known = _known.get(id(func)) if not args else None
        maker = known[1] if known is not None and known[0]() is func else _inspect(spec, args)
        self._table.append(maker)
        return place


def _inspect(spec: TaskSpec, args: Sequence[Any]) -> Maker:
    """Look into what a task calls, and into those of its arguments that tell something."""
    func: Any = spec.func
    calls = _leaves(func)
    handed = [arg for arg in args if _kind(arg) == _CALLABLE]
    pieces = [evidence for one in [*calls, *handed] for evidence in evidence_of(one)]
    if any(_names_device(arg) for arg in args):
        pieces += evidence_of_call(func, () if spec.args is EACH else spec.args, spec.kwargs)
    found: dict[tuple[str, str], Evidence] = {}
    for evidence in pieces:
        found.setdefault((evidence.kind, evidence.detail), evidence)
    # What a partial, a closure or an argument binds may decide where the same code runs: such functions are different.
    digest = digest_of([*calls, *handed], sorted({f"{kind} {detail}" for kind, detail in found}))
    if any(_is_on_device(arg) for arg in args):
        found[INPUT, ""] = Evidence(INPUT, 0.9, "an argument is on a device")
    maker = Maker(digest, name_of(calls, handed), tuple(found.values()))
    bound = (func.__closure__, func.__defaults__, func.__kwdefaults__) if type(func) is FunctionType else None
    if not args and bound == (None, None, None):
        if len(_known) >= _MOST_TYPES:
            _known.clear()
        _known[id(func)] = ref(func), maker
    return maker


def _kind(arg: Any) -> int:
    kind = type(arg)
    if kind in _plain:
        return _PLAIN
    known = _kinds.get(kind)
    return _learn(kind) if known is None else known


def _learn(kind: type) -> int:
    if is_device_type(kind):
        found = _NAMED
    elif may_live_on_device(kind):
        found = _DEVICE
    elif kind is str:
        found = _TEXT
    elif kind.__module__.partition(".")[0] not in ("numpy", "pandas") and hasattr(kind, "__call__"):  # noqa: B004
        found = _CALLABLE
    else:
        found = _PLAIN
    if len(_kinds) + len(_plain) < _MOST_TYPES:
        if found == _PLAIN:
            _plain.add(kind)
        else:
            _kinds[kind] = found
    return found


def _is_telling(arg: Any) -> bool:
    """Tell whether an argument says something of where a call belongs."""
    kind = _kind(arg)
    if kind in _WORDS:
        return _names_device(arg)
    return kind == _CALLABLE or (kind == _DEVICE and cuda_nbytes(arg) > 0)


def _tell(arg: Any, extra: list[Any]) -> None:
    """Add what an argument says, if anything."""
    if type(arg) in _plain:
        return
    kind = _kind(arg)
    if kind == _CALLABLE:
        extra.append(id(arg))
    elif kind in _WORDS and _names_device(arg):
        extra.append(str(arg))
    elif kind == _DEVICE and cuda_nbytes(arg):
        extra.append(_DEVICE)


def _names_device(arg: Any) -> bool:
    if type(arg) is str:
        return len(arg) < 32 and ("cuda" in arg or "gpu" in arg)
    return _kind(arg) == _NAMED and "cpu" not in str(arg).lower()


def _is_on_device(arg: Any) -> bool:
    return _kind(arg) == _DEVICE and cuda_nbytes(arg) > 0


def _identify(func: Any, extra: list[Any]) -> None:
    """Add the identities of the functions of a fused task, and of those that it hands on."""
    kind = type(func)
    if kind is OnList or kind is OwnCall:
        _identify(func.func, extra)
    elif kind is InContext:
        _identify(func.__wrapped__, extra)
    elif kind is Chain or kind is Plan:
        for step in func.links if kind is Chain else func.steps:
            _identify(step[0], extra)
            if step[1] is not EACH:
                for arg in step[1]:
                    _tell(arg, extra)
            if step[2]:
                for arg in step[2].values():
                    _tell(arg, extra)
    else:
        extra.append(id(func))


def _leaves(func: Any) -> list[Callable[..., Any]]:
    """The functions that a fused task calls or hands on, each once."""
    found: dict[int, Any] = {}
    stack = [func]
    while stack:
        one = stack.pop()
        kind = type(one)
        if kind is OnList or kind is OwnCall:
            stack.append(one.func)
        elif kind is InContext:
            stack.append(one.__wrapped__)
        elif kind is Chain or kind is Plan:
            for step in reversed(one.links if kind is Chain else one.steps):
                named: Mapping[str, Any] = step[2] or {}
                handed = [*(() if step[1] is EACH else step[1]), *named.values()]
                stack += [arg for arg in handed if _kind(arg) == _CALLABLE]
                stack.append(step[0])
        else:
            found[id(one)] = one
    return list(found.values())
