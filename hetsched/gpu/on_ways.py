"""The instructions that make functions, call, and go other ways: jumps, loops, returns.

Where versions of Python differ, each is here: 3.11 names a call's arguments by an instruction of their own, 3.12 leaves
an iterator where a loop ends. Importing this fills the table of ``bytecode.py``.
"""

from __future__ import annotations

import dis
import sys
from types import CodeType
from typing import Final

from . import calls, conditions
from .bytecode import Frame, handles
from .values import NULL, UNKNOWN, Inner, Known, Many, Value

__all__: list[str] = []

_VERSION: Final = sys.version_info[:2]
_ITERATES: Final = frozenset({dis.opmap["FOR_ITER"], dis.opmap["EXTENDED_ARG"]})


@handles("MAKE_FUNCTION")
def _make_function(f: Frame, arg: int) -> None:
    code = f.pop()
    if type(code) is not Known or type(code.value) is not CodeType:
        f.stack.append(UNKNOWN)
        return
    inner = Inner(code.value, f)
    f.stack.append(inner)
    if _VERSION >= (3, 13):
        return
    f.stack.pop()
    for flag in (8, 4, 2, 1):
        if arg & flag:
            _set_of_function(inner, flag, f.pop())
    f.stack.append(inner)


@handles("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(f: Frame, arg: int) -> None:
    value, inner = f.pops(2)
    if type(inner) is Inner:
        _set_of_function(inner, arg, value)
    f.stack.append(inner)


def _set_of_function(inner: Inner, flag: int, value: Value) -> None:
    if flag == 1:
        inner.defaults = tuple(calls.several(value))
    elif flag == 2:
        inner.keywords = calls.pairs_of(value)
    elif flag == 8:
        inner.cells = tuple(calls.several(value))


@handles("KW_NAMES")
def _kw_names(f: Frame, arg: int) -> None:
    f.keywords = f.code.co_consts[arg]


@handles("CALL")
def _call(f: Frame, arg: int) -> None:
    names, f.keywords = f.keywords, ()
    _called(f, arg, names)


@handles("CALL_KW")
def _call_kw(f: Frame, arg: int) -> None:
    names = f.pop()
    _called(f, arg, names.value if type(names) is Known else ())


def _called(f: Frame, count: int, names: tuple[str, ...]) -> None:
    args = f.pops(count)
    low, high = f.pops(2)
    if low is NULL:
        callee = high
    else:
        callee = low
        if high is not NULL:
            args.insert(0, high)
    split = len(args) - len(names)
    f.stack.append(calls.call(f, callee, args[:split], dict(zip(names, args[split:], strict=False))))


@handles("CALL_FUNCTION_EX")
def _call_ex(f: Frame, arg: int) -> None:
    named = calls.pairs_of(f.pop()) if arg & 1 or _VERSION >= (3, 14) else {}
    args = calls.several(f.pop())
    low, high = f.pops(2)
    callee = high if low is NULL else low
    f.stack.append(calls.call(f, callee, args, named))


@handles("BEFORE_WITH", "BEFORE_ASYNC_WITH")
def _before_with(f: Frame, arg: int) -> None:
    entered = f.pop()
    calls.entered(f, entered)
    f.stack.extend((UNKNOWN, entered if type(entered) is not Known else UNKNOWN))


@handles("LOAD_SPECIAL")
def _load_special(f: Frame, arg: int) -> None:
    owner = f.pop()
    if arg in (0, 2):  # entering, with or without async
        calls.entered(f, owner)
    f.stack.extend((UNKNOWN, NULL))


# Ways.


@handles("JUMP_FORWARD")
def _jump(f: Frame, arg: int) -> None:
    f.goes(f.next + 2 * arg, f.hit)
    f.live = False


@handles("JUMP_BACKWARD")
def _jump_back(f: Frame, arg: int) -> None:
    head = f.next - 2 * arg
    if f.raw[head] in _ITERATES:
        if _VERSION < (3, 12):
            f.pop()  # there no iterator is left where the loop ends
        else:
            f.stack.append(UNKNOWN)
    f.loops_to(head)
    f.live = False


@handles("FOR_ITER")
def _for_iter(f: Frame, arg: int) -> None:
    items = f.stack[-1] if f.stack else UNKNOWN
    end = f.next + 2 * arg
    f.loops[f.at] = end, len(f.found)
    values = calls.several(items)
    for value in values[:8]:
        f.uses(value)
    one = values[0] if len(values) == 1 else Many(values, in_turn=True) if 1 < len(values) <= 8 else UNKNOWN
    f.stack.append(one)


@handles("SEND")
def _send(f: Frame, arg: int) -> None:
    f.pop()
    f.goes(f.next + 2 * arg, f.hit)


@handles("YIELD_VALUE")
def _yield(f: Frame, arg: int) -> None:
    f.pop()
    f.stack.append(UNKNOWN)


@handles("RETURN_VALUE")
def _return(f: Frame, arg: int) -> None:
    f.gives(f.pop())


@handles("RETURN_CONST")
def _return_const(f: Frame, arg: int) -> None:
    f.gives(Known(f.code.co_consts[arg]))


@handles("RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT")
def _raise(f: Frame, arg: int) -> None:
    f.live = False


@handles("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE")
def _if_false(f: Frame, arg: int) -> None:
    conditions.parts(f, f.pop(), f.next + 2 * arg, jumps_if=False)


@handles("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE")
def _if_true(f: Frame, arg: int) -> None:
    conditions.parts(f, f.pop(), f.next + 2 * arg, jumps_if=True)


@handles("POP_JUMP_IF_NONE", "POP_JUMP_FORWARD_IF_NONE")
def _if_none(f: Frame, arg: int) -> None:
    conditions.parts(f, conditions.identical(f.pop(), Known(None)), f.next + 2 * arg, jumps_if=True)


@handles("POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE")
def _if_not_none(f: Frame, arg: int) -> None:
    conditions.parts(f, conditions.identical(f.pop(), Known(None)), f.next + 2 * arg, jumps_if=False)


@handles("JUMP_IF_FALSE_OR_POP")
def _false_or_pop(f: Frame, arg: int) -> None:
    conditions.parts(f, f.stack[-1] if f.stack else UNKNOWN, f.next + 2 * arg, jumps_if=False)
    f.pop()


@handles("JUMP_IF_TRUE_OR_POP")
def _true_or_pop(f: Frame, arg: int) -> None:
    conditions.parts(f, f.stack[-1] if f.stack else UNKNOWN, f.next + 2 * arg, jumps_if=True)
    f.pop()


@handles("POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_NONE",
         "POP_JUMP_BACKWARD_IF_NOT_NONE")  # fmt: skip
def _back_if(f: Frame, arg: int) -> None:
    f.pop()
