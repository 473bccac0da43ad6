"""What an attribute of a value is, and what is at an index of it."""

from __future__ import annotations

import functools
from enum import EnumType
from types import FunctionType, ModuleType
from typing import Final

from hetsched.core.evidence import Evidence

from .arguments import pairs_of, several
from .bytecode import Frame
from .resolve import class_attribute, value_of
from .values import UNKNOWN, Attr, InnerClass, Instance, Known, Made, Many, Name, Value, either

__all__ = ["attribute", "item", "set_attribute"]


def attribute(f: Frame, owner: Value, name: str) -> Value:
    """What an attribute of a value is."""
    kind = type(owner)
    if kind is Name:
        return Name(f"{owner.path}.{name}", owner.absent)
    if kind is InnerClass:
        return owner.names.get(name, UNKNOWN)
    if kind is Known:
        return _of_object(owner, name)
    if kind is Instance:
        return _of_instance(f, owner, name)
    if kind is Many:
        found: Value = None
        for one in owner.values:
            got = attribute(f, one, name)
            found = got if found is None else either(found, got)
        return found
    return Attr(owner, name)


def _of_object(owner: Known, name: str) -> Value:
    obj = owner.value
    try:
        if isinstance(obj, ModuleType):
            inside = vars(obj)  # some make their names when asked
            return value_of(inside[name], name) if name in inside else Attr(UNKNOWN, name)
        if isinstance(obj, type):
            if type(obj) is EnumType and name in vars(obj)["_member_map_"]:
                return value_of(vars(obj)["_member_map_"][name], name)
            found = class_attribute(obj, name)
            found = found.__func__ if isinstance(found, staticmethod | classmethod) else found
            return Attr(Instance(obj), name) if type(found) is FunctionType else value_of(found, name)
    except Exception:  # anything may be in the place of a module or class
        return UNKNOWN
    return Attr(owner, name)


def _of_instance(f: Frame, owner: Instance, name: str) -> Value:
    if name in owner.attributes:
        return owner.attributes[name]
    value: Value = None
    try:
        if owner.made is not None:
            inside = vars(owner.made)
            if name in inside:
                value = value_of(inside[name], name, free=True)
    except Exception:  # slots, or a __dict__ of its own
        value = None
    if value is None:
        value = _by_class(f, owner, name)
    if type(value) is Instance and value.made is not None:
        value = f.reading.as_made(f, owner, name, value)
    if type(value) is Made and value.device and not value.said:
        f.say(0.9, f"{name}, {value.device}")
    return value


def _by_class(f: Frame, owner: Instance, name: str) -> Value:
    try:
        found = class_attribute(owner.kind, name)
    except KeyError:
        made = f.reading.made_by_init(f, owner).get(name)
        return Attr(owner, name) if made is None else made
    getter = getattr(found, "fget", None) if isinstance(found, property) else getattr(found, "func", None)
    if isinstance(found, property | functools.cached_property) and type(getter) is FunctionType:
        return f.reading.follow(f, Known(getter, free=True), [owner], {})
    if isinstance(found, FunctionType | staticmethod | classmethod):
        return Attr(owner, name)
    if type(found) in _OF_SLOTS and owner.made is not None:
        return value_of(found.__get__(owner.made), name, free=True)
    if hasattr(type(found), "__get__"):
        return f.reading.made_by_init(f, owner).get(name, UNKNOWN) if type(found) in _OF_SLOTS else UNKNOWN
    return value_of(found, name)


_OF_SLOTS: Final = (type(vars(Name)["path"]), type(vars(Evidence)["kind"]))
"""What classes with ``__slots__`` and named tuples have in the place of attributes; nobody's code is run by them."""


def set_attribute(owner: Value, name: str, value: Value) -> None:
    """Note what an attribute of an object is from now on."""
    if type(owner) is Instance:
        owner.attributes[name] = value


def item(owner: Value, index: Value) -> Value:
    """What is at an index."""
    if type(index) is Known:
        if type(index.value) is str:
            found = pairs_of(owner).get(index.value)
            if found is not None:
                return found
        elif type(index.value) is int:
            values = several(owner)
            if -len(values) <= index.value < len(values):
                return values[index.value]
    elif 0 < len(several(owner)) <= 8:
        return functools.reduce(either, several(owner))
    return Attr(owner, "[]")
