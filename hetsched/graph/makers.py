"""What functions make the tasks of a graph, and what their code and arguments say for their being GPU tasks.

Each function is looked at once in a graph, and its code once in a process. Tasks that hand other functions on (as
``map_partitions`` does), or a device's name, are told apart by these too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hetsched.core.evidence import INPUT, Evidence
from hetsched.core.makers import Maker
from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.gpu.code import evidence_of, evidence_of_call
from hetsched.gpu.digests import digest_of, name_of
from hetsched.gpu.objects import cuda_nbytes, may_live_on_device
from hetsched.worker.context import InContext
from hetsched.worker.plan import Chain, OnList, OwnCall, Plan

__all__ = ["Makers"]

_PLAIN: Final = 0
_CALLABLE: Final = 1
_DEVICE: Final = 2
_TEXT: Final = 3
_MOST_TYPES: Final = 10_000
_MOST_MAKERS: Final = 4096
"""So many functions of a graph are told apart; what comes after them is by nobody known."""

_kinds: dict[type, int] = {
    **dict.fromkeys((Ref, int, float, bool, complex, type(None), bytes, slice, range, tuple, list, dict), _PLAIN),
    str: _TEXT,
}
_FUSED: Final = frozenset({OnList, Chain, Plan, OwnCall, InContext})


class Makers:
    """The functions of one graph, whose tasks may come in parts; keeps no function alive beyond that."""

    __slots__ = ("_kept", "_places", "_table")

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}
        self._table: list[Maker] = []
        self._kept: list[Any] = []

    def take(self, tasks: Sequence[TaskSpec]) -> tuple[list[Maker], list[int]]:
        """Return the functions that are new, and for each task the place of its own among all so far."""
        before = len(self._table)
        places = self._places
        made_by: list[int] = []
        for spec in tasks:
            func = spec.func
            key: Any = id(func)
            if type(func) in _FUSED or spec.kwargs or (spec.args is not EACH and spec.args):
                key = self._key(spec, key)
            place = places.get(key)
            made_by.append(self._add(spec, key) if place is None else place)
        return self._table[before:], made_by

    def _key(self, spec: TaskSpec, key: Any) -> Any:
        """Name a call by all that tells what it does: functions by identity, texts that may name a device, devices."""
        extra: list[Any] = []
        if type(spec.func) in _FUSED:
            _identify(spec.func, extra)
            key = 0
        if spec.args is not EACH:
            for arg in spec.args:
                kind = _kinds.get(type(arg))
                if kind != _PLAIN:
                    _tell(arg, kind, extra)
        if spec.kwargs:
            for arg in spec.kwargs.values():
                kind = _kinds.get(type(arg))
                if kind != _PLAIN:
                    _tell(arg, kind, extra)
        return (key, *extra) if extra else key

    def _add(self, spec: TaskSpec, key: Any) -> int:
        place = len(self._table)
        if place >= _MOST_MAKERS:
            return _MOST_MAKERS - 1
        self._places[key] = place
        self._kept.append(spec)  # what is known by its identity has to stay
        if place == _MOST_MAKERS - 1:
            self._table.append(Maker("", ""))
            return place
        calls = _leaves(spec.func)
        args = [] if spec.args is EACH else [*spec.args]
        args += (spec.kwargs or {}).values()
        handed = [arg for arg in args if _kind(arg) == _CALLABLE]
        found: dict[tuple[str, str], Evidence] = {}
        for func in [*calls, *handed]:
            for evidence in evidence_of(func):
                found.setdefault((evidence.kind, evidence.detail), evidence)
        if any(_names_device(arg) for arg in args):
            for evidence in evidence_of_call(spec.func, () if spec.args is EACH else spec.args, spec.kwargs):
                found.setdefault((evidence.kind, evidence.detail), evidence)
        if any(_is_on_device(arg) for arg in args):
            found[INPUT, ""] = Evidence(INPUT, 0.9, "an argument is on a device")
        self._table.append(Maker(digest_of([*calls, *handed]), name_of(calls, handed), tuple(found.values())))
        return place


def _kind(arg: Any) -> int:
    kind = _kinds.get(type(arg))
    return _learn(type(arg)) if kind is None else kind


def _learn(kind: type) -> int:
    if len(_kinds) >= _MOST_TYPES:
        return _PLAIN
    if may_live_on_device(kind):
        found = _DEVICE
    elif kind.__module__.partition(".")[0] not in ("numpy", "pandas") and hasattr(kind, "__call__"):  # noqa: B004
        found = _CALLABLE
    else:
        found = _PLAIN
    _kinds[kind] = found
    return found


def _tell(arg: Any, kind: int | None, extra: list[Any]) -> None:
    kind = _learn(type(arg)) if kind is None else kind
    if kind == _CALLABLE:
        extra.append(id(arg))
    elif kind == _TEXT:
        if _names_device(arg):
            extra.append(arg)
    elif kind == _DEVICE and cuda_nbytes(arg):
        extra.append(_DEVICE)


def _names_device(arg: Any) -> bool:
    return type(arg) is str and len(arg) < 32 and ("cuda" in arg or "gpu" in arg)


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
                    _tell(arg, _kinds.get(type(arg)), extra)
            if step[2]:
                for arg in step[2].values():
                    _tell(arg, _kinds.get(type(arg)), extra)
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
