"""Functions on the wire: each is pickled once, named by the digest of its pickle, and loaded once."""

from __future__ import annotations

import pickle as pickling
import threading
from collections import OrderedDict
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from hetsched.errors import ProtocolError

from .digests import digest_of
from .pickling import PYTHON, check_python, dumps

__all__ = ["MOST_BYTES", "MOST_FUNCTIONS", "Function", "dump_function", "load_function"]

MOST_FUNCTIONS = 1024
"""So many loaded functions are kept."""

MOST_BYTES = 256 * 2**20
"""So many bytes of pickles the loaded functions that are kept may have had together."""

_BY_NAME = bytes((0, 0))


class Function(NamedTuple):
    """A function as it is sent."""

    digest: bytes
    data: bytes
    by_value: bool
    """Whether there is code inside, which only the minor version of Python that made it can load."""


_Kept = tuple[Function, CodeType | None]
_dumped: WeakKeyDictionary[Any, dict[int, _Kept]] = WeakKeyDictionary()
_loaded: OrderedDict[bytes, tuple[Callable[..., Any], int]] = OrderedDict()
_lock = threading.Lock()
_loaded_bytes = 0


def dump_function(func: Callable[..., Any], pickle: int) -> Function:
    """Pickle a function, or anything that can be called, with a protocol of at most ``pickle``.

    Functions that can be imported are pickled by name, and so are partials of such, which any Python loads. Raises what
    the pickled objects' own code raises, and pickle.PicklingError or TypeError for what cannot be pickled.
    """
    known = _can_remember(func)
    if known:
        kept = _dumped.get(func, {}).get(pickle)
        if kept is not None and kept[1] is getattr(func, "__code__", None):
            return kept[0]
    pickled = dumps(func, pickle)
    data = (bytes(PYTHON) if pickled.has_code else _BY_NAME) + pickled.data
    function = Function(digest_of(data), data, pickled.has_code)
    if known and (pickled.by_name or _is_closed(func)):
        _dumped.setdefault(func, {})[pickle] = function, getattr(func, "__code__", None)
    return function


def load_function(digest: bytes, data: bytes | bytearray | memoryview) -> Callable[..., Any]:
    """The function that :func:`dump_function` gave; the same object for the same digest, while it is kept.

    Safe to call from several threads. Raises ProtocolError where the data are not the digest's, TaskError for code of
    another Python version, and whatever loading a pickle raises.
    """
    with _lock:
        kept = _loaded.get(digest)
        if kept is not None:
            _loaded.move_to_end(digest)
            return kept[0]
    view = memoryview(data)
    if view.nbytes < 2 or digest_of(view) != digest:
        raise ProtocolError("a function came under a digest that is not its own")
    if view[:2] != _BY_NAME:
        check_python(view[:2])
    func: Callable[..., Any] = pickling.loads(view[2:])  # without the lock: it may import, and wait for other threads
    return _keep(digest, func, view.nbytes)


def _keep(digest: bytes, func: Callable[..., Any], nbytes: int) -> Callable[..., Any]:
    global _loaded_bytes
    dropped = []  # what is dropped may run code of its own when it goes, so it goes after the lock
    with _lock:
        if digest in _loaded:
            return _loaded[digest][0]
        _loaded[digest] = func, nbytes
        _loaded_bytes += nbytes
        while len(_loaded) > MOST_FUNCTIONS or (_loaded_bytes > MOST_BYTES and len(_loaded) > 1):
            dropped.append(_loaded.popitem(last=False)[1])
            _loaded_bytes -= dropped[-1][1]
    return func


def _can_remember(func: Any) -> bool:
    """Whether a callable is known by its identity, and what it is known by does not change."""
    kind = type(func)
    return kind is FunctionType or kind is type or (kind is BuiltinFunctionType and type(func.__self__) is ModuleType)


def _is_closed(func: Any) -> bool:
    """Whether a function is its code and no more: one that reads variables is another function when they change."""
    if type(func) is not FunctionType or func.__defaults__ or func.__kwdefaults__ or func.__dict__:
        return False
    code = func.__code__
    inner = any(type(const) is CodeType for const in code.co_consts)
    return not (code.co_names or code.co_freevars or inner)
