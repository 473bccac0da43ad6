"""Tell whether an object's data live on a device, on which, and how many bytes; without importing a GPU library.

How to tell is settled once for each type and remembered. No object is copied, and no device is waited for: what is
asked are pointers and sizes, which libraries keep on the host.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, Final

from . import arrays, holders
from .pieces import UNTOLD, Device, Piece, Way, total

__all__ = [
    "UNTOLD", "Device", "Piece", "cuda_nbytes", "device_number", "devices_of", "may_hold_device", "may_live_on_device",
    "register",
]  # fmt: skip

_MOST_TYPES: Final = 10_000
_DEPTH: Final = 4
_SAMPLE: Final = 100
_MOST_ITEMS: Final = 10_000

_UNSEEN: Final = len  # anything but None
_PROTOCOLS: Final = ("__cuda_array_interface__", "__dlpack_device__")

_CONTAINERS: Final = frozenset({list, tuple, set, frozenset})
_HOST_ONLY: Final = frozenset(
    {type(None), bool, int, float, complex, str, bytes, bytearray, memoryview, range, type, type(len), type(lambda: 0)}
)


def cuda_nbytes(obj: Any) -> int:
    """Bytes of an object's data on devices; 0 for what has none there, or does not tell.

    Lists, tuples, sets, dicts and dataclasses count with what they hold, down to a depth and a number of items, and
    memory that several objects share counts once. Never raises: CPU tensors of torch have the attributes of device
    arrays on their type and raise on the instance.
    """
    try:
        way = _ways[type(obj)]
    except KeyError:
        way = _learn(type(obj))
    except Exception:  # a type that cannot be hashed
        return 0
    if way is None:
        return 0
    try:
        return total(_pieces(obj, way, 0, set()))
    except Exception:  # user code
        return 0


def devices_of(obj: Any) -> tuple[Device, ...]:
    """The devices that an object's data live on, in order of kind and index; () for what lives on the host.

    Never raises.
    """
    try:
        way = _ways[type(obj)] if type(obj) in _ways else _learn(type(obj))
        if way is None:
            return ()
        return tuple(sorted({piece.device for piece in _pieces(obj, way, 0, set())}))
    except Exception:  # user code
        return ()


def device_number(obj: Any) -> int | None:
    """The number, as CUDA or ROCm counts, of the one device that all of an object's data on devices live on.

    None where there are several, or none, where it is another kind of device or which one is not told. Never raises.
    """
    devices = devices_of(obj)
    if len(devices) != 1 or devices[0].kind not in ("cuda", "rocm") or devices[0].index == UNTOLD:
        return None
    return devices[0].index


def may_live_on_device(kind: type) -> bool:
    """Tell from a type alone whether its instances are worth asking; a metaclass that answers to all names is not."""
    if kind.__module__ == "numpy":
        return False
    return any(name in vars(base) for base in kind.__mro__ for name in _PROTOCOLS)


def may_hold_device(kind: type) -> bool:
    """Tell from a type whether :func:`cuda_nbytes` of an instance may be more than 0:

    arrays, containers, dataclasses.
    """
    return (_ways[kind] if kind in _ways else _learn(kind)) is not None


def register(kind: type | str, way: Way) -> None:
    """Say how objects of a type tell what they have on devices.

    ``kind`` is a type, or its dotted name ("cudf.DataFrame"), or that of a package ("cuml") for all of its types that
    nothing else is said of; names wait until such a type is met, and import nothing. ``way(obj)`` gives
    :class:`Piece`s, and objects in it that are to be looked into in turn. What comes later goes before what was there.
    """
    if isinstance(kind, type):
        _typed[kind] = way
    else:
        _named[kind] = way
    _ways.clear()
    _ways.update(dict.fromkeys(_HOST_ONLY))


def _learn(kind: type) -> Way | None:
    if len(_ways) > _MOST_TYPES:
        _ways.clear()
    way = None
    try:
        way = _registered(kind) or _by_shape(kind)
    except Exception:  # a metaclass may answer anything
        way = None
    try:
        _ways[kind] = way
    except TypeError:  # a type that cannot be hashed
        return None
    return way


def _registered(kind: type) -> Way | None:
    bases = type.__getattribute__(kind, "__mro__")[:-1]
    for base in bases:
        if base in _typed:
            return _typed[base]
        module = base.__module__
        name = f"{module}.{base.__qualname__}"
        if name in _named:
            return _named[name]
        # Libraries show a type in one module and keep it in another.
        root = module.partition(".")[0]
        for said, way in _named.items():
            if said.startswith(f"{root}.") and (_loaded(said) is base or said == f"{root}.{base.__qualname__}"):
                return way
    for base in bases:
        root = base.__module__.partition(".")[0]
        if root in _named:
            return _named[root]
    return None


def _loaded(name: str) -> Any:
    """What a dotted name stands for in the modules that are loaded, or None; no module is asked to load more."""
    module, _, leaf = name.rpartition(".")
    loaded = sys.modules.get(module)
    return None if loaded is None else vars(loaded).get(leaf)


def _by_shape(kind: type) -> Way | None:
    if kind in _CONTAINERS or issubclass(kind, tuple):
        return _in_container
    if issubclass(kind, dict):
        return _in_dict
    if kind.__module__ == "numpy":
        return None
    if any(name in vars(base) for base in kind.__mro__ for name in _PROTOCOLS):
        return arrays.by_protocol
    if any("__arrow_c_device_array__" in vars(base) for base in kind.__mro__):
        return arrays.by_arrow
    return _in_dataclass if is_dataclass(kind) else None


def _in_container(obj: Iterable[Any]) -> Iterable[Any]:
    return obj


def _in_dict(obj: dict[Any, Any]) -> Iterable[Any]:
    return obj.values()


def _in_dataclass(obj: Any) -> Iterable[Any]:
    return [getattr(obj, field.name, None) for field in fields(obj)]


def _pieces(obj: Any, way: Way, depth: int, seen: set[int]) -> Iterator[Piece]:
    """What an object has on devices, and what is in it."""
    if id(obj) in seen:
        return
    seen.add(id(obj))
    items = iter(way(obj))
    get = _ways.get
    found = False
    for item in islice(items, _SAMPLE):
        if get(type(item), _UNSEEN) is None:
            continue
        for piece in _of_item(item, depth, seen):
            found = True
            yield piece
    if found:  # else it holds other things, however many
        for item in islice(items, _MOST_ITEMS):
            yield from _of_item(item, depth, seen)


def _of_item(item: Any, depth: int, seen: set[int]) -> Iterable[Piece]:
    kind = type(item)
    if kind is Piece:
        return (item,)
    try:
        way = _ways[kind] if kind in _ways else _learn(kind)
    except TypeError:  # a type that cannot be hashed
        return ()
    if way is None or depth >= _DEPTH:
        return ()
    return _guarded(item, way, depth + 1, seen)


def _guarded(item: Any, way: Way, depth: int, seen: set[int]) -> Iterable[Piece]:
    """What one of several items has; one that raises takes nothing from the others."""
    pieces: list[Piece] = []
    try:
        pieces.extend(_pieces(item, way, depth, seen))
    except Exception:  # user code
        return pieces
    return pieces


_typed: dict[type, Way] = {}
_named: dict[str, Way] = {**arrays.WAYS, **holders.WAYS}
_ways: dict[type, Callable[[Any], Iterable[Any]] | None] = dict.fromkeys(_HOST_ONLY)
