"""The instructions that load, store and import, and that take attributes and items.

Where versions of Python differ, each is here: 3.11 loads methods by an instruction of their own, 3.13 joins loads and
stores in pairs, 3.14 has more kinds of loads. Importing this fills the table of ``bytecode.py``.
"""

from __future__ import annotations

import sys
from typing import Final

from . import attributes
from .bytecode import Frame, handles
from .libraries import IMPORTS, ROOTS, root_of
from .values import NULL, UNKNOWN, Attr, Known, Made, Name, Pairs

__all__: list[str] = []

_VERSION: Final = sys.version_info[:2]


@handles("RESUME", "NOP", "CACHE", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "GEN_START", "SETUP_ANNOTATIONS",
         "TO_BOOL", "NOT_TAKEN", "EXIT_INIT_CHECK", "DELETE_FAST", "DELETE_DEREF", "DELETE_GLOBAL", "DELETE_NAME",
         "GET_ITER", "GET_YIELD_FROM_ITER", "GET_AWAITABLE", "GET_AITER", "CONVERT_VALUE", "LIST_TO_TUPLE",
         "JUMP_BACKWARD_NO_INTERRUPT", "CHECK_EG_MATCH", "ENTER_EXECUTOR")  # fmt: skip
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


@handles("RETURN_GENERATOR", "LOAD_COMMON_CONSTANT", "LOAD_ASSERTION_ERROR", "LOAD_LOCALS")
def _none(f: Frame, arg: int) -> None:
    f.stack.append(UNKNOWN)


@handles("LOAD_CONST", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL")
def _load_const(f: Frame, arg: int) -> None:
    f.stack.append(Known(f.code.co_consts[arg]))


@handles("LOAD_BUILD_CLASS")
def _load_build_class(f: Frame, arg: int) -> None:
    f.stack.append(Known(__build_class__))


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
    f.stack.append(attributes.attribute(f, f.stack[-1] if f.stack else UNKNOWN, f.code.co_names[arg]))


@handles("IMPORT_STAR")
def _import_star(f: Frame, arg: int) -> None:
    f.pop()


@handles("LOAD_ATTR")
def _load_attr(f: Frame, arg: int) -> None:
    method = _VERSION >= (3, 12) and arg & 1
    name = f.code.co_names[arg >> 1 if _VERSION >= (3, 12) else arg]
    f.stack.append(attributes.attribute(f, f.pop(), name))
    if method:
        f.stack.append(NULL)


@handles("LOAD_METHOD")
def _load_method(f: Frame, arg: int) -> None:
    f.stack.append(attributes.attribute(f, f.pop(), f.code.co_names[arg]))
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
    attributes.set_attribute(owner, f.code.co_names[arg], value)


@handles("BINARY_SUBSCR")
def _subscript(f: Frame, arg: int) -> None:
    owner, index = f.pops(2)
    f.stack.append(f.uses(attributes.item(owner, index)))


@handles("BINARY_SLICE")
def _slice(f: Frame, arg: int) -> None:
    owner, _, _ = f.pops(3)
    f.stack.append(attributes.item(owner, UNKNOWN))


@handles("STORE_SUBSCR")
def _store_subscript(f: Frame, arg: int) -> None:
    value, owner, index = f.pops(3)
    if type(owner) is Pairs and type(index) is Known and type(index.value) is str:
        owner.values[index.value] = value
