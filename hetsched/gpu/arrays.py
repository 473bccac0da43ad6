"""How arrays tell where they are:

by protocols that libraries share, and by what CuPy, torch, JAX and others call it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from .pieces import DLPACK, UNTOLD, Device, Piece, Way

__all__ = ["WAYS", "by_arrow", "by_protocol"]


def by_protocol(obj: Any) -> Iterable[Piece]:
    """By ``__dlpack_device__`` and ``__cuda_array_interface__``; raises what the object raises."""
    kind, index = "cuda", UNTOLD
    code = getattr(obj, "__dlpack_device__", None)
    if code is not None:
        number, index = code()
        if int(number) not in DLPACK:
            return ()
        kind = DLPACK[int(number)]
    interface = getattr(obj, "__cuda_array_interface__", None)
    if type(interface) is dict:
        nbytes, address = _of_interface(interface)
    elif code is not None:
        nbytes, address = int(obj.nbytes), 0
    else:
        return ()
    return (Piece(Device(kind, int(index)), nbytes, address, id(obj)),) if nbytes >= 0 else ()


def _of_interface(interface: dict[str, Any]) -> tuple[int, int]:
    """Bytes and address; an interface without shape, item size or pointer raises, or gives bytes below 0."""
    shape: tuple[int, ...] = tuple(interface["shape"])
    itemsize = int(interface["typestr"][2:])
    pointer, _read_only = interface["data"]
    if not isinstance(pointer, int) or not all(isinstance(n, int) and n >= 0 for n in shape):
        return -1, 0
    strides = interface.get("strides")
    return _spanned(shape, strides, itemsize), pointer


def _spanned(shape: tuple[int, ...], strides: Iterable[int] | None, itemsize: int) -> int:
    """Bytes of an array's elements; elements that are repeated by a stride of 0 are there once."""
    nbytes = math.prod(shape) * itemsize
    if strides is None or nbytes == 0:
        return nbytes
    reach = sum((n - 1) * abs(step) for n, step in zip(shape, strides, strict=False)) + itemsize
    return min(nbytes, reach)


class _ArrowArray(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("length", "nulls", "offset", "buffers", "children")] + [
        (name, ctypes.c_void_p) for name in ("buffer", "child", "dictionary", "release", "private")
    ]


class _ArrowDeviceArray(ctypes.Structure):
    """The beginning of Arrow's C structure of the same name, as its specification has it."""

    _fields_ = [("array", _ArrowArray), ("device_id", ctypes.c_int64), ("device_type", ctypes.c_int32)]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def by_arrow(obj: Any) -> Iterable[Piece]:
    """By Arrow's device interface; raises what the object raises."""
    _, capsule = obj.__arrow_c_device_array__()
    told = _ArrowDeviceArray.from_address(_pointer_of(capsule, b"arrow_device_array"))
    kind = DLPACK.get(told.device_type)
    if kind is None:
        return ()
    return (Piece(Device(kind, max(told.device_id, 0)), int(obj.nbytes), owner=id(obj)),)


def _arrow(obj: Any) -> Iterable[Any]:
    """pyarrow: nearly always on the host, and quick to say so."""
    if getattr(obj, "is_cpu", True):
        return ()
    device = Device(DLPACK.get(int(getattr(obj, "device_type", 2)), "cuda"), UNTOLD)
    return (Piece(device, int(obj.nbytes), owner=id(obj)),)


def _cupy(array: Any) -> Iterable[Piece]:
    nbytes = _spanned(array.shape, array.strides, array.itemsize)
    return (Piece(Device("cuda", int(array.device.id)), nbytes, int(array.data.ptr), id(array)),)


def _torch(tensor: Any) -> Iterator[Any]:
    device = tensor.device
    if device.type in ("cpu", "meta"):
        return
    layout = str(tensor.layout)
    if layout == "torch.sparse_coo":
        yield from (tensor._indices(), tensor._values())  # noqa: SLF001 - the others want it coalesced
        return
    if layout.startswith("torch.sparse_cs"):
        inner = (tensor.crow_indices(), tensor.col_indices()) if layout.endswith("csr") else (
            tensor.ccol_indices(), tensor.row_indices()
        )  # fmt: skip
        yield from (*inner, tensor.values())
        return
    size = tensor.element_size()
    nbytes = _spanned(tuple(tensor.shape), [step * size for step in tensor.stride()], size)
    yield Piece(Device(device.type, device.index or 0), nbytes, int(tensor.data_ptr()), id(tensor))
    if tensor.is_leaf and tensor.grad is not None:
        yield tensor.grad


def _jax(array: Any) -> Iterable[Piece]:
    if array.is_deleted():
        return
    for shard in array.addressable_shards:
        if shard.device.platform != "cpu":
            kind = "cuda" if shard.device.platform == "gpu" else str(shard.device.platform)
            yield Piece(
                Device(kind, int(shard.device.id)), int(shard.data.nbytes), owner=id(array) ^ int(shard.device.id)
            )


def _tensorflow(tensor: Any) -> Iterable[Piece]:
    kind, _, index = str(tensor.device).rpartition("device:")[2].partition(":")
    if kind == "GPU":
        yield Piece(
            Device("cuda", int(index or 0)), int(tensor.shape.num_elements()) * int(tensor.dtype.size), 0, id(tensor)
        )


WAYS: Final[dict[str, Way]] = {
    "cupy.ndarray": _cupy,
    "torch.Tensor": _torch,
    "torch.nn.parameter.Parameter": _torch,
    "jaxlib._jax.ArrayImpl": _jax,
    "jaxlib.xla_extension.ArrayImpl": _jax,
    "tensorflow.python.framework.ops.EagerTensor": _tensorflow,
    "tensorflow.python.framework.ops._EagerTensorBase": _tensorflow,
    "pyarrow": _arrow,
}
"""By the names of types, or of packages."""
