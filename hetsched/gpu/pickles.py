"""Tell from a pickle whether what is in it reaches for a device, without loading it.

The pickle's instructions are followed with :mod:`pickletools`, and nothing they name is imported or called: a reference to
a library is its name, a function that cloudpickle sent by value is its code object, read like any other, and all else is
a shape. Only what is loaded here anyway is looked at by reference.
"""

from __future__ import annotations

import pickletools
import sys
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FunctionType
from typing import Any, Final

from hetsched.core.evidence import Evidence

from . import calls
from .bytecode import Frame
from .libraries import DEVICE, ROOTS, meaning, root_of
from .reading import Reading
from .resolve import value_of
from .values import UNKNOWN, Attr, Inner, Instance, Items, Known, Made, Name, Pairs, Value

__all__ = ["read_pickle"]

_MOST_INSTRUCTIONS: Final = 100_000
_MOST_BYTES: Final = 1 << 26
_MARK: Final = object()


class _Sent:
    """A function that is sent by value: an :class:`Inner` whose global names came with it."""

    module = ""

    def __init__(self, code: CodeType) -> None:
        self.names: dict[str, Any] = {}
        self.inner = Inner(code, self)
        self.globals = self

    def bound_to(self, owner: Value) -> Inner:
        """The function as a method of an object."""
        mine, method = self.inner, Inner(self.inner.code, self)
        method.cells, method.defaults, method.keywords = mine.cells, mine.defaults, mine.keywords
        method.bound = owner
        return method

    def look(self, name: str) -> Value:
        """What a global name stands for; those that did not come are built in, or not known."""
        if name in self.names:
            return _as_value(self.names[name])
        built_in = vars(sys.modules["builtins"])
        return Known(built_in[name]) if name in built_in else UNKNOWN


class _Partial:
    """A partial, and what it binds."""

    def __init__(self, func: Any, args: Any = (), named: Any = None) -> None:
        self.func = func
        self.args = args
        self.named = named or {}


class _Cell:
    def __init__(self, value: Any = UNKNOWN) -> None:
        self.value = value


class _Class:
    """A class that is sent by value."""

    def __init__(self, bases: Any = ()) -> None:
        self.names: dict[str, Any] = {}
        self.bases = [base for base in bases if type(base) is _Class] if type(bases) is tuple else []

    def instance(self) -> Instance:
        """An object of it, whose methods are among its attributes."""
        made = Instance(object)
        self.fill(made)
        return made

    def fill(self, made: Instance) -> None:
        """Give an object the attributes that the class has."""
        for base in reversed(self.bases):
            base.fill(made)
        for name, thing in self.names.items():
            if type(name) is str:
                made.attributes[name] = thing.bound_to(made) if type(thing) is _Sent else _as_value(thing)


class _Object:
    """Something made of a class or function that says nothing by itself; what it was made of is kept."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts


Look = Callable[[Frame, Any], None]


def read_pickle(data: bytes, look: Look) -> list[Evidence]:
    """What a pickle says, unsorted; ``look`` looks at what is loaded. Raises what a broken pickle raises."""
    if len(data) > _MOST_BYTES:
        return []
    frame = Reading().outermost()
    _judge(frame, _Machine().run(data), look, 0)
    return frame.found


def _judge(f: Frame, value: Any, look: Look, depth: int) -> None:  # noqa: C901 - a table of kinds
    """Note what a value in a pickle says: functions are taken to be called."""
    if depth > 6:
        return
    if isinstance(value, tuple | list):
        for one in value[:100]:
            _judge(f, one, look, depth + 1)
    elif type(value) is dict:
        for one in list(value.values())[:100]:
            _judge(f, one, look, depth + 1)
    elif type(value) is _Partial:
        calls.call(f, _as_value(value.func), [_as_value(v) for v in value.args], _named(value.named))
    elif type(value) is _Object:
        _judge(f, value.parts, look, depth + 1)
    elif type(value) is Made and value.device:
        f.say(0.9, value.device)
    elif type(value) is Instance and value.made is not None:
        look(f, value.made)
    elif type(value) in (Attr, Instance, Inner):
        calls.call(f, value, [], {})
    elif type(value) in (_Sent, Name):
        calls.hand_on(f, [_as_value(value)], {})
    elif type(value) is Known and isinstance(value.value, FunctionType | type):
        look(f, value.value)


def _named(pairs: Mapping[Any, Any]) -> dict[str, Value]:
    return {k: _as_value(v) for k, v in pairs.items() if type(k) is str}


def _as_value(thing: Any) -> Value:
    """A thing of a pickle as the reader of code knows values."""
    kind = type(thing)
    if kind is _Sent:
        return thing.inner
    if kind is _Class:
        return Made("a class")
    if kind is _Partial:
        return Made("functools.partial")
    if kind in (tuple, list):
        return Items(_as_value(one) for one in thing)
    if kind is dict:
        return Pairs(_named(thing))
    if kind in (Name, Known, Made, Attr, Instance, Inner):
        return thing
    return Known(thing) if kind in (str, int, float, bool, bytes, type(None)) else UNKNOWN


def _reference(module: Any, name: Any) -> Any:
    """What a reference by name is, looked up in what is loaded."""
    if type(module) is not str or type(name) is not str:
        return UNKNOWN
    path = f"{module}.{name}"
    if root_of(module) in ROOTS or path in _MADE_BY or root_of(module) in ("cloudpickle", "hetsched"):
        return Name(path)
    found: Any = sys.modules.get(module)
    try:
        for part in name.split("."):
            found = vars(found)[part]
    except Exception:  # not loaded, or not there
        return Name(path)
    return value_of(found, name)


class _Machine:
    """The stack machine that pickles are written for, on shapes."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for count, (op, arg, _) in enumerate(pickletools.genops(data)):
            if count > _MOST_INSTRUCTIONS:
                break
            handler = _OPS.get(op.name)
            if handler is not None:
                handler(self, arg)
            elif op.name not in _NO_EFFECT:
                self._other(op, arg)
        return self.stack

    def _other(self, op: Any, arg: Any) -> None:
        """Any other instruction, by what ``pickletools`` says it takes and leaves."""
        before = op.stack_before
        if pickletools.markobject in before:
            self.since_mark()
            before = before[: before.index(pickletools.markobject)]
        for _ in before:
            self.pop()
        for left in op.stack_after:
            plain = arg if type(arg) in (str, bytes, int, float, bool) and left is not pickletools.anyobject else UNKNOWN
            self.stack.append(plain)

    def pop(self) -> Any:
        return self.stack.pop() if self.stack else UNKNOWN

    def since_mark(self) -> list[Any]:
        items: list[Any] = []
        while self.stack:
            item = self.stack.pop()
            if item is _MARK:
                break
            items.append(item)
        return items[::-1]

    def make(self, callee: Any, args: Any) -> Any:
        """What a call in a pickle makes."""
        given = list(args) if type(args) in (tuple, list) else []
        if type(callee) is _Class:
            return callee.instance()
        if type(callee) is Name:
            maker = _MADE_BY.get(callee.path)
            if maker is not None:
                return maker(given)
            if root_of(callee.path) in ROOTS:
                return Made(callee.path, f"an object of {callee.path}" if meaning(callee.path) == DEVICE else "")
        if type(callee) is Known and isinstance(callee.value, type):
            return Instance(callee.value)
        return _Object([callee, *given] if type(callee) in (Known, _Sent, _Partial) else given)

    def build(self, target: Any, state: Any) -> None:
        """Give an object its state."""
        if type(target) is _Partial and type(state) is tuple and len(state) == 4:
            target.func, target.args, target.named = state[0], state[1] or (), state[2] or {}
        elif type(target) is Instance and type(state) is dict:
            target.attributes.update(_named(state))
        elif type(target) is _Object:
            target.parts.append(state)


def _code(args: list[Any]) -> Any:
    raw = [tuple(_raw(v) for v in arg) if type(arg) is tuple else _raw(arg) for arg in args]
    return Known(CodeType(*raw))


def _raw(value: Any) -> Any:
    return value.value if type(value) is Known else None if type(value) in (Name, Made, _Object) else value


def _function(args: list[Any]) -> Any:
    code = _raw(args[0])
    if type(code) is not CodeType:
        return UNKNOWN
    sent = _Sent(code)
    if len(args) > 1 and type(args[1]) is dict:
        sent.names = args[1]
    if len(args) > 3 and type(args[3]) is tuple:
        sent.inner.defaults = tuple(map(_as_value, args[3]))
    if len(args) > 4:
        _close_over(sent, args[4])
    return sent


def _close_over(sent: _Sent, cells: Any) -> None:
    if type(cells) is tuple:
        sent.inner.cells = tuple(_as_value(cell.value) if type(cell) is _Cell else UNKNOWN for cell in cells)


def _set_state(args: list[Any]) -> Any:
    """What cloudpickle gives a function after it made it: its globals, defaults and cells."""
    if len(args) == 2 and type(args[0]) is _Sent and type(args[1]) is tuple and len(args[1]) == 2:
        sent, slots = args[0], args[1][1]
        if type(slots) is dict:
            if type(slots.get("__globals__")) is dict:
                sent.names = {**sent.names, **slots["__globals__"]}
            if type(slots.get("__defaults__")) is tuple:
                sent.inner.defaults = tuple(map(_as_value, slots["__defaults__"]))
            if type(slots.get("__kwdefaults__")) is dict:
                sent.inner.keywords = _named(slots["__kwdefaults__"])
            _close_over(sent, slots.get("__closure__"))
    return UNKNOWN


def _set_class_state(args: list[Any]) -> Any:
    if len(args) >= 2 and type(args[0]) is _Class and type(args[1]) is tuple and args[1] and type(args[1][0]) is dict:
        args[0].names.update(args[1][0])
    return args[0] if args else UNKNOWN


def _module(args: list[Any]) -> Any:
    path = args[0] if args and type(args[0]) is str else ""
    if root_of(path) in ROOTS:
        return Name(path)
    return Known(sys.modules[path]) if path in sys.modules else Name(path)


def _method(args: list[Any]) -> Any:
    if len(args) == 2 and type(args[0]) in (Instance, Made, Name) and type(args[1]) is str:
        owner, name = args
        if type(owner) is Instance and name in owner.attributes:
            return owner.attributes[name]
        return Name(f"{owner.path}.{name}") if type(owner) is Name else Attr(owner, name)
    return _Object(args)


def _bound_method(args: list[Any]) -> Any:
    if len(args) != 2:
        return UNKNOWN
    func, owner = args
    if type(func) is _Sent:
        return func.bound_to(_as_value(owner))
    named = type(func) is Known and type(func.value) is FunctionType and type(owner) is Instance
    return Attr(owner, func.value.__name__) if named else UNKNOWN


def _first(args: list[Any]) -> Any:
    return args[0] if args else UNKNOWN


_CLOUD: Final = "cloudpickle.cloudpickle."
_MADE_BY: Final[dict[str, Callable[[list[Any]], Any]]] = {
    f"{_CLOUD}_builtin_type": lambda args: Name(f"types.{args[0]}") if args else UNKNOWN,
    f"{_CLOUD}_make_function": _function,
    f"{_CLOUD}_function_setstate": _set_state,
    f"{_CLOUD}_make_skeleton_class": lambda args: _Class(*args[2:3]),
    f"{_CLOUD}_class_setstate": _set_class_state,
    f"{_CLOUD}subimport": _module,
    "importlib.import_module": _module,
    f"{_CLOUD}_make_empty_cell": lambda args: _Cell(),
    f"{_CLOUD}_make_cell": lambda args: _Cell(*args[:1]),
    "types.CodeType": _code,
    "types.MethodType": _bound_method,
    "functools.partial": lambda args: _Partial(*args[:1]) if args else UNKNOWN,
    "builtins.getattr": _method,
    "builtins.staticmethod": _first,
    "builtins.classmethod": _first,
    "torch.device": lambda args: Known(str(args[0])) if args else UNKNOWN,
    "operator.methodcaller": lambda args: _Object([Attr(UNKNOWN, args[0])]) if args else UNKNOWN,
}


def _put(m: _Machine, arg: Any) -> None:
    m.memo[arg] = m.stack[-1] if m.stack else UNKNOWN


def _memoize(m: _Machine, arg: Any) -> None:
    m.memo[len(m.memo)] = m.stack[-1] if m.stack else UNKNOWN


def _get(m: _Machine, arg: Any) -> None:
    m.stack.append(m.memo.get(arg, UNKNOWN))


def _stack_global(m: _Machine, arg: Any) -> None:
    name, module = m.pop(), m.pop()
    m.stack.append(_reference(module, name))


def _global(m: _Machine, arg: Any) -> None:
    module, _, name = str(arg).partition(" ")
    m.stack.append(_reference(module, name))


def _reduce(m: _Machine, arg: Any) -> None:
    args, callee = m.pop(), m.pop()
    m.stack.append(m.make(callee, args))


def _new(m: _Machine, arg: Any) -> None:
    args, kind = m.pop(), m.pop()
    m.stack.append(m.make(kind, args))


def _new_named(m: _Machine, arg: Any) -> None:
    m.pop()
    _new(m, arg)


def _build(m: _Machine, arg: Any) -> None:
    state = m.pop()
    if m.stack:
        m.build(m.stack[-1], state)


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def make(m: _Machine, arg: Any) -> None:
        m.stack.append(tuple(m.pop() for _ in range(count))[::-1])

    return make


def _appends(m: _Machine, items: Iterable[Any]) -> None:
    if m.stack and type(m.stack[-1]) is list:
        m.stack[-1].extend(items)


def _set_items(m: _Machine, flat: list[Any]) -> None:
    if m.stack and type(m.stack[-1]) is dict:
        m.stack[-1].update({k: v for k, v in zip(flat[::2], flat[1::2], strict=False) if type(k) in (str, int)})


def _append(m: _Machine, arg: Any) -> None:
    item = m.pop()
    _appends(m, [item])


def _set_item(m: _Machine, arg: Any) -> None:
    value, key = m.pop(), m.pop()
    _set_items(m, [key, value])


def _pop(m: _Machine, arg: Any) -> None:
    m.pop()


_NO_EFFECT: Final = frozenset({"PROTO", "FRAME", "STOP", "READONLY_BUFFER"})
_OPS: Final[dict[str, Callable[[_Machine, Any], None]]] = {
    "MARK": lambda m, arg: m.stack.append(_MARK),
    "POP": _pop,
    "POP_MARK": lambda m, arg: m.since_mark() and None,
    "DUP": lambda m, arg: m.stack.append(m.stack[-1] if m.stack else UNKNOWN),
    "PUT": _put, "BINPUT": _put, "LONG_BINPUT": _put, "MEMOIZE": _memoize,
    "GET": _get, "BINGET": _get, "LONG_BINGET": _get,
    "GLOBAL": _global, "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce, "NEWOBJ": _new, "NEWOBJ_EX": _new_named, "BUILD": _build,
    "NONE": lambda m, arg: m.stack.append(None),
    "NEWTRUE": lambda m, arg: m.stack.append(True),
    "NEWFALSE": lambda m, arg: m.stack.append(False),
    "EMPTY_TUPLE": lambda m, arg: m.stack.append(()),
    "TUPLE": lambda m, arg: m.stack.append(tuple(m.since_mark())),
    "TUPLE1": _tuple_of(1), "TUPLE2": _tuple_of(2), "TUPLE3": _tuple_of(3),
    "EMPTY_LIST": lambda m, arg: m.stack.append([]),
    "LIST": lambda m, arg: m.stack.append(m.since_mark()),
    "APPEND": _append,
    "APPENDS": lambda m, arg: _appends(m, m.since_mark()),
    "EMPTY_DICT": lambda m, arg: m.stack.append({}),
    "SETITEM": _set_item,
    "SETITEMS": lambda m, arg: _set_items(m, m.since_mark()),
}  # fmt: skip
