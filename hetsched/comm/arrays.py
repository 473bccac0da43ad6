"""Take numpy's arrays and scalars apart, and put them together again; numpy 1 and 2 understand each other's.

The functions named ``make_...`` and ``fill_...`` are called by pickles that peers send: their names and arguments are
part of what is agreed with peers of other versions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pickle import PickleBuffer
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "DTYPES",
    "SCALARS",
    "Parts",
    "fill_objects",
    "make_array",
    "make_bool_type",
    "make_objects",
    "make_scalar",
    "make_tensor",
    "make_view",
    "make_void",
    "parse_dtype",
    "reduce_array",
    "reduce_dtype",
    "reduce_scalar",
    "reduce_tensor",
    "reduce_view",
    "split_array",
    "split_view",
]

SCALARS: frozenset[type] = frozenset(np.dtype(code).type for code in "?bhilqBHILQefdgFDGmM")
"""The types of numpy's numbers, dates and durations."""

DTYPES: frozenset[type] = frozenset(type(np.dtype(code)) for code in "?bhilqBHILQefdgFDGmMSUVO")
"""The types of the dtypes that are numpy's own."""

_VIEW_FORMATS = frozenset("cbB?hHiIlLqQnNfde")
_dtypes: dict[Any, Any] = {}


class Parts(NamedTuple):
    """An array without its data: what :func:`make_array` needs beside the buffer, all of it fit for msgpack."""

    dtype: Any
    shape: tuple[int, ...]
    order: str
    """``"C"`` or ``"F"``."""
    whole: tuple[int, ...] | None
    """The shape to broadcast to, where the array only repeats what is sent."""


def split_array(array: np.ndarray[Any, Any]) -> tuple[Parts, memoryview] | None:
    """An array's description and its data, which are copied only where they do not lie in one piece.

    None for an array of objects, or of a dtype that no short text describes.
    """
    dtype = _describe_dtype(array.dtype)
    if dtype is None:
        return None
    parts, buffer = _split(array, dtype)
    return parts, buffer.raw()


def make_array(
    buffer: Any, dtype: Any, shape: Sequence[int], order: str, whole: Sequence[int] | None = None
) -> np.ndarray[Any, Any]:
    """Put an array over a buffer, in place if that can be written to, else over a copy.

    Raises ValueError or TypeError where the parts do not fit each other.
    """
    if any(n < 0 for n in shape):
        raise ValueError(f"no array has the shape {shape!r}")
    array: np.ndarray[Any, Any] = np.ndarray(tuple(shape), parse_dtype(dtype), buffer, order=order)  # type: ignore[arg-type]
    if not array.flags.writeable:
        array = array.copy(order="K")
    return array if whole is None else np.broadcast_to(array, tuple(whole))


def parse_dtype(said: Any) -> np.dtype[Any]:
    """The dtype that a description means. Raises ValueError or TypeError where it means none, or one of objects."""
    dtype = np.dtype(said if isinstance(said, np.dtype) else _fields(said))
    if dtype.hasobject:
        raise ValueError(f"{said!r} is a dtype of objects")
    return dtype


def reduce_dtype(dtype: np.dtype[Any], protocol: int) -> Any:
    """What a pickle of a dtype says; numpy 1 does not read all that numpy 2 writes."""
    said = _describe_dtype(dtype)
    return NotImplemented if said is None else (parse_dtype, (said,))


def reduce_array(array: np.ndarray[Any, Any], protocol: int) -> Any:
    """What a pickle of an array says; the data are out of band from protocol 5 on."""
    dtype = array.dtype
    if dtype.kind == "O":
        flat = array.ravel(order="C").tolist()
        return make_objects, (array.shape,), flat, None, None, fill_objects
    said = _describe_dtype(dtype)
    if said is None:
        if dtype.hasobject or dtype.kind not in "biufcmMSUV" or not dtype.itemsize:
            return NotImplemented
        said = dtype
    parts, buffer = _split(array, said)
    # A plain tuple: this pickle shall not name the class.
    return make_array, (buffer if protocol >= 5 else bytes(buffer.raw()), *tuple(parts))


def make_objects(shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """An array of objects, to be filled."""
    return np.empty(tuple(shape), dtype=object)


def fill_objects(array: np.ndarray[Any, Any], flat: Sequence[Any]) -> None:
    """Fill an array of objects in C order."""
    array[...] = np.fromiter(flat, dtype=object, count=len(flat)).reshape(array.shape)


def reduce_scalar(scalar: Any, protocol: int) -> Any:
    """What a pickle of one of numpy's scalars says; numpy's own names a module that moved."""
    if type(scalar) in SCALARS:
        return make_scalar, (scalar.tobytes(), scalar.dtype.str)
    if type(scalar) is np.void:
        array = np.empty((), scalar.dtype)
        array[()] = scalar
        return make_void, (array,)
    return (np.str_, (str(scalar),)) if isinstance(scalar, str) else (np.bytes_, (bytes(scalar),))


def make_scalar(data: Any, dtype: str) -> Any:
    """One of numpy's scalars from its bytes. Raises ValueError or TypeError where the two do not fit."""
    (scalar,) = np.frombuffer(data, parse_dtype(dtype))
    return scalar


def make_void(array: np.ndarray[Any, Any]) -> Any:
    """The one item of an array."""
    return array[()]


def make_bool_type() -> type:
    """numpy's type of booleans, which numpy 2 gave another name."""
    return np.bool_


def split_view(view: memoryview) -> tuple[tuple[str, tuple[int, ...], bool], memoryview]:
    """A memoryview's format, shape and whether it is read-only; and its data, copied if they are not in one piece.

    Raises TypeError for a format that :meth:`memoryview.cast` does not know.
    """
    if view.format.lstrip("@") not in _VIEW_FORMATS:
        raise TypeError(f"a memoryview of the format {view.format!r} cannot be sent; send bytes, or a numpy array")
    data = view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes())
    return (view.format, tuple(view.shape or ()), view.readonly), data


def make_view(buffer: Any, form: str, shape: Sequence[int], readonly: bool) -> memoryview:
    """A memoryview over a buffer, in place unless it must be writable and the buffer is not.

    An empty one has one dimension, since views of more cannot be made. Raises ValueError or TypeError where the parts
    do not fit.
    """
    view = memoryview(buffer).cast("B")
    if view.readonly and not readonly:
        view = memoryview(bytearray(view))
    if math.prod(shape) == 0:
        view = view.cast(form)  # type: ignore[call-overload]
    elif form != "B" or len(shape) != 1:
        view = view.cast(form, list(shape))  # type: ignore[call-overload]
    return view.toreadonly() if readonly else view


def reduce_view(view: memoryview, protocol: int) -> Any:
    """What a pickle of a memoryview says."""
    parts, data = split_view(view)
    if protocol < 5:
        return make_view, (bytes(data), *parts)
    # Python crashes when it collects a ring of garbage in which one view was exported by another. So an array stands
    # between them, which the collector does not look into.
    between: Any = np.frombuffer(data, np.uint8) if data.nbytes else b""
    return make_view, (PickleBuffer(between), *parts)


def reduce_tensor(tensor: Any, protocol: int) -> Any:
    """What a pickle of one of torch's plain tensors in host memory says: numpy carries the data, without a copy."""
    try:
        return make_tensor, (tensor.numpy(),)
    except Exception:  # one that needs a gradient, is sparse, or of a type numpy lacks: torch knows how
        return NotImplemented


def make_tensor(array: np.ndarray[Any, Any]) -> Any:
    """A tensor over an array; the array itself where there is no torch."""
    try:
        import torch
    except ImportError:
        return array
    return torch.from_numpy(array)


def _split(array: np.ndarray[Any, Any], dtype: Any) -> tuple[Parts, PickleBuffer]:
    flags = array.flags
    shape = array.shape
    if flags.c_contiguous:
        return Parts(dtype, shape, "C", None), _buffer(array)
    if flags.f_contiguous:
        return Parts(dtype, shape, "F", None), _buffer(array)
    if not flags.writeable and 0 in array.strides:
        core = np.ascontiguousarray(array[tuple(slice(0, 1) if n == 0 else slice(None) for n in array.strides)])
        return Parts(dtype, core.shape, "C", shape), _buffer(core)
    return Parts(dtype, shape, "C", None), _buffer(np.ascontiguousarray(array))


def _buffer(array: Any) -> PickleBuffer:
    try:
        return PickleBuffer(array)
    except (BufferError, ValueError):  # dates, and dtypes of other libraries
        return PickleBuffer(array.ravel(order="K").view(np.uint8))


def _describe_dtype(dtype: np.dtype[Any]) -> Any:
    """What :func:`parse_dtype` makes the same dtype of, on any numpy; None where there is no such thing."""
    if dtype.metadata is not None:  # it does not count when dtypes are compared
        return None
    try:
        return _dtypes[dtype]
    except KeyError:
        pass
    if len(_dtypes) > 1000:
        _dtypes.clear()
    said: Any = None
    if dtype.kind in "biufcmMSUV" and dtype.itemsize and not dtype.hasobject:
        for describe in (lambda: dtype.str,) if dtype.names is None else (lambda: dtype.descr, lambda: _layout(dtype)):
            with suppress(Exception):
                again = parse_dtype(describe())
                if again == dtype and again.type is dtype.type:
                    said = describe()
                    break
    _dtypes[dtype] = said
    return said


def _layout(dtype: np.dtype[Any]) -> Any:
    """Describe a dtype of fields with gaps between them."""
    if dtype.subdtype is not None:
        return (_layout(dtype.subdtype[0]), dtype.subdtype[1])
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]  # type: ignore[index]
    formats, offsets = [_layout(field[0]) for field in fields], [field[1] for field in fields]
    return {"names": list(dtype.names), "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize}


def _fields(said: Any) -> Any:
    """msgpack makes tuples of lists, numpy tells them apart."""
    if isinstance(said, str):
        return said
    if isinstance(said, dict):
        formats = [
            (_fields(form[0]), tuple(form[1])) if isinstance(form, tuple | list) else _fields(form)
            for form in said["formats"]
        ]
        return {**said, "names": list(said["names"]), "formats": formats, "offsets": list(said["offsets"])}
    return [
        (
            name if isinstance(name, str) else tuple(name),
            _fields(form),
            *map(tuple, shape),
        )
        for name, form, *shape in said
    ]
