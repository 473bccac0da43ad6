"""What each instruction does, on the versions of Python that there are; importing this fills the table of ``bytecode.py``.

Where versions differ, both are here: 3.11 has methods and names of arguments in instructions of their own, 3.12 puts
comprehensions into the function around them, 3.13 joins loads and stores in pairs, 3.14 has more kinds of loads.
"""

from __future__ import annotations

import dis
import sys
from types import CodeType
from typing import Final

from . import calls, conditions
from .bytecode import Frame, handles
from .libraries import IMPORTS, ROOTS, root_of
from .values import NULL, UNKNOWN, Attr, Inner, Items, Known, Made, Many, Name, Pairs, Test, Value

__all__: list[str] = []

_VERSION: Final = sys.version_info[:2]
_ITERATES: Final = frozenset({dis.opmap["FOR_ITER"], dis.opmap["EXTENDED_ARG"]})


@handles("RESUME", "NOP", "CACHE", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "GEN_START", "SETUP_ANNOTATIONS", "TO_BOOL",
         "NOT_TAKEN", "EXIT_INIT_CHECK", "DELETE_FAST", "DELETE_DEREF", "DELETE_GLOBAL", "DELETE_NAME", "GET_ITER",
         "GET_YIELD_FROM_ITER", "GET_AWAITABLE", "GET_AITER", "CONVERT_VALUE", "LIST_TO_TUPLE", "JUMP_BACKWARD_NO_INTERRUPT",
         "CHECK_EG_MATCH", "ENTER_EXECUTOR")  # fmt: skip
def _nothing(f: Frame, arg: int) -> None:
    return


@handles("POP_TOP", "POP_ITER", "END_FOR", "PRINT_EXPR")
def _pop(f: Frame, arg: int) -> None:
    f.pop()


if _VERSION == (3, 12):  # there END_FOR takes the iterator and what it gave, and only where a loop ends

    @handles("END_FOR")
    def _end_for(f: Frame, arg: int) -> None:
        f.pops(2)


@handles("PUSH_NULL")
def _push_null(f: Frame, arg: int) -> None:
    f.stack.append(NULL)


@handles("COPY")
def _copy(f: Frame, arg: int) -> None:
    f.stack.append(f.stack[-arg] if len(f.stack) >= arg else UNKNOWN)


@handles("SWAP")
def _swap(f: Frame, arg: int) -> None:
    stack = f.stack
    if len(stack) < arg:
        stack[:0] = [UNKNOWN] * (arg - len(stack))
    stack[-1], stack[-arg] = stack[-arg], stack[-1]


# Loads and stores.


@handles("LOAD_CONST", "RETURN_GENERATOR", "LOAD_COMMON_CONSTANT", "LOAD_SMALL_INT", "LOAD_ASSERTION_ERROR")
def _none(f: Frame, arg: int) -> None:
    f.stack.append(UNKNOWN)


@handles("LOAD_CONST", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL")
def _load_const(f: Frame, arg: int) -> None:
    f.stack.append(Known(f.code.co_consts[arg]))


@handles("LOAD_SMALL_INT")
def _load_small_int(f: Frame, arg: int) -> None:
    f.stack.append(Known(arg))


@handles("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_CLOSURE")
def _load_fast(f: Frame, arg: int) -> None:
    value = f.slots[arg]
    if type(value) is Made and value.device and not value.said:
        f.say(0.9, value.device)
    f.stack.append(value)


@handles("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def _load_two(f: Frame, arg: int) -> None:
    _load_fast(f, arg >> 4)
    _load_fast(f, arg & 15)


@handles("STORE_FAST", "STORE_DEREF", "STORE_FAST_MAYBE_NULL")
def _store_fast(f: Frame, arg: int) -> None:
    f.slots[arg] = f.pop()


@handles("STORE_FAST_LOAD_FAST")
def _store_load(f: Frame, arg: int) -> None:
    _store_fast(f, arg >> 4)
    _load_fast(f, arg & 15)


@handles("STORE_FAST_STORE_FAST")
def _store_two(f: Frame, arg: int) -> None:
    _store_fast(f, arg >> 4)
    _store_fast(f, arg & 15)


@handles("LOAD_GLOBAL")
def _load_global(f: Frame, arg: int) -> None:
    value = f.globals.look(f.code.co_names[arg >> 1])
    if type(value) is Made and value.device and not value.said:
        f.say(0.9, value.device)
    if arg & 1 and _VERSION < (3, 13):
        f.stack.append(NULL)
    f.stack.append(value)
    if arg & 1 and _VERSION >= (3, 13):
        f.stack.append(NULL)


@handles("LOAD_NAME")
def _load_name(f: Frame, arg: int) -> None:
    name = f.code.co_names[arg]
    f.stack.append(f.stored[name] if name in f.stored else f.globals.look(name))


@handles("STORE_NAME", "STORE_GLOBAL")
def _store_name(f: Frame, arg: int) -> None:
    f.stored[f.code.co_names[arg]] = f.pop()


@handles("LOAD_FROM_DICT_OR_DEREF", "LOAD_CLASSDEREF")
def _load_class_deref(f: Frame, arg: int) -> None:
    if _VERSION >= (3, 12):
        f.pop()
    f.stack.append(f.slots[arg])


@handles("LOAD_FROM_DICT_OR_GLOBALS")
def _load_dict_global(f: Frame, arg: int) -> None:
    f.pop()
    f.stack.append(f.globals.look(f.code.co_names[arg]))


# Modules and attributes.


@handles("IMPORT_NAME")
def _import_name(f: Frame, arg: int) -> None:
    level, listed = f.pops(2)
    path = f.code.co_names[arg]
    if type(level) is Known and level.value:
        package = f.globals.module.split(".")[: -level.value]
        path = ".".join([*package, path] if path else package)
    root = root_of(path)
    named = type(listed) is Known and bool(listed.value)
    if path in IMPORTS:
        f.say(0.85, f"import {path}")
    if root in ROOTS:
        f.reading.mention(f, root)
        f.stack.append(Name(path if named else root))
    else:
        module = sys.modules.get(path if named else root)  # what is loaded may be followed; nothing is imported
        f.stack.append(UNKNOWN if module is None else Known(module))


@handles("IMPORT_FROM")
def _import_from(f: Frame, arg: int) -> None:
    f.stack.append(calls.attribute(f, f.stack[-1] if f.stack else UNKNOWN, f.code.co_names[arg]))


@handles("IMPORT_STAR")
def _import_star(f: Frame, arg: int) -> None:
    f.pop()


@handles("LOAD_ATTR")
def _load_attr(f: Frame, arg: int) -> None:
    method = _VERSION >= (3, 12) and arg & 1
    name = f.code.co_names[arg >> 1 if _VERSION >= (3, 12) else arg]
    f.stack.append(calls.attribute(f, f.pop(), name))
    if method:
        f.stack.append(NULL)


@handles("LOAD_METHOD")
def _load_method(f: Frame, arg: int) -> None:
    f.stack.append(calls.attribute(f, f.pop(), f.code.co_names[arg]))
    f.stack.append(NULL)


@handles("LOAD_SUPER_ATTR")
def _load_super(f: Frame, arg: int) -> None:
    _, _, owner = f.pops(3)
    f.stack.append(Attr(Attr(owner, "super"), f.code.co_names[arg >> 2]))
    if arg & 1:
        f.stack.append(NULL)


@handles("STORE_ATTR")
def _store_attr(f: Frame, arg: int) -> None:
    value, owner = f.pops(2)
    calls.set_attribute(owner, f.code.co_names[arg], value)


@handles("BINARY_SUBSCR")
def _subscript(f: Frame, arg: int) -> None:
    owner, index = f.pops(2)
    f.stack.append(calls.item(owner, index))


@handles("BINARY_SLICE")
def _slice(f: Frame, arg: int) -> None:
    owner, _, _ = f.pops(3)
    f.stack.append(calls.item(owner, UNKNOWN))


@handles("STORE_SUBSCR")
def _store_subscript(f: Frame, arg: int) -> None:
    value, owner, index = f.pops(3)
    if type(owner) is Pairs and type(index) is Known and type(index.value) is str:
        owner.values[index.value] = value


# Values that are built.


@handles("BINARY_OP")
def _binary(f: Frame, arg: int) -> None:
    left, right = f.pops(2)
    if arg == _SUBSCRIPT:
        f.stack.append(calls.item(left, right))
    elif type(left) is Known and type(left.value) is str:
        f.stack.append(Known(left.value))  # how a text begins is enough: "cuda:" + number
    elif type(left) is Test and type(right) is Test:
        f.stack.append(Test(left.true and right.true, left.false and right.false))
    else:
        f.stack.append(UNKNOWN)


_SUBSCRIPT = 26 if _VERSION >= (3, 14) else -1


@handles("UNARY_NOT")
def _not(f: Frame, arg: int) -> None:
    value = f.pop()
    f.stack.append(conditions.opposite(value))


@handles("COMPARE_OP")
def _compare(f: Frame, arg: int) -> None:
    left, right = f.pops(2)
    sign = arg >> 5 if _VERSION >= (3, 13) else arg >> 4 if _VERSION >= (3, 12) else arg
    f.stack.append(conditions.compared(left, right, sign))


@handles("IS_OP")
def _is(f: Frame, arg: int) -> None:
    left, right = f.pops(2)
    found = conditions.identical(left, right)
    f.stack.append(conditions.opposite(found) if arg else found)


@handles("CONTAINS_OP")
def _contains(f: Frame, arg: int) -> None:
    left, right = f.pops(2)
    found = conditions.contained(left, right)
    f.stack.append(conditions.opposite(found) if arg else found)


@handles("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET")
def _build_items(f: Frame, arg: int) -> None:
    f.stack.append(Items(f.pops(arg)))


@handles("LIST_EXTEND", "SET_UPDATE")
def _extend(f: Frame, arg: int) -> None:
    more = f.pop()
    items = f.stack[-arg] if len(f.stack) >= arg else UNKNOWN
    if type(items) is Items:
        items.values.extend(calls.several(more))


@handles("LIST_APPEND", "SET_ADD")
def _append(f: Frame, arg: int) -> None:
    value = f.pop()
    items = f.stack[-arg] if len(f.stack) >= arg else UNKNOWN
    if type(items) is Items:
        items.values.append(value)


@handles("BUILD_MAP")
def _build_map(f: Frame, arg: int) -> None:
    flat = f.pops(2 * arg)
    f.stack.append(Pairs({k.value: v for k, v in zip(flat[::2], flat[1::2], strict=True) if _is_text(k)}))


@handles("BUILD_CONST_KEY_MAP")
def _build_const_map(f: Frame, arg: int) -> None:
    keys = f.pop()
    names = keys.value if type(keys) is Known else ()
    f.stack.append(Pairs({k: v for k, v in zip(names, f.pops(arg), strict=False) if type(k) is str}))


@handles("MAP_ADD")
def _map_add(f: Frame, arg: int) -> None:
    f.pops(2)


@handles("DICT_MERGE", "DICT_UPDATE")
def _merge(f: Frame, arg: int) -> None:
    more = f.pop()
    pairs = f.stack[-arg] if len(f.stack) >= arg else UNKNOWN
    if type(pairs) is Pairs:
        pairs.values.update(calls.pairs_of(more))


@handles("FORMAT_VALUE")
def _format(f: Frame, arg: int) -> None:
    if arg & 4:
        f.pop()


@handles("FORMAT_SIMPLE")
def _format_simple(f: Frame, arg: int) -> None:
    return


@handles("FORMAT_WITH_SPEC")
def _format_spec(f: Frame, arg: int) -> None:
    f.pop()


@handles("BUILD_STRING")
def _build_string(f: Frame, arg: int) -> None:
    text = ""
    for part in f.pops(arg):
        if not _is_text(part):
            break
        text += part.value
    f.stack.append(Known(text) if text else UNKNOWN)


def _is_text(value: Value) -> bool:
    return type(value) is Known and type(value.value) is str


@handles("UNPACK_SEQUENCE")
def _unpack(f: Frame, arg: int) -> None:
    values = calls.several(f.pop())
    known = len(values) == arg
    f.stack.extend(reversed(values) if known else [UNKNOWN] * arg)


# Functions and calls.


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
    end = f.loops.get(f.next - 2 * arg)
    if end is not None:
        if f.raw[f.next - 2 * arg] in _ITERATES:
            if _VERSION < (3, 12):
                f.pop()  # there no iterator is left where the loop ends
            else:
                f.stack.append(UNKNOWN)
        f.goes(end, f.hit)
    f.live = False


@handles("FOR_ITER")
def _for_iter(f: Frame, arg: int) -> None:
    items = f.stack[-1] if f.stack else UNKNOWN
    end = f.next + 2 * arg
    f.loops[f.at] = end
    values = calls.several(items)
    one = values[0] if len(values) == 1 else Many(values) if 1 < len(values) <= 8 else UNKNOWN
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
