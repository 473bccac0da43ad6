"""What objects of libraries are told, or hold, that makes them use a device:

an estimator with ``device="cuda"``, a pipeline of one library with a step of another, a search with its estimator.

What is in ``__dict__`` is looked at, a few levels deep, and nothing is asked, called or run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from .libraries import ALWAYS, NAMING, ROOTS, SWITCHES, names_device, root_of, words
from .objects import devices_of, may_hold_device
from .values import Inner, Instance, Items, Known, Made, Pairs, Value

__all__ = ["CALLED", "CLOSED", "callables_in", "callables_within", "device_in", "is_installed", "told_or_held"]

_DEPTH: Final = 12
_MOST: Final = 150
_MOST_ITEMS: Final = 50
CLOSED: Final = frozenset(
    {str, int, float, bool, complex, bytes, type(None), type(...), range, slice, ModuleType, MethodType,
     BuiltinFunctionType, FunctionType}
)  # fmt: skip
"""Types whose objects are not looked into."""
CALLED: Final = ("fit", "transform", "predict", "forward", "__call__")
"""Methods that an object of a library calls of those that it holds."""
_PLAIN: Final = CLOSED | {list, tuple, dict, set, type}
_OF_DATA: Final = words("dask distributed hetsched matplotlib numpy pandas pyarrow scipy trio xarray zarr")
"""Libraries whose objects hold data, plots and machinery, and nobody's models."""
_installed: dict[str, bool] = {}


def is_installed(kind: type) -> bool:
    """Tell whether a class is of an installed package, and neither a person's own nor of the standard library."""
    root = root_of(str(kind.__module__))
    known = _installed.get(root)
    if known is None:
        if len(_installed) > 10_000:
            _installed.clear()
        known = _installed[root] = _is_package(root)
    return known


def _is_package(root: str) -> bool:
    if root in sys.stdlib_module_names or root in _OF_DATA:
        return False
    if root in ROOTS or root == "sklearn":
        return True
    file = getattr(sys.modules.get(root), "__file__", None)
    return type(file) is str and ("site-packages" in file or "dist-packages" in file)


def told_or_held(obj: Any) -> str:
    """By what an object of a library uses a device, in words: what it is told or what it holds; "" if by nothing.

    May raise what a strange ``__dict__`` raises.
    """
    for name, value in _walk(_inside(obj)):
        if _is_told(name, value):
            return f"{name.strip('_')}={value!r}"
        kind = type(value)
        if kind not in CLOSED and not isinstance(value, type) and (_is_always(kind) or devices_of(value)):
            return f"a {kind.__module__}.{kind.__name__}"
    return ""


def callables_in(obj: Any) -> list[Any]:
    """The functions, and the objects of persons' classes, that an object of a library holds, to call them."""
    values = (value for _, value in _walk(_inside(obj)))
    return [v for v in values if type(v) is FunctionType or (type(v) not in _PLAIN and _is_own(type(v)))]


def device_in(value: Value, depth: int = _DEPTH, told: bool = True) -> str:
    """The same of what is only known by its values: of what a list, a dict or an object with attributes has in it.

    With ``told=False`` settings say nothing.
    """
    kind = type(value)
    if kind is Made:
        return str(value.device)
    if depth <= 0:
        return ""
    if kind is Items:
        return next(filter(None, (device_in(one, depth - 1, told) for one in value.values[:_MOST_ITEMS])), "")
    named = value.values if kind is Pairs else value.attributes if kind is Instance else {}
    for name, one in islice(named.items(), _MOST_ITEMS):
        said = [v.value for v in one.values if type(v) is Known] if type(one) is Items else getattr(one, "value", None)
        if told and _is_told(str(name), said):
            return f"{name.strip('_')}={said!r}"
        found = device_in(one, depth - 1, told)
        if found:
            return found
    return ""


def callables_within(value: Value, depth: int = _DEPTH) -> list[Value]:
    """The same of what is only known by its values: functions, and methods of objects that have some."""
    if depth <= 0:
        return []
    kind = type(value)
    if kind is Inner or (kind is Known and type(value.value) is FunctionType):
        return [value]
    held = value.values if kind is Items else value.values.values() if kind is Pairs else ()
    if kind is Instance:
        held = [one for one in value.attributes.values() if type(one) is not Inner or one.bound is None]
        held += [value.attributes[name] for name in CALLED if type(value.attributes.get(name)) is Inner]
    return [one for inside in islice(held, _MOST_ITEMS) for one in callables_within(inside, depth - 1)]


def _is_told(name: str, value: Any) -> bool:
    kind = type(value)
    if kind is str or kind is list:
        texts = (value,) if kind is str else value[:8]
        return name.strip("_") in NAMING and any(type(t) is str and names_device(t) for t in texts)
    if value is True:
        return name.strip("_") in SWITCHES
    return kind.__name__ == "device" and name.strip("_") in NAMING and names_device(str(value))


def _is_always(kind: type) -> bool:
    return any(root_of(str(base.__module__)) in ALWAYS for base in kind.__mro__)


def _is_own(kind: type) -> bool:
    root = root_of(str(kind.__module__))
    return not (root in sys.stdlib_module_names or root in _OF_DATA or is_installed(kind))


def _inside(obj: Any) -> Iterable[tuple[str, Any]]:
    return list(islice(vars(obj).items(), _MOST_ITEMS)) if hasattr(obj, "__dict__") else ()


def _walk(first: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """What is in an object, with the names it has there, level by level."""
    level = list(first)
    seen: set[int] = set()
    for _ in range(_DEPTH):
        further: list[tuple[str, Any]] = []
        for name, value in level:
            yield name, value
            if type(value) in CLOSED or id(value) in seen:
                continue
            seen.add(id(value))
            if len(seen) > _MOST:
                return
            further.extend(_further(name, value))
        level = further


def _further(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return [(name, item) for item in islice(value, _MOST_ITEMS)]
    if isinstance(value, dict):
        return [(str(key), item) for key, item in islice(dict.items(value), _MOST_ITEMS)]
    if isinstance(value, type) or may_hold_device(kind) or not is_installed(kind):
        return ()
    return _inside(value)
