"""Keys and annotations as the wire can say them."""

from __future__ import annotations

import operator
from typing import Any

import msgpack

from hetsched.core.types import Key

__all__ = ["can_be_sent", "sayable"]


def can_be_sent(value: Any) -> bool:
    """Whether the wire has a word for it; what belongs to a plugin may be anything."""
    try:
        msgpack.packb(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def sayable(keys: list[Key]) -> list[Key]:
    """Keys as the wire can say them: for logs and stories over there, they are not looked up."""
    return keys if can_be_sent(keys) else [_said(key) for key in keys]


def _said(key: Any) -> Key:
    if type(key) is tuple:
        return tuple(_said(part) for part in key)
    if can_be_sent(key):
        return key  # type: ignore[no-any-return]
    try:
        number = operator.index(key)  # numpy's numbers
    except TypeError:
        pass
    else:
        return number if can_be_sent(number) else str(number)
    try:
        return repr(key).encode(errors="replace").decode()[:200]
    except Exception:  # its own code
        return type(key).__name__
