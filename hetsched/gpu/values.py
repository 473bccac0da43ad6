"""What a reader of code knows of a value without running anything: the pieces that ``bytecode.py`` calculates with."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType
from typing import Any, TypeAlias

__all__ = [
    "NULL",
    "UNKNOWN",
    "Attr",
    "Inner",
    "InnerClass",
    "Input",
    "Instance",
    "Items",
    "Known",
    "Made",
    "Many",
    "Name",
    "Pairs",
    "Test",
    "Value",
    "either",
]

Value: TypeAlias = Any
"""One of the classes of this module, or :data:`UNKNOWN`."""


class _Mark:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


UNKNOWN = _Mark("UNKNOWN")
"""Anything."""
NULL = _Mark("NULL")
"""What the interpreter puts beside a callable that has no ``self``."""


class Known:
    """An object that is there: a constant, or what a global name stands for."""

    __slots__ = ("free", "value")

    def __init__(self, value: Any, free: bool = False) -> None:
        self.value = value
        self.free = free  # found in the callable itself and not by a global name: following it costs no depth


class Name:
    """A module, function or class of a library, by its dotted name; ``absent`` where it is not installed here."""

    __slots__ = ("absent", "path")

    def __init__(self, path: str, absent: bool = False) -> None:
        self.path = path
        self.absent = absent


class Input:
    """An argument of which nothing is known but its name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Attr:
    """An attribute of a value that is not known."""

    __slots__ = ("base", "name")

    def __init__(self, base: Value, name: str) -> None:
        self.base = base
        self.name = name


class Made:
    """What a call of a library's ``of`` gives.

    ``device`` says by what it is known to live on a device, "" if it is not; ``said`` whether that is evidence already.
    """

    __slots__ = ("device", "of", "said")

    def __init__(self, of: str, device: str = "", said: bool = False) -> None:
        self.of = of
        self.device = device
        self.said = said


class Instance:
    """An object of a class of the person's, with what its attributes are known to be.

    ``made`` is the object itself where there is one.
    """

    __slots__ = ("attributes", "kind", "made")

    def __init__(self, kind: type, made: Any = None) -> None:
        self.kind = kind
        self.made = made
        self.attributes: dict[str, Value] = {}


class Inner:
    """A function that the code makes: its code, what its free names are, its defaults, and what it is bound to."""

    __slots__ = ("bound", "cells", "code", "defaults", "keywords", "wide")

    def __init__(self, code: CodeType, wide: Any) -> None:
        self.code = code
        self.wide = wide  # where its global names are looked up
        self.cells: tuple[Value, ...] = ()
        self.defaults: tuple[Value, ...] = ()
        self.keywords: dict[str, Value] = {}
        self.bound: Value = None

    def bound_to(self, owner: Value) -> Inner:
        """The function as a method of an object."""
        method = Inner(self.code, self.wide)
        method.cells, method.defaults, method.keywords, method.bound = self.cells, self.defaults, self.keywords, owner
        return method


class InnerClass:
    """A class that the code makes: what its names are, and those of the classes it comes from that are such too."""

    __slots__ = ("bases", "names")

    def __init__(self, names: dict[str, Value], bases: Iterable[Value] = ()) -> None:
        self.names = names
        self.bases = [base for base in bases if type(base) is InnerClass]

    def instance(self) -> Instance:
        """An object of it, whose methods are among its attributes."""
        made = Instance(object)
        self.fill(made)
        return made

    def fill(self, made: Instance) -> None:
        """Give an object the attributes that the class has."""
        for base in reversed(self.bases):
            base.fill(made)
        for name, value in self.names.items():
            made.attributes[name] = value.bound_to(made) if type(value) is Inner else value


class Items:
    """A list, tuple or set that the code builds."""

    __slots__ = ("values",)

    def __init__(self, values: Iterable[Value]) -> None:
        self.values = list(values)


class Pairs:
    """A dict that the code builds, as far as its keys are known."""

    __slots__ = ("values",)

    def __init__(self, values: dict[Any, Value]) -> None:
        self.values = values


class Many:
    """One of several values, by the way the code took; each ``in_turn`` where a loop goes through them."""

    __slots__ = ("in_turn", "values")

    def __init__(self, values: list[Value], in_turn: bool = False) -> None:
        self.values = values
        self.in_turn = in_turn


class Test:
    """A condition about devices.

    ``true`` and ``false`` say what it means if it is one or the other: None that it is not, True that something lives
    on a device then, False nothing. ``strict`` where neither may be passed over as an exception to the rule.
    """

    __slots__ = ("false", "strict", "true")
    __test__ = False  # not a class of tests

    def __init__(self, true: bool | None, false: bool | None, strict: bool = True) -> None:
        self.true = true
        self.false = false
        self.strict = strict

    def swapped(self) -> Test:
        """The opposite condition."""
        return Test(self.false, self.true, self.strict)


def either(one: Value, other: Value) -> Value:
    """What is known of a value that is one or the other."""
    if one is other or other is NULL:
        return one
    if one is NULL:
        return other
    values = [*(one.values if type(one) is Many else (one,))]
    for value in other.values if type(other) is Many else (other,):
        if not any(_same(value, seen) for seen in values):
            values.append(value)
    return values[0] if len(values) == 1 else Many(values) if len(values) <= 8 else UNKNOWN


def _same(one: Value, other: Value) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is Known:
        same = one.value is other.value
        return same or (type(one.value) is type(other.value) is str and one.value == other.value)
    if type(one) is Name:
        return bool(one.path == other.path)
    return type(one) is Input and one.name == other.name
