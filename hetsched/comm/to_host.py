"""Bring objects that live on a device to host memory, for a peer that has no such device.

A type is recognised by its name, so a GPU library is never imported here: its objects exist only where it was. Types
that nobody registered are asked by the protocols that arrays share.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

from hetsched.gpu.objects import may_live_on_device

__all__ = ["BROUGHT", "device_of", "host_of", "name_of", "register", "to_host"]

Convert: TypeAlias = "Callable[[Any], Any]"

BROUGHT: ContextVar[Callable[[Sequence[str]], object] | None] = ContextVar("BROUGHT", default=None)
"""Who is called, in any thread, with the types of what the sender of a value had to bring to the host for us."""

_DLPACK = {1: None, 3: None, 2: "cuda", 13: "cuda", 10: "rocm"}
"""DLPack's numbers of devices: the host and its pinned memory, CUDA and its managed memory, ROCm."""

_MOST_TYPES = 10_000


class _Way(NamedTuple):
    convert: Convert
    device: str


def register(kind: type | str, function: Convert, device: str = "cuda") -> None:
    """Say how objects of a type come to host memory: ``register("mylib.Array", lambda array: array.to_numpy())``.

    ``kind`` is the type or its name, so that its module need not be loaded; its subclasses are meant too. The function
    returns the object itself where that is in host memory already. ``device`` is the kind of device, for objects that
    do not tell it themselves. A later registration of the same type replaces the earlier one.
    """
    way = _Way(function, device)
    if isinstance(kind, str):
        _NAMED.pop(kind, None)
        _NAMED[kind] = way
    else:
        _TYPED[kind] = way
    _found.clear()


def device_of(obj: Any) -> str | None:
    """Name the kind of device that holds an object's data (``"cuda"``), None for the host's memory.

    A registered type that does not tell is taken to be on its device. An object of another type that raises, or whose
    interface lacks what it needs, is an ordinary one.
    """
    way = _way(type(obj))
    if way is None:
        return None
    told, device = _ask(obj)
    return device if told or way is _BY_PROTOCOL else way.device


def host_of(obj: Any, devices: tuple[str, ...] = ()) -> Any:
    """The object itself where it is in host memory or on a device of a kind in ``devices``, else its copy on the host.

    What a container holds is not looked at. Raises TypeError, with the remedy, where an object cannot be converted.
    """
    way = _way(type(obj))
    if way is None:
        return obj
    device = device_of(obj)
    if device is None or device in devices:
        return obj
    try:
        host = way.convert(obj)
    except Exception as error:  # a library's own code: any error it has
        raise TypeError(_refusal(obj, device, f"cannot be copied to host memory ({error!r})")) from error
    if _ask(host)[1] is not None:
        raise TypeError(_refusal(obj, device, "is still on a device after it was copied to host memory"))
    return host


def to_host(obj: Any, devices: tuple[str, ...] = ()) -> Any:
    """Like :func:`host_of`, also for what lists, tuples, sets, dicts and dataclasses hold, at any depth.

    What holds nothing to convert is returned as it is; else containers are copied, and shared ones stay shared. Raises
    TypeError where an object cannot be converted.
    """
    if not _holds_device(obj, devices, set()):
        return obj
    return _copied(obj, devices, {})


def name_of(kind: type) -> str:
    """A type as people write it, with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _refusal(obj: Any, device: str, what: str) -> str:
    name = name_of(type(obj))
    return (
        f"a {name} on a {device} device {what}, and the receiver takes none. Say how it comes to the host: "
        f"hetsched.comm.to_host.register({name!r}, function)"
    )


def _way(kind: type) -> _Way | None:
    try:
        return _found[kind]
    except KeyError:
        pass
    except TypeError:  # a type that cannot be hashed
        return None
    if len(_found) > _MOST_TYPES:
        _found.clear()
    way = None
    with suppress(Exception):  # a metaclass may answer anything
        way = _registered(kind) or (_BY_PROTOCOL if may_live_on_device(kind) else None)
    _found[kind] = way
    return way


def _registered(kind: type) -> _Way | None:
    for base in type.__getattribute__(kind, "__mro__")[:-1]:
        if base in _TYPED:
            return _TYPED[base]
        name = f"{base.__module__}.{base.__qualname__}"
        if name in _NAMED:
            return _NAMED[name]
        # Libraries show a type in one module and keep it in another.
        top = name.partition(".")[0] + "."
        for said, way in _NAMED.items():
            if said.startswith(top) and _loaded(said) is base:
                return way
    return None


def _loaded(name: str) -> Any:
    """What a dotted name stands for in the modules that are loaded, or None."""
    module, _, rest = name.rpartition(".")
    while module and module not in sys.modules:
        module, _, front = module.rpartition(".")
        rest = f"{front}.{rest}"
    found: Any = sys.modules.get(module)
    for part in rest.split("."):
        found = getattr(found, part, None)
    return found


def _ask(obj: Any) -> tuple[bool, str | None]:
    """Whether an object tells by the protocols that arrays share where it is, and the kind of device."""
    try:
        code = getattr(obj, "__dlpack_device__", None)
        if code is not None:
            number = int(code()[0])
            if number in _DLPACK:
                return True, _DLPACK[number]
        interface = getattr(obj, "__cuda_array_interface__", None)
        if type(interface) is dict:
            pointer, _read_only = interface["data"]
            sound = isinstance(interface["typestr"], str) and isinstance(pointer, int)
            if sound and all(isinstance(n, int) and n >= 0 for n in interface["shape"]):
                return True, "cuda"
    except Exception:  # user code; CPU tensors of torch raise here
        pass
    return False, None


def _by_protocol(obj: Any) -> Any:
    """Convert an array whose type nobody registered, by the methods that such types have."""
    problem: Exception = TypeError("it has neither get() nor copy_to_host()")
    for name in ("get", "copy_to_host"):
        method = getattr(obj, name, None)
        if callable(method):
            try:
                return method()
            except Exception as error:  # a library's own code
                problem = error
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        return cupy.asarray(obj).get()
    raise problem


def _torch(tensor: Any) -> Any:
    if tensor.device.type in ("cpu", "meta"):
        return tensor
    host = tensor.detach().cpu()
    if type(tensor).__name__ == "Parameter":
        return type(tensor)(host, requires_grad=tensor.requires_grad)
    return host.requires_grad_() if tensor.requires_grad else host


def _jax(array: Any) -> Any:
    import numpy as np

    return array if all(device.platform == "cpu" for device in array.devices()) else np.asarray(array)


_BY_PROTOCOL = _Way(_by_protocol, "cuda")
_GET = _Way(lambda array: array.get(), "cuda")
_PANDAS = _Way(lambda frame: frame.to_pandas(), "cuda")
_JAX = _Way(_jax, "cuda")

_TYPED: dict[type, _Way] = {}
_NAMED: dict[str, _Way] = {
    "cupy.ndarray": _GET,
    "cupyx.scipy.sparse.spmatrix": _GET,
    "cudf.DataFrame": _PANDAS,
    "cudf.Series": _PANDAS,
    "cudf.Index": _PANDAS,
    "numba.cuda.cudadrv.devicearray.DeviceNDArrayBase": _Way(lambda array: array.copy_to_host(), "cuda"),
    "torch.Tensor": _Way(_torch, "cuda"),
    "jaxlib._jax.ArrayImpl": _JAX,
    "jaxlib.xla_extension.ArrayImpl": _JAX,
}
_found: dict[type, _Way | None] = {}


def _parts(obj: Any) -> Iterable[Any] | None:
    """What a container holds, or None where it is not one."""
    kind = type(obj)
    if _way(kind) is not None:
        return None
    if kind in (list, set, frozenset) or issubclass(kind, tuple):
        return tuple(obj)
    if kind is dict:
        return (part for item in obj.items() for part in item)
    with suppress(Exception):  # a metaclass may answer anything
        if dataclasses.is_dataclass(kind):
            return [getattr(obj, field.name, None) for field in dataclasses.fields(kind)]
    return None


def _holds_device(obj: Any, devices: tuple[str, ...], seen: set[int]) -> bool:
    parts = _parts(obj)
    if parts is None:
        device = device_of(obj)
        return device is not None and device not in devices
    if id(obj) in seen:
        return False
    seen.add(id(obj))
    return any(_holds_device(part, devices, seen) for part in parts)


def _copied(obj: Any, devices: tuple[str, ...], done: dict[int, tuple[Any, Any]]) -> Any:
    if id(obj) in done:
        return done[id(obj)][0]
    kind = type(obj)

    def keep(made: Any) -> Any:
        done[id(obj)] = (made, obj)  # the object too: its id must not go to another
        return made

    def inner(part: Any) -> Any:
        return _copied(part, devices, done)

    if _parts(obj) is None:
        return keep(host_of(obj, devices))
    if kind is list:
        made = keep([])
        made.extend(map(inner, obj))
        return made
    if kind is dict:
        made = keep({})
        made.update((inner(key), inner(value)) for key, value in obj.items())
        return made
    if issubclass(kind, tuple):
        return keep(tuple.__new__(kind, map(inner, obj)))
    if kind in (set, frozenset):
        return keep(kind(map(inner, obj)))
    made = keep(copy.copy(obj))
    for name in [field.name for field in dataclasses.fields(kind) if hasattr(obj, field.name)]:
        object.__setattr__(made, name, inner(getattr(obj, name)))
    return made
