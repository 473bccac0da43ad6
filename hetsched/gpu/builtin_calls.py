"""Calls of built-in functions that say something: `isinstance`, `getattr`, `map`, `__import__`."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from .arguments import pairs_of, several
from .bytecode import Frame
from .libraries import DEVICE, ROOTS, meaning, root_of
from .values import UNKNOWN, Attr, Inner, InnerClass, Input, Instance, Items, Known, Many, Name, Pairs, Test, Value

__all__ = ["BUILT_IN", "LIBRARIES_OF_ARRAYS"]

LIBRARIES_OF_ARRAYS: Final = frozenset({"numpy", "pandas"})
"""Those whose arrays and frames are the host's."""


def _isinstance(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    kinds = args[1] if len(args) > 1 else UNKNOWN
    every = several(kinds) or [kinds]
    names = [v.path for v in every if type(v) is Name]
    if any(meaning(path) == DEVICE for path in names):
        f.say(0.2, f"asks for {names[0]}")
        return Test(True, False)
    hosts = [v.value for v in every if type(v) is Known and isinstance(v.value, type)]
    if hosts and all(root_of(kind.__module__) in LIBRARIES_OF_ARRAYS for kind in hosts):
        return Test(False, True)
    return UNKNOWN


def _hasattr(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    name = args[1].value if len(args) > 1 and type(args[1]) is Known else ""
    if name in ("__cuda_array_interface__", "get", "to_pandas", "copy_to_host", "is_cuda", "device"):
        return Test(name == "__cuda_array_interface__", False)
    return Known(False) if name and _lacks(args[0], name) else UNKNOWN


def _lacks(owner: Value, name: str) -> bool:
    """Whether an object that is there has no such attribute yet: one that is made when it is first wanted."""
    obj = owner.made if type(owner) is Instance and name not in owner.attributes else getattr(owner, "value", None)
    kind = type(obj)
    if obj is None or (type(owner) is not Instance and kind not in _GIVEN_ATTRIBUTES):
        return False
    try:
        inside = vars(obj)
    except TypeError:  # it has slots
        return False
    classes = [vars(base) for base in type.__getattribute__(kind, "__mro__")]
    return name not in inside and not any(name in names or "__getattr__" in names for names in classes)


_GIVEN_ATTRIBUTES: Final = (threading.local, FunctionType)
"""What people keep things on, of the standard library's types."""


def _getattr(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    if len(args) > 1 and type(args[1]) is Known and type(args[1].value) is str:
        if len(args) > 2 and _lacks(args[0], args[1].value):
            return args[2]
        return f.reading.attribute(f, args[0], args[1].value)
    if args and type(args[0]) is Name and meaning(f"{args[0].path}.x") == DEVICE:
        return Name(f"{args[0].path}.some_function")
    return UNKNOWN


def _import(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    path = args[0].value if args and type(args[0]) is Known else None
    if type(path) is str and root_of(path) in ROOTS:
        f.reading.mention(f, root_of(path))
        return Name(path)
    return UNKNOWN


def _class(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    """The statement ``class``: its body is read, as a function that is called."""
    if not args or type(args[0]) is not Inner:
        return UNKNOWN
    return InnerClass(f.reading.names_of(f, args[0]), args[2:])


def _dict(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    return Pairs({**(pairs_of(args[0]) if args else {}), **named})


def _mapped(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    if args and type(args[0]) in (Name, Inner, Known, Attr, Many):
        f.reading.call(f, args[0], [UNKNOWN], {})
    return UNKNOWN


def _text(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    return args[0] if args and type(args[0]) in (Known, Attr, Input) else UNKNOWN


def _same_items(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    return args[0] if args else Items(())


def _nothing(f: Frame, args: list[Value], named: dict[str, Value]) -> Value:
    return UNKNOWN


_Special = Callable[[Frame, list[Value], dict[str, Value]], Value]
BUILT_IN: Final[dict[Any, _Special]] = {
    isinstance: _isinstance,
    issubclass: _isinstance,
    hasattr: _hasattr,
    getattr: _getattr,
    __build_class__: _class,
    __import__: _import,
    importlib.import_module: _import,
    dict: _dict,
    map: _mapped,
    filter: _mapped,
    str: _text,
    list: _same_items,
    tuple: _same_items,
    **dict.fromkeys((print, type, len, id, repr, callable, bool, int, float, range, setattr, vars, dir), _nothing),
}
"""What calls of built-in functions say, and give."""
