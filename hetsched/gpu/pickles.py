"""Tell from a pickle whether what is in it reaches for a device, without loading it.

The pickle's instructions are followed with :mod:`pickletools`, and nothing they name is imported or called: a
reference to a library is its name, a function that cloudpickle sent by value is its code object, read like any other,
and all else is a shape. Only what is loaded here anyway is looked at by reference.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, Final, TypeAlias

from hetsched.core.evidence import Evidence

from . import calls
from .bytecode import Frame
from .held import device_in
from .libraries import DEVICE, ROOTS, meaning, root_of
from .pickled import MAKERS, Other, Partial, Sent, as_value, named_fields, named_values, reference
from .reading import Reading
from .resolve import value_of
from .values import UNKNOWN, Attr, Inner, InnerClass, Instance, Known, Made, Name, Pairs

__all__ = ["read_pickle"]

_MOST_INSTRUCTIONS: Final = 100_000
_MOST_BYTES: Final = 1 << 26
_MARK: Final = object()

Look: TypeAlias = Callable[[Frame, Any], None]


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
    elif type(value) is Partial:
        if type(value.func) is Partial:
            value = Partial(value.func.func, (*value.func.args, *value.args), {**value.func.named, **value.named})
        calls.call(f, f.uses(as_value(value.func)), [as_value(v) for v in value.args], named_values(value.named))
    elif type(value) is Other:
        _judge(f, value.parts, look, depth + 1)
    elif type(value) is Made and value.device:
        f.say(0.9, value.device)
    elif type(value) is Instance and value.made is not None:
        look(f, value.made)
    elif type(value) in (Attr, Instance, Inner):
        calls.call(f, value, [], {})
    elif type(value) in (Sent, Name):
        calls.hand_on(f, [as_value(value)], {})
    elif type(value) is Known and isinstance(value.value, FunctionType | type):
        look(f, value.value)


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
            plain = (
                arg if type(arg) in (str, bytes, int, float, bool) and left is not pickletools.anyobject else UNKNOWN
            )
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
        if type(callee) is Partial and type(callee.func) is Name and callee.func.path == "operator.methodcaller":
            every = [*callee.args, *given]
            return Partial(Attr(UNKNOWN, every[0]), every[1:], callee.named)
        if type(callee) is InnerClass:
            made = callee.instance()
            made.attributes.update(named_fields(callee.names.get("_fields"), given))
            return made
        if type(callee) is Name:
            maker = MAKERS.get(callee.path)
            if maker is not None:
                return maker(given)
            if root_of(callee.path) in ROOTS:
                return Made(callee.path, f"an object of {callee.path}" if meaning(callee.path) == DEVICE else "")
        if type(callee) is Known and isinstance(callee.value, type):
            made = Instance(callee.value)
            made.attributes.update(named_fields(value_of(vars(callee.value).get("_fields")), given))
            return made
        return Other([callee, *given] if type(callee) in (Known, Sent, Partial) else given)

    def build(self, target: Any, state: Any) -> None:
        """Give an object its state."""
        if type(target) is Partial and type(state) is tuple and len(state) == 4:
            target.func, target.args, target.named = state[0], state[1] or (), state[2] or {}
        elif type(target) is Instance:
            for one in state if type(state) is tuple else (state,):  # with slots there are two
                target.attributes.update(named_values(one) if type(one) is dict else {})
        elif type(target) is Made and type(state) is dict and not target.device:
            told = device_in(Pairs(named_values(state)))
            target.device = f"a {target.of} with {told}" if told else ""
        elif type(target) is Other:
            target.parts.append(state)


def _put(m: _Machine, arg: Any) -> None:
    m.memo[arg] = m.stack[-1] if m.stack else UNKNOWN


def _memoize(m: _Machine, arg: Any) -> None:
    m.memo[len(m.memo)] = m.stack[-1] if m.stack else UNKNOWN


def _get(m: _Machine, arg: Any) -> None:
    m.stack.append(m.memo.get(arg, UNKNOWN))


def _stack_global(m: _Machine, arg: Any) -> None:
    name, module = m.pop(), m.pop()
    m.stack.append(reference(module, name))


def _global(m: _Machine, arg: Any) -> None:
    module, _, name = str(arg).partition(" ")
    m.stack.append(reference(module, name))


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


def _pop_mark(m: _Machine, arg: Any) -> None:
    m.since_mark()


_NO_EFFECT: Final = frozenset({"PROTO", "FRAME", "STOP", "READONLY_BUFFER"})
_OPS: Final[dict[str, Callable[[_Machine, Any], None]]] = {
    "MARK": lambda m, arg: m.stack.append(_MARK),
    "POP": _pop,
    "POP_MARK": _pop_mark,
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
