"""What pickles make, as shapes: functions and classes that are sent by value, partials, and objects made of others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, Final

from .held import device_in, is_installed
from .libraries import ROOTS, root_of
from .resolve import value_of
from .values import UNKNOWN, Attr, Inner, InnerClass, Instance, Items, Known, Made, Name, Pairs, Value

__all__ = ["MAKERS", "Cell", "Other", "Partial", "Sent", "as_value", "named_fields", "named_values", "reference"]


class Sent:
    """A function that is sent by value: an :class:`Inner` whose global names came with it."""

    module = ""

    def __init__(self, code: CodeType) -> None:
        self.names: dict[str, Any] = {}
        self.inner = Inner(code, self)
        self.globals = self

    def look(self, name: str) -> Value:
        """What a global name stands for; those that did not come are built in, or not known."""
        if name in self.names:
            return as_value(self.names[name])
        built_in = vars(sys.modules["builtins"])
        return Known(built_in[name]) if name in built_in else UNKNOWN


class Partial:
    """A partial, and what it binds."""

    def __init__(self, func: Any, args: Any = (), named: Any = None) -> None:
        self.func = func
        self.args = args
        self.named = named or {}


class Cell:
    """What a function closes over."""

    def __init__(self, value: Any = UNKNOWN) -> None:
        self.value = value


class Other:
    """Something made of a class or function that says nothing by itself; what it was made of is kept."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts


def named_values(pairs: Mapping[Any, Any]) -> dict[str, Value]:
    """The things of a dict as values, by those of its keys that are texts."""
    return {k: as_value(v) for k, v in pairs.items() if type(k) is str}


def named_fields(fields: Value, given: list[Any]) -> dict[str, Value]:
    """The things that a named tuple is made of, as values."""
    names = [name.value for name in fields.values if type(name) is Known] if type(fields) is Items else []
    things = given[0] if len(names) != len(given) == 1 and type(given[0]) in (tuple, list) else given
    return {name: as_value(one) for name, one in zip(names, things, strict=False) if type(name) is str}


def as_value(thing: Any) -> Value:
    """A thing of a pickle as the reader of code knows values."""
    kind = type(thing)
    if kind is Sent:
        return thing.inner
    if kind is Partial:
        return Made("functools.partial")
    if kind in (tuple, list):
        return Items(as_value(one) for one in thing)
    if kind is dict:
        return Pairs(named_values(thing)) if thing else Known(thing)
    if kind is Other or (kind is Instance and is_installed(thing.kind)):
        held = device_in(Items(map(as_value, thing.parts)), told=False) if kind is Other else device_in(thing)
        of = "an object" if kind is Other else f"a {thing.kind.__name__}"
        return Made(of, f"{of} with {held}") if held else UNKNOWN if kind is Other else thing
    if kind in (Name, Known, Made, Attr, Instance, Inner, InnerClass):
        return thing
    return Known(thing) if kind in (str, int, float, bool, bytes, type(None)) else UNKNOWN


def reference(module: Any, name: Any) -> Any:
    """What a reference by name is, looked up in what is loaded."""
    if type(module) is not str or type(name) is not str:
        return UNKNOWN
    path = f"{module}.{name}"
    if root_of(module) in ROOTS or path in MAKERS or root_of(module) in ("cloudpickle", "hetsched"):
        return Name(path)
    found: Any = sys.modules.get(module)
    try:
        for part in name.split("."):
            found = vars(found)[part]
    except Exception:  # not loaded, or not there
        return Name(path)
    return value_of(found, name)


def _code(args: list[Any]) -> Any:
    raw = [tuple(_raw(v) for v in arg) if type(arg) is tuple else _raw(arg) for arg in args]
    make: Any = CodeType
    return Known(make(*raw))


def _raw(value: Any) -> Any:
    return value.value if type(value) is Known else None if type(value) in (Name, Made, Other) else value


def _function(args: list[Any]) -> Any:
    code = _raw(args[0])
    if type(code) is not CodeType:
        return UNKNOWN
    sent = Sent(code)
    if len(args) > 1 and type(args[1]) is dict:
        sent.names = args[1]
    if len(args) > 3 and type(args[3]) is tuple:
        sent.inner.defaults = tuple(map(as_value, args[3]))
    if len(args) > 4:
        _close_over(sent, args[4])
    return sent


def _close_over(sent: Sent, cells: Any) -> None:
    if type(cells) is tuple:
        sent.inner.cells = tuple(as_value(cell.value) if type(cell) is Cell else UNKNOWN for cell in cells)


def _set_state(args: list[Any]) -> Any:
    """What cloudpickle gives a function after it made it: its globals, defaults and cells."""
    if len(args) == 2 and type(args[0]) is Sent and type(args[1]) is tuple and len(args[1]) == 2:
        sent, slots = args[0], args[1][1]
        if type(slots) is dict:
            if type(slots.get("__globals__")) is dict:
                sent.names = {**sent.names, **slots["__globals__"]}
            if type(slots.get("__defaults__")) is tuple:
                sent.inner.defaults = tuple(map(as_value, slots["__defaults__"]))
            if type(slots.get("__kwdefaults__")) is dict:
                sent.inner.keywords = named_values(slots["__kwdefaults__"])
            _close_over(sent, slots.get("__closure__"))
    return UNKNOWN


def _class(args: list[Any]) -> Any:
    bases = args[2] if len(args) > 2 else ()
    return InnerClass({}, bases if type(bases) is tuple else ())


def _enumeration(args: list[Any]) -> Any:
    names: dict[str, Value] = {}
    for name, value in args[3].items() if len(args) > 3 and type(args[3]) is dict else ():
        member = names[name] = Instance(object)
        member.attributes.update(value=as_value(value), name=Known(name))
    return InnerClass(names)


def _set_class_state(args: list[Any]) -> Any:
    told = len(args) > 1 and type(args[0]) is InnerClass and type(args[1]) is tuple and args[1]
    if told and type(args[1][0]) is dict:
        args[0].names.update(named_values(args[1][0]))
    return args[0] if args else UNKNOWN


def _module(args: list[Any]) -> Any:
    path = args[0] if args and type(args[0]) is str else ""
    if root_of(path) in ROOTS:
        return Name(path)
    return Known(sys.modules[path]) if path in sys.modules else Name(path)


def _method(args: list[Any]) -> Any:
    held = as_value(args[0]) if args and type(args[0]) in (Instance, Other) else None
    if type(held) is Made:
        return held
    if len(args) == 2 and type(args[0]) in (Instance, Made, Name) and type(args[1]) is str:
        owner, name = args
        if type(owner) is Instance and name in owner.attributes:
            return owner.attributes[name]
        return Name(f"{owner.path}.{name}") if type(owner) is Name else Attr(owner, name)
    return Other(args)


def _bound_method(args: list[Any]) -> Any:
    if len(args) != 2:
        return UNKNOWN
    func, owner = args[0], as_value(args[1])
    if type(owner) is Made and owner.device:
        return owner
    if type(func) is Sent:
        return func.inner.bound_to(owner)
    named = type(func) is Known and type(func.value) is FunctionType and type(owner) is Instance
    return Attr(owner, func.value.__name__) if named else UNKNOWN


def _first(args: list[Any]) -> Any:
    return args[0] if args else UNKNOWN


_CLOUD: Final = "cloudpickle.cloudpickle."
MAKERS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    f"{_CLOUD}_builtin_type": lambda args: Name(f"types.{args[0]}") if args else UNKNOWN,
    f"{_CLOUD}_make_function": _function,
    f"{_CLOUD}_function_setstate": _set_state,
    f"{_CLOUD}_make_skeleton_class": _class,
    f"{_CLOUD}_class_setstate": _set_class_state,
    f"{_CLOUD}_make_skeleton_enum": _enumeration,
    f"{_CLOUD}subimport": _module,
    f"{_CLOUD}dynamic_subimport": lambda args: InnerClass(named_values(args[1])) if len(args) == 2 else UNKNOWN,
    "importlib.import_module": _module,
    f"{_CLOUD}_make_empty_cell": lambda args: Cell(),
    f"{_CLOUD}_make_cell": lambda args: Cell(*args[:1]),
    "types.CodeType": _code,
    "types.MethodType": _bound_method,
    "types.MappingProxyType": _first,
    "collections.OrderedDict": lambda args: {},
    "collections.defaultdict": lambda args: {},
    "types.SimpleNamespace": lambda args: Instance(SimpleNamespace),
    "functools.partial": lambda args: Partial(*args[:1]) if args else UNKNOWN,
    "builtins.getattr": _method,
    "builtins.staticmethod": _first,
    "builtins.classmethod": _first,
    "torch.device": lambda args: Known(str(args[0])) if args else UNKNOWN,
    "operator.methodcaller": lambda args: Partial(Attr(UNKNOWN, args[0]), args[1:]) if args else UNKNOWN,
}
"""What a pickle's calls of these give."""
