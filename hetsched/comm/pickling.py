"""Pickle what a person hands over: by name where that can be, by value where it must be.

Large buffers stay out of band, numpy's arrays are pickled in words that every numpy understands, and what lives on a
device that the receiver has not comes to the host first, wherever it is inside.
"""

from __future__ import annotations

import copyreg
import pickle
import sys
from functools import cache
from io import BytesIO
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from hetsched.errors import TaskError

from .to_host import host_of, name_of

__all__ = ["IN_BAND", "PYTHON", "Pickled", "check_python", "dumps", "itself"]

IN_BAND = 4096
"""Buffers of fewer bytes are copied into the pickle: a frame of each would cost more."""

PYTHON = (sys.version_info.major, sys.version_info.minor)
"""The version of Python whose code objects this process can load."""


class Pickled(NamedTuple):
    """A pickle, and what is inside."""

    data: bytes
    by_name: bool
    """All functions and classes are named, none is there by value."""
    has_code: bool
    """There is code, which only the minor version of Python that made it can load."""
    brought: tuple[str, ...] = ()
    """The types of what was brought to the host from a device."""


def dumps(obj: Any, protocol: int, devices: tuple[str, ...] = (), buffers: list[memoryview] | None = None) -> Pickled:
    """Pickle an object.

    From protocol 5 on ``buffers``, if given, is filled with the large buffers, without a copy. Objects on a device stay
    as they are where its kind is among ``devices``. Raises what the object's own code raises, and pickle.PicklingError
    or TypeError for what cannot be pickled.
    """
    callback = None
    if buffers is not None and protocol >= 5:
        del buffers[:]

        def callback(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < IN_BAND:
                return True
            buffers.append(raw)
            return False

    file = BytesIO()
    cloudpickle = sys.modules.get("cloudpickle")
    if cloudpickle is None or not cloudpickle.list_registry_pickle_by_value():
        by_name = _ByName(file, protocol, buffer_callback=callback)
        brought: dict[str, None] = {}
        by_name.about = protocol, devices, brought
        try:
            by_name.dump(obj)
        except Exception:  # user code runs here; whatever went wrong, the other way may do, or tells why not
            if buffers is not None:
                del buffers[:]
        else:
            return Pickled(file.getvalue(), True, False, tuple(brought))
    file = BytesIO()
    by_value = _by_value()(file, protocol, buffer_callback=callback)
    brought = {}
    by_value.about = protocol, devices, brought
    by_value.dump(obj)
    return Pickled(file.getvalue(), False, by_value.has_code, tuple(brought))


def check_python(version: Any) -> None:
    """Raise TaskError unless code objects of that version, ``(major, minor)``, are this process's too."""
    if tuple(version) != PYTHON:
        theirs, ours = ".".join(map(str, version)), ".".join(map(str, PYTHON))
        raise TaskError(
            f"code of Python {theirs} came by value, and this is Python {ours}, which cannot load it. Functions and "
            "classes that both sides can import cross from one version to the other; lambdas and what a script defines "
            "do not"
        )


def itself(obj: Any) -> Any:
    """What a pickle calls where one object stands for another: it gives back what it is given."""
    return obj


_About = tuple[int, tuple[str, ...], dict[str, None]]
"""The protocol, the kinds of devices that stay, and the types that were brought to the host, to be added to."""


class _NotByName(Exception):
    """The object must be pickled by value."""


class _ByName(pickle.Pickler):
    about: _About

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is FunctionType or issubclass(kind, type):
            if obj.__module__ == "__main__":
                raise _NotByName
            return _bool_type(obj)
        return _reduce(obj, *self.about)


# cloudpickle and numpy are loaded where they are needed: many a worker never needs them, and starts the sooner.


@cache
def _by_value() -> Any:
    import cloudpickle

    class ByValue(cloudpickle.Pickler):  # type: ignore[misc]
        about: _About
        has_code = False

        def reducer_override(self, obj: Any) -> Any:
            kind = type(obj)
            if kind is CodeType:
                self.has_code = True
            reduced = _bool_type(obj) if issubclass(kind, type) else _reduce(obj, *self.about)
            return super().reducer_override(obj) if reduced is NotImplemented else reduced

    return ByValue


def _bool_type(kind: type) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None or kind is not numpy.bool_:
        return NotImplemented
    from .arrays import make_bool_type

    return make_bool_type, ()


def _reduce_view(view: memoryview, protocol: int) -> Any:
    from .arrays import reduce_view

    return reduce_view(view, protocol)


_REDUCERS: dict[type, Any] = {memoryview: _reduce_view}


def _learn_numpy(numpy: Any) -> None:
    from .arrays import DTYPES, SCALARS, reduce_array, reduce_dtype, reduce_scalar

    learned = dict.fromkeys((*SCALARS, numpy.str_, numpy.bytes_, numpy.void), reduce_scalar)
    _REDUCERS.update({**learned, **dict.fromkeys(DTYPES, reduce_dtype), numpy.ndarray: reduce_array})


def _reduce(obj: Any, protocol: int, devices: tuple[str, ...], brought: dict[str, None]) -> Any:
    if len(_REDUCERS) == 1 and "numpy" in sys.modules:
        import numpy  # not from sys.modules: another thread may be loading it

        _learn_numpy(numpy)
    reducer: Any = _REDUCERS.get(type(obj))
    if reducer is not None:
        return reducer(obj, protocol)
    host = host_of(obj, devices)
    if host is not obj:
        brought[name_of(type(obj))] = None
    if _is_tensor(type(host)) and host.device.type == "cpu":
        from .arrays import reduce_tensor

        reduced = reduce_tensor(host, protocol)
        if reduced is not NotImplemented:
            return reduced
    if host is not obj:
        return itself, (host,)
    if isinstance(obj, BaseException):
        # dask.multiprocessing has tblib pickle all exceptions of a process its own way, in which some lose their parts.
        way = copyreg.dispatch_table.get(type(obj))
        if getattr(way, "__module__", "").startswith("tblib"):
            return obj.__reduce_ex__(protocol)
    return NotImplemented


def _is_tensor(kind: type) -> bool:
    return kind.__module__ == "torch" and kind.__name__ == "Tensor"
