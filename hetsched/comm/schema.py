"""Check what came over the wire against the type that a field is declared to have."""

from __future__ import annotations

import itertools
import math
import types
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias, Union

__all__ = ["Check", "Wrong", "check_of", "checks_of"]

Check: TypeAlias = Callable[[Any], Any]
"""Gives the value back, nested NamedTuples made of arrays; raises Wrong for one of another type."""


_MOST_SHAPES = 64
_TUPLE = frozenset({tuple})


class Wrong(Exception):
    """The value has not the declared type."""


def checks_of(kind: type) -> tuple[Check, ...]:
    """The checks of a NamedTuple's fields, in their order."""
    hints = typing.get_type_hints(kind)
    return tuple(check_of(hints[name]) for name in kind._fields)  # type: ignore[attr-defined]


def check_of(hint: Any) -> Check:
    """The check for one type: plain ones, None, unions, sequences, tuples, mappings and NamedTuples of such."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is Hashable:
        return _anything
    if hint is float:
        return _plain(float, int)
    if hint in (int, str, bool, bytes):
        return _plain(hint)
    if hint is None or hint is type(None):
        return _plain(type(None))
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return _named(hint)
    if origin in (Union, types.UnionType):
        return _either([check_of(arg) for arg in args])
    if origin is tuple and not (len(args) == 2 and args[1] is Ellipsis):
        return _fixed([check_of(arg) for arg in args])
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return _sequence(check_of(args[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(check_of(args[0]), check_of(args[1]))
    raise TypeError(f"{hint!r} cannot be sent")


def _anything(value: Any) -> Any:
    return value


def _plain(*kinds: type) -> Check:
    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise Wrong
        return value

    check.kinds = frozenset(kinds)  # type: ignore[attr-defined]
    return check


def _either(checks: list[Check]) -> Check:
    plain = [getattr(check, "kinds", None) for check in checks]
    if None not in plain:
        return _plain(*(kind for kinds in plain for kind in kinds))  # type: ignore[union-attr]

    def check(value: Any) -> Any:
        for one in checks:
            try:
                return one(value)
            except Wrong:
                continue
        raise Wrong

    return check


def _fixed(checks: list[Check]) -> Check:
    count = len(checks)
    shapes = _shapes([getattr(check, "kinds", None) for check in checks])
    if shapes is not None:

        def check_plain(value: Any) -> Any:
            if type(value) is not tuple or tuple(map(type, value)) not in shapes:
                raise Wrong
            return value

        check_plain.shapes = shapes  # type: ignore[attr-defined]
        return check_plain

    def check(value: Any) -> Any:
        if type(value) is not tuple or len(value) != count:
            raise Wrong
        return tuple(one(item) for one, item in zip(checks, value, strict=True))

    return check


def _shapes(kinds: Sequence[frozenset[type] | None]) -> frozenset[tuple[type, ...]] | None:
    """All that the types of plain items may be together; None where one is not plain, or they are too many."""
    plain = [known for known in kinds if known is not None]
    if len(plain) < len(kinds) or math.prod(map(len, plain)) > _MOST_SHAPES:
        return None
    return frozenset(itertools.product(*plain))


def _sequence(one: Check) -> Check:
    kinds = getattr(one, "kinds", None)
    shapes = getattr(one, "shapes", None)

    def check(value: Any) -> Any:
        if type(value) is not tuple:
            raise Wrong
        if not value:
            return value
        if kinds is not None:
            if not kinds.issuperset(map(type, value)):
                raise Wrong
            return value
        if shapes is not None:
            if not _TUPLE.issuperset(map(type, value)):
                raise Wrong
            if not shapes.issuperset([tuple(map(type, item)) for item in value]):
                raise Wrong
            return value
        return tuple(map(one, value))

    return check


def _mapping(key: Check, item: Check) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise Wrong
        return {key(k): item(v) for k, v in value.items()}

    return check


def _named(kind: Any) -> Check:  # noqa: C901 - hot
    plain: list[tuple[int, frozenset[type]]] = []
    others: list[tuple[int, Check]] = []

    count = len(kind._fields)

    def learn() -> None:
        # Not at once, since the types of two messages may speak of each other.
        for place, one in enumerate(checks_of(kind)):
            kinds = getattr(one, "kinds", None)
            if kinds is None:
                others.append((place, one))
            else:
                plain.append((place, kinds))

    def check(value: Any) -> Any:
        if not plain and not others:
            learn()
        if type(value) is not tuple or len(value) != count:
            raise Wrong
        for place, kinds in plain:
            if type(value[place]) not in kinds:
                raise Wrong
        fields: Any = value
        for place, one in others:
            old = value[place]
            new = one(old)
            if new is not old:
                if fields is value:
                    fields = list(value)
                fields[place] = new
        return _make(kind, fields)

    return check


_make = tuple.__new__  # a NamedTuple's own constructor takes three times as long
