"""The instructions that calculate, compare and build: texts, lists, dicts, conditions.

Importing this fills the table of ``bytecode.py``.
"""

from __future__ import annotations

import sys
from typing import Final

from . import attributes, calls, conditions
from .bytecode import Frame, handles
from .values import UNKNOWN, Items, Known, Many, Pairs, Test, Value

__all__: list[str] = []

_VERSION: Final = sys.version_info[:2]


@handles("BINARY_OP")
def _binary(f: Frame, arg: int) -> None:
    left, right = f.pops(2)
    if arg == _SUBSCRIPT:
        f.stack.append(attributes.item(left, right))
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
    whole = f.pop()
    rows = [calls.several(one) for one in whole.values] if type(whole) is Many else [calls.several(whole)]
    if any(len(row) != arg for row in rows):
        f.stack.extend([UNKNOWN] * arg)
        return
    for column in reversed(list(zip(*rows, strict=True))):
        f.stack.append(f.uses(column[0]) if len(column) == 1 else Many(list(column), whole.in_turn))
