"""What arguments say about devices:

`device="cuda"`, `providers=["CUDAExecutionProvider"]`, `{"tree_method": "gpu_hist"}`.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from .libraries import NAMING, SWITCHES, names_device
from .resolve import value_of
from .values import Attr, Input, Instance, Items, Known, Made, Many, Name, Pairs, Value

__all__ = ["CPU", "GPU", "OPEN", "SOME", "device_said", "is_empty", "is_mapping", "pairs_of", "place_of", "several"]

GPU: Final = "a device"
"""A device is named."""
CPU: Final = "the CPU"
"""The CPU is named."""
SOME: Final = "perhaps a device"
"""A device is named on some of the ways."""
OPEN: Final = "whatever is given"
"""It is the task's own argument that names it."""

_CONFIGURED: Final = ("cupy", "cudf", "cugraph", "cuml", "nx-cugraph", "rapids")
"""What dask, networkx and others call the backends of theirs that use a device."""
_ALSO: Final = {"device_map": ("auto", "balanced"), "backend": _CONFIGURED, "engine": _CONFIGURED}
"""What else names a device, as an argument of this name."""


def several(value: Value) -> list[Value]:
    """The values in a list or tuple, as far as it is known."""
    if type(value) is Items:
        return value.values
    if type(value) is Known and type(value.value) in (tuple, list):
        return [Known(item) for item in value.value]
    return []


def is_mapping(value: Value) -> bool:
    """Tell whether a value is a dict, or another mapping that runs nobody's code."""
    return type(value) is Pairs or (type(value) is Known and type(value.value) in _MAPPINGS)


_MAPPINGS: Final = frozenset({dict, OrderedDict, defaultdict, MappingProxyType})


def is_empty(value: Value) -> bool:
    """Tell whether a value is a dict, set or list that is there with nothing in it: a cache, yet to be filled."""
    return type(value) is Known and type(value.value) in _FILLED and not value.value


_FILLED: Final = frozenset({dict, OrderedDict, defaultdict, set, list})


def pairs_of(value: Value) -> dict[str, Value]:
    """The values in a dict, by those of its keys that are known texts."""
    if type(value) is Pairs:
        return value.values
    if is_mapping(value) and len(value.value) <= 100:
        return {k: value_of(v, k) for k, v in value.value.items() if type(k) is str}
    return {}


def place_of(value: Value, numbers: bool = False) -> str | None:
    """Which place a value names, as an argument that is there to name one; None where it names none.

    With ``numbers`` a number is the number of a device, as in torch.
    """
    kind = type(value)
    if kind is Known:
        return _place_of_object(value.value, numbers)
    if kind is Many:
        places = {place_of(one, numbers) for one in value.values}
        return GPU if places == {GPU} else SOME if GPU in places else CPU if places == {CPU} else None
    if kind is Items:
        return GPU if GPU in {place_of(one) for one in value.values} else None
    if kind is Name:
        return GPU if value.path in ("taichi.cuda", "taichi.gpu", "taichi.vulkan") else None
    if kind is Made:
        return GPU if value.of in ("polars.GPUEngine", "mxnet.gpu", "paddle.CUDAPlace") or value.device else None
    if kind is Instance and isinstance(value.made, str):  # of an enumeration of texts
        return _place_of_object(str.__str__(value.made), numbers)
    return OPEN if kind in (Input, Attr) else None


def _place_of_object(obj: object, numbers: bool) -> str | None:
    if type(obj) is str:
        if names_device(obj):
            return GPU
        return CPU if obj.lower().startswith(("cpu", "/cpu", "/device:cpu")) else None
    if type(obj) is int and numbers:
        return GPU if obj >= 0 else CPU
    if type(obj) in (tuple, list):
        return GPU if any(_place_of_object(one, False) == GPU for one in obj) else None  # type: ignore[attr-defined]
    return None


def device_said(
    args: Iterable[Value], named: Mapping[str, Value], *, positional: bool = False, numbers: bool = False
) -> tuple[str, str] | None:
    """Which place the arguments of a call name, and by which; None where they name none.

    ``positional`` looks at those without a name too, and into dicts of parameters.
    """
    found: tuple[str, str] | None = None
    for name, value in named.items():
        if name in NAMING:
            place = place_of(value, numbers and name in ("device", "map_location"))
            if place is None and _is_one_of(value, _ALSO.get(name, ())):
                place = GPU
        elif name in SWITCHES and type(value) is Known and value.value is True:
            place = GPU
        elif name in _COUNTS and positional:
            place = _place_of_count(value)
        else:
            place = _in_parameters(value) if positional else None
        found = _stronger(found, place, f"{name}={_shown(value)}")
    if positional:
        for value in args:
            place = place_of(value, False) if type(value) not in (Input, Attr, Made) else None
            found = _stronger(found, place or _in_parameters(value), _shown(value))
    return found


_COUNTS: Final = ("gpus", "num_gpus", "device_ids")
"""What some libraries call the argument that says how many devices, or which."""


def _place_of_count(value: Value) -> str | None:
    if several(value):
        return GPU
    if type(value) is Known and type(value.value) is int:
        return GPU if value.value else CPU
    return None


def _in_parameters(value: Value) -> str | None:
    """What a dict of parameters names, as XGBoost and others take it."""
    for key, one in pairs_of(value).items():
        if key in NAMING:
            place = place_of(one)
            if place is not None:
                return place
        if key.endswith("backend") and _is_one_of(one, _CONFIGURED):
            return GPU
    return None


def _is_one_of(value: Value, texts: tuple[str, ...]) -> bool:
    return type(value) is Known and type(value.value) is str and value.value in texts


_ORDER: Final = {None: 0, OPEN: 1, CPU: 2, SOME: 3, GPU: 4}


def _stronger(found: tuple[str, str] | None, place: str | None, shown: str) -> tuple[str, str] | None:
    if _ORDER[place] > _ORDER[found[0] if found else None]:
        assert place is not None
        return place, shown
    return found


def _shown(value: Value) -> str:
    if type(value) is Known and type(value.value) in (str, int):
        return repr(value.value)
    if type(value) in (Input, Attr):
        return str(value.name)
    return str(value.path) if type(value) is Name else "..."
