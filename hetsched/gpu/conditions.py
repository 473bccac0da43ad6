"""What conditions mean: which way code goes, and whether something lives on a device on it."""

from __future__ import annotations

import dis
import sys
from typing import Any, Final

from .arguments import is_empty
from .bytecode import Frame
from .libraries import DEVICE, ROOTS, meaning, names_device, root_of
from .resolve import sounds_of_device
from .values import UNKNOWN, Attr, Inner, Input, Instance, Items, Known, Made, Many, Name, Pairs, Test, Value

__all__ = ["compared", "contained", "identical", "opposite", "parts", "strict"]

_PLAIN: Final = (str, int, float, bool, bytes, type(None))
_THERE: Final = (Inner, Items, Pairs, Made, Instance)
_LESS, _LESS_EQUAL, _EQUAL, _UNEQUAL, _GREATER, _GREATER_EQUAL = range(6)
_SIGNS: Final = ("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__")


def strict() -> Test:
    """A condition of which nothing is known, and that decides between devices."""
    return Test(False, False)


def opposite(value: Value) -> Value:
    """The opposite of a condition."""
    test = _as_test(value)
    return UNKNOWN if test is None else test.swapped()


def compared(left: Value, right: Value, sign: int) -> Value:
    """A comparison; ``sign`` counts <, <=, ==, !=, >, >=."""
    if type(left) is Known and type(right) is Known:
        return _of_constants(left.value, right.value, sign)
    if type(left) is Test:
        return opposite(left) if _is_none_of(right, sign) else left
    if type(left) is Known:
        left, right = right, left
    if type(right) is Known and type(right.value) is str and sign in (_EQUAL, _UNEQUAL):
        text = right.value
        if names_device(text) or root_of(text) in ROOTS:
            found = Test(True, False)
        elif text.startswith("cpu"):
            found = Test(False, True)
        else:
            return strict() if _decides(left) else UNKNOWN
        return found if sign == _EQUAL else found.swapped()
    return strict() if _decides(left) else UNKNOWN


def _is_none_of(right: Value, sign: int) -> bool:
    """Whether a count of devices is asked to be none: == 0, < 1, <= 0."""
    number = right.value if type(right) is Known and type(right.value) in (int, bool) else None
    return (number, sign) in ((0, _EQUAL), (1, _LESS), (0, _LESS_EQUAL))


def _of_constants(left: Any, right: Any, sign: int) -> Value:
    if type(left) in _PLAIN and type(right) in _PLAIN:
        found = getattr(left, _SIGNS[sign])(right)
        if found is not NotImplemented:
            return Known(found)
    return UNKNOWN


def identical(left: Value, right: Value) -> Value:
    """Whether ``left is right``."""
    if type(left) is Known and left.value is None:
        left, right = right, left
    if type(right) is Known and right.value is None:
        return _is_none(left)
    if type(left) is Name and type(right) is Name:
        return Known(left.path == right.path)
    if type(left) is Known and type(right) is Known and type(right.value) in (bool, int):
        return Known(left.value is right.value)
    for one in (left, right):
        if type(one) is Name and meaning(one.path) == DEVICE:
            return Test(True, False)
    return UNKNOWN


def _is_none(value: Value) -> Value:
    if type(value) is Known:
        return Known(value.value is None)
    if (type(value) is Name and value.absent) or _decides(value):
        return strict()
    if type(value) in _THERE or type(value) is Name:
        return Known(False)
    return Test(None, False) if type(value) is Input else UNKNOWN


def contained(left: Value, right: Value) -> Value:
    """Whether ``left in right``."""
    if type(left) is Known and type(left.value) is str:
        if type(right) is Known and type(right.value) is str:
            return Known(left.value in right.value)
        if names_device(left.value) or left.value in ROOTS:
            return Test(True, False)
    if _decides(left):
        return strict()
    return Known(False) if is_empty(right) else UNKNOWN


def _decides(value: Value) -> bool:
    """Whether a value is one of those by whose name people choose a device."""
    return type(value) in (Input, Attr) and sounds_of_device(value.name)


def _as_test(value: Value) -> Test | None:
    """What it means if a value is true, or false; None where nothing is known."""
    kind = type(value)
    if kind is Test:
        return value  # type: ignore[no-any-return]
    if kind is Known:
        plain = type(value.value) in _PLAIN or type(value.value) in (list, dict, tuple)
        return Test(None, False) if plain and not value.value else Test(False, None)
    if kind is Name:
        return strict() if value.absent else Test(False, None)
    if kind is Attr and value.name == "is_cuda":
        return Test(True, False)
    if kind in (Inner, Made, Instance):
        return Test(False, None)
    return strict() if _decides(value) else None


def parts(f: Frame, value: Value, target: int, jumps_if: bool) -> None:
    """Go both ways from a jump that is taken if a value is ``jumps_if``, as far as they may be taken.

    A way that ends at once, by returning something plain, is an exception to what the function does (there was nothing
    to do), and left out, unless the condition is about devices.
    """
    test = _as_test(value) if type(value) is not Many else None
    if test is None:
        if f.next in _heads(f):  # a loop; taken to run
            f.loops[f.next] = target, len(f.found)
        elif _ends_at_once(f.raw, f.next):
            f.goes(target, f.hit)
            f.live = False
        elif not _ends_at_once(f.raw, target):
            f.goes(target, f.hit)
        return
    if test.true is not None and test.false is not None:
        f.decided = True
    jump, fall = (test.true, test.false) if jumps_if else (test.false, test.true)
    if jump is not None:
        f.goes(target, f.hit or jump)
    if fall is None:
        f.live = False
    else:
        f.hit = f.hit or fall


_RETURN: Final = dis.opmap["RETURN_VALUE"]
_RETURN_CONST: Final = dis.opmap.get("RETURN_CONST", -1)
_PLAINLY: Final = frozenset(
    dis.opmap[name]
    for name in ("LOAD_FAST", "LOAD_CONST", "BUILD_LIST", "BUILD_MAP", "LOAD_FAST_BORROW", "LOAD_SMALL_INT")
    if name in dis.opmap
)
_SKIPPED: Final = frozenset({dis.opmap["NOP"], dis.opmap.get("NOT_TAKEN", -1)})
_BACK: Final = dis.opmap["JUMP_BACKWARD"]
_BACK_IF: Final = frozenset(code for name, code in dis.opmap.items() if name.startswith("POP_JUMP_BACKWARD_IF"))
_EXTENDED: Final = dis.opmap["EXTENDED_ARG"]


def _ends_at_once(raw: bytes, at: int) -> bool:
    while at < len(raw) and raw[at] in _SKIPPED:
        at += 2
    if at >= len(raw):
        return False
    return raw[at] == _RETURN_CONST or (raw[at] in _PLAINLY and at + 2 < len(raw) and raw[at + 2] == _RETURN)


def _heads(f: Frame) -> frozenset[int]:
    """Where jumps back lead to."""
    heads = f.heads
    if heads is None:
        found, raw, extended = [], f.raw, 0
        for at in range(0, len(raw), 2):
            op = raw[at]
            if op == _EXTENDED:
                extended = (extended | raw[at + 1]) << 8
                continue
            if op == _BACK or op in _BACK_IF:
                caches = 2 if sys.version_info >= (3, 13) and op == _BACK else 0
                found.append(at + 2 + caches - 2 * (raw[at + 1] | extended))
            extended = 0
        heads = f.heads = frozenset(found)
    return heads
