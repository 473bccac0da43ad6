"""Turn objects into a small header and raw buffers, and back; what is large is not copied on the way.

The first word of a header names the family that made it. All of a header is fit for msgpack.
"""

from __future__ import annotations

import pickle as pickling
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from hetsched.errors import ProtocolError

from .pickling import PYTHON, check_python, dumps
from .to_host import BROUGHT, host_of, name_of

__all__ = ["INLINE", "Buffer", "Header", "deserialize", "is_value", "serialize"]

INLINE = 512
"""Texts, bytes and pickles up to this size (in bytes or letters) are part of the header and take no buffer."""

Buffer: TypeAlias = "bytes | bytearray | memoryview"
Header: TypeAlias = tuple[Any, ...]
_Serialized: TypeAlias = tuple[Header, list[Buffer]]

_BROUGHT = "brought to the host"
_MOST_BROUGHT, _LONGEST = 5, 200

_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})


def serialize(obj: Any, pickle: int, devices: tuple[str, ...] = ()) -> _Serialized:
    """Give an object's header and buffers, for a receiver that knows pickles up to the protocol ``pickle``.

    Objects on a device become ones of the host, at any depth, unless the device's kind is among ``devices``. Buffers
    are contiguous and share the object's memory where they can: send them before it changes. Raises what the object's
    own code raises, and pickle.PicklingError or TypeError for what cannot be pickled, or not be brought to the host.
    """
    family = _FAMILIES.get(type(obj)) or _numpys(type(obj))
    if family is not None:
        return family(obj, pickle, devices)
    host = host_of(obj, devices)
    if host is obj:
        return _pickle(obj, pickle, devices)
    family = _FAMILIES.get(type(host)) or _numpys(type(host)) or _pickle
    header, frames = family(host, pickle, devices)
    return _told(header, (name_of(type(obj)),)), frames


def is_value(obj: Any) -> bool:
    """Whether a message can hold an object as it is, among its own words: numbers, None, short texts and bytes."""
    kind = type(obj)
    if kind is int:
        return -(2**63) <= obj < 2**64  # type: ignore[no-any-return]
    if kind is str:
        return len(obj) <= INLINE and obj.isascii()
    return kind is float or kind is bool or obj is None or (kind is bytes and len(obj) <= INLINE)


def deserialize(header: Any, frames: Sequence[Any]) -> Any:
    """Make the object of what :func:`serialize` gave. Buffers that can be written to become its memory, in place.

    Raises ProtocolError where header and frames are not of :func:`serialize`'s making, TaskError for code of another
    Python version, and whatever loading a pickle raises.
    """
    try:
        header, brought = _untold(header)
        make = _MAKERS[header[0]]
        made, *pickled = make(header, frames)
    except (LookupError, TypeError, ValueError, OverflowError, BufferError, MemoryError) as error:
        raise ProtocolError(f"not a serialised object: {str(header)[:200]} with {_count(frames)}: {error!r}") from error
    if brought and (hear := BROUGHT.get()) is not None:
        hear(brought)
    if not pickled:
        return made
    check_python(pickled[0])
    return pickling.loads(made, buffers=pickled[1])


def _told(header: Header, brought: tuple[str, ...]) -> Header:
    """A header that also tells the types of what was brought to the host; the family's name stays its first word."""
    return (*header, (_BROUGHT, *brought[:_MOST_BROUGHT]))


def _untold(header: Any) -> tuple[Any, tuple[str, ...]]:
    last = header[-1]
    if header[0] == "value" or type(last) is not tuple or not last or last[0] != _BROUGHT:
        return header, ()
    return header[:-1], tuple(str(name)[:_LONGEST] for name in last[1 : 1 + _MOST_BROUGHT])


def _count(frames: Any) -> str:
    return f"{len(frames)} frames" if hasattr(frames, "__len__") else "no list of frames"


def _value(obj: Any, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    return ("value", obj), []


def _int(obj: int, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    if is_value(obj):
        return ("value", obj), []
    return _plain(obj, pickle, devices)


def _str(obj: str, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    if is_value(obj):
        return ("value", obj), []
    try:
        return ("str",), [obj.encode()]
    except UnicodeEncodeError:  # lone surrogates, as in names of files
        return _plain(obj, pickle, devices)


def _bytes(obj: bytes, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    if len(obj) <= INLINE:
        return ("value", obj), []
    return ("bytes",), [obj]


def _bytearray(obj: bytearray, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    return ("bytearray",), [obj]


def _memoryview(obj: memoryview, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    from .arrays import split_view

    parts, data = split_view(obj)
    return ("memoryview", *parts), [data]


def _array(split_array: Callable[[Any], Any], obj: Any, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    split = split_array(obj)
    if split is None:
        return _pickle(obj, pickle, devices)
    return ("numpy", *split[0]), [split[1]]


def _scalar(obj: Any, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    return ("numpy scalar", obj.dtype.str, obj.tobytes()), []


def _items(obj: Any, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    if _PLAIN.issuperset(map(type, obj)):
        return _plain(obj, pickle, devices)
    return _pickle(obj, pickle, devices)


def _dict(obj: dict[Any, Any], pickle: int, devices: tuple[str, ...]) -> _Serialized:
    if _PLAIN.issuperset(map(type, obj)) and _PLAIN.issuperset(map(type, obj.values())):
        return _plain(obj, pickle, devices)
    return _pickle(obj, pickle, devices)


def _plain(obj: Any, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    """What holds nothing that needs to be looked at."""
    return _packed(pickling.dumps(obj, pickle), None, [])


def _pickle(obj: Any, pickle: int, devices: tuple[str, ...]) -> _Serialized:
    buffers: list[memoryview] = []
    pickled = dumps(obj, pickle, devices, buffers)
    header, frames = _packed(pickled.data, PYTHON if pickled.has_code else None, buffers)
    return (_told(header, pickled.brought) if pickled.brought else header), frames


def _packed(data: bytes, python: tuple[int, int] | None, buffers: list[memoryview]) -> _Serialized:
    if len(data) <= INLINE:
        return ("pickle", python, data), [*buffers]
    return ("pickle", python, None), [data, *buffers]


_Family: TypeAlias = Callable[[Any, int, tuple[str, ...]], _Serialized]

_FAMILIES: dict[type, _Family] = {
    type(None): _value,
    bool: _value,
    float: _value,
    int: _int,
    str: _str,
    bytes: _bytes,
    bytearray: _bytearray,
    memoryview: _memoryview,
    tuple: _items,
    list: _items,
    set: _items,
    frozenset: _items,
    dict: _dict,
}


def _numpys(kind: type) -> _Family | None:
    """The family of one of numpy's types. They come in with the first one, so that numpy is not loaded for nothing."""
    if type.__getattribute__(kind, "__module__") != "numpy":  # a metaclass may answer anything
        return None
    from .arrays import SCALARS, split_array

    _FAMILIES.update(dict.fromkeys(SCALARS, _scalar))
    _FAMILIES[sys.modules["numpy"].ndarray] = partial(_array, split_array)
    return _FAMILIES.get(kind)


def _must(be: bool) -> None:
    if not be:
        raise ValueError("the parts do not fit each other")


def _make_value(header: Header, frames: Sequence[Any]) -> tuple[Any]:
    _, value = header
    _must(type(value) in _PLAIN and not frames)
    return (value,)


def _make_str(header: Header, frames: Sequence[Any]) -> tuple[str]:
    (_,), (frame,) = header, frames
    return (str(frame, "utf-8"),)


def _make_bytes(header: Header, frames: Sequence[Any]) -> tuple[bytes]:
    (_,), (frame,) = header, frames
    return (bytes(memoryview(frame)),)


def _make_bytearray(header: Header, frames: Sequence[Any]) -> tuple[bytearray]:
    (_,), (frame,) = header, frames
    return (frame if type(frame) is bytearray else bytearray(memoryview(frame)),)


def _make_view(header: Header, frames: Sequence[Any]) -> tuple[memoryview]:
    from .arrays import make_view

    (_, form, shape, readonly), (frame,) = header, frames
    return (make_view(frame, form, shape, readonly),)


def _make_array(header: Header, frames: Sequence[Any]) -> tuple[Any]:
    from .arrays import make_array

    (_, dtype, shape, order, whole), (frame,) = header, frames
    array = make_array(frame, dtype, shape, order, whole)
    _must(whole is not None or array.nbytes == memoryview(frame).nbytes)
    return (array,)


def _make_scalar(header: Header, frames: Sequence[Any]) -> tuple[Any]:
    from .arrays import make_scalar

    _, dtype, data = header
    _must(not frames)
    return (make_scalar(data, dtype),)


def _make_pickle(header: Header, frames: Sequence[Any]) -> tuple[Any, tuple[int, int], Sequence[Any]]:
    _, python, data = header
    if data is None:
        data, *frames = frames
    _must(python is None or len(python) == 2)
    return memoryview(data), python or PYTHON, frames


_MAKERS: dict[str, Callable[[Header, Sequence[Any]], tuple[Any, ...]]] = {
    "value": _make_value,
    "str": _make_str,
    "bytes": _make_bytes,
    "bytearray": _make_bytearray,
    "memoryview": _make_view,
    "numpy": _make_array,
    "numpy scalar": _make_scalar,
    "pickle": _make_pickle,
}
