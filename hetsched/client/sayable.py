"""Keys and annotations as the wire can say them.

A key stays with the client: what goes out is a name for logs and stories. Annotations go out twice, pickled with the
task that may read them, and as words for the scheduler. Nothing that a person wrote is left out of both.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

import msgpack

from hetsched.comm.pickling import dumps
from hetsched.core.annotations import VOCABULARY
from hetsched.core.types import Key
from hetsched.errors import AnnotationError

__all__ = ["can_be_sent", "check_carried", "sayable", "sayable_note"]

_WIDE: Final = 1 << 60


def _is_plain(value: Any) -> bool:
    """Whether a value is made of the simplest types alone, so that all can be done with it."""
    kind = type(value)
    if kind is dict:
        return all(_is_plain(name) and _is_plain(item) for name, item in value.items())
    if kind is tuple or kind is list:
        return all(_is_plain(item) for item in value)
    if kind is int:
        return bool(-_WIDE < value < _WIDE)
    return value.isascii() if kind is str else kind is float or kind is bool or value is None


def can_be_sent(value: Any) -> bool:
    """Whether the wire has a word for it; what belongs to a plugin may be anything."""
    return _is_plain(value) or _can_be_packed(value)


def _can_be_packed(value: Any) -> bool:
    try:
        msgpack.packb(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def check_carried(key: Key, note: Mapping[str, Any], pickle: int) -> None:
    """Raise AnnotationError, with the key and the name, where a task's annotations cannot be pickled for it."""
    if _is_plain(note):
        return
    try:
        dumps(note, pickle, (), [])
    except Exception:  # a person's value
        for name, value in note.items():
            try:
                dumps(value, pickle, (), [])
            except Exception as error:
                raise AnnotationError(
                    f"the annotation {name!r} of the task {key!r:.200} cannot be sent to a worker: {error!r}"
                ) from error
        raise


def sayable_note(key: Key, note: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations that the scheduler is told: all but values of unknown names that the wire has no word for.

    Raises AnnotationError, with the key and the name, for such a value of a name that the scheduler reads.
    """
    sent = {name: value for name, value in note.items() if can_be_sent((name, value))}
    for name in note:
        if name not in sent and name in VOCABULARY:
            value = f"{note[name]!r:.200}"
            raise AnnotationError(f"the annotation {name!r} of the task {key!r:.200} cannot be sent: {value}")
    return sent


def sayable(keys: list[Key]) -> list[Key]:
    """Keys as the wire can say them: for logs and stories over there, they are not looked up."""
    return keys if _are_plain(keys) or _can_be_packed(keys) else [_said(key) for key in keys]


def _are_plain(keys: list[Key]) -> bool:
    """Whether the wire surely has words for them, which is told in less time than it takes to say them."""
    name: object = None
    for key in keys:
        if type(key) is str:
            if not key.isascii():
                return False
        elif type(key) is not tuple:
            return False
        else:
            parts: tuple[Any, ...] = key
            for part in parts:
                if part is name:
                    continue
                if type(part) is str:
                    if not part.isascii():
                        return False
                    name = part
                elif type(part) is not int or not -_WIDE < part < _WIDE:
                    return False
    return True


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
