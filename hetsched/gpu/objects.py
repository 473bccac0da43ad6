"""Tell whether an object's data live on a device, and how many bytes; without importing a GPU library."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["cuda_nbytes", "may_live_on_device"]

_DEVICE_CODES = frozenset({2, 10, 13})
"""DLPack's device types whose memory is a device's: CUDA, ROCm, CUDA managed (pinned host memory, 3, is the host's)."""


def may_live_on_device(kind: type) -> bool:
    """Tell from a type alone whether its instances are worth asking; a metaclass that answers to all names is not."""
    if kind.__module__ == "numpy":
        return False
    names = ("__cuda_array_interface__", "__dlpack_device__")
    return any(name in vars(base) for base in kind.__mro__ for name in names)


def cuda_nbytes(obj: Any) -> int:
    """Bytes of an object's data on a device, 0 for anything else.

    An object that raises, or gives an interface without shape, item size or pointer, is an ordinary one: CPU tensors of
    torch have the attribute on their type and raise on the instance.
    """
    try:
        code = getattr(obj, "__dlpack_device__", None)
        if code is not None and code()[0] not in _DEVICE_CODES:
            return 0
        interface = getattr(obj, "__cuda_array_interface__", None)
        if type(interface) is dict:
            return _interface_nbytes(interface)
        return int(obj.nbytes) if code is not None else 0
    except Exception:
        return 0


def _interface_nbytes(interface: dict[str, Any]) -> int:
    shape: tuple[int, ...] = tuple(interface["shape"])
    itemsize = int(interface["typestr"][2:])
    pointer, _read_only = interface["data"]
    if not isinstance(pointer, int) or not all(isinstance(n, int) and n >= 0 for n in shape):
        return 0
    return math.prod(shape) * itemsize
