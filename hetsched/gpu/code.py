"""Tell from a callable's code whether it reaches for a device, without running it and without importing anything.

Names are resolved as Python would: through globals, closures, defaults, what partials bind and what objects hold.
What code does with them is followed instruction by instruction (``bytecode.py``), so that
``torch.cuda.is_available()`` is no more than a question and a text is no device's name unless it stands where a
device is named.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, Final

from hetsched.core.evidence import Evidence

from . import calls
from .bytecode import Frame
from .libraries import ROOTS, is_device_type, root_of
from .pickles import read_pickle
from .reading import DEPTH, Reading, forget_functions
from .resolve import is_own, value_of
from .values import UNKNOWN, Attr, Instance, Known, Made, Value

__all__ = ["evidence_in_pickle", "evidence_of", "evidence_of_call", "forget"]

_MOST_KNOWN: Final = 10_000
_MOST_EVIDENCE: Final = 8
_MOST_STEPS: Final = 200
_seen: dict[int, tuple[Evidence, ...]] = {}
"""By the number of a function that is alive: as one ends, so does its entry, before another can have its number."""
_alive: dict[int, object] = {}
_by_code: dict[int, tuple[CodeType, int, tuple[Evidence, ...]]] = {}


def evidence_of(func: object, depth: int = DEPTH) -> tuple[Evidence, ...]:
    """What the code of a callable says for its being a GPU task, strongest first; () where it says nothing.

    Functions, bound methods, partials, instances with ``__call__``, wrapped functions and fused tasks are looked
    into, and a person's own functions that they call, ``depth`` calls deep. The answer for a function is remembered
    until it is forgotten (:func:`forget`), whatever becomes of the globals it reads. Never raises, and imports
    nothing.
    """
    try:
        return _seen[id(func)]
    except KeyError:
        return _inspect(func, depth)


def evidence_of_call(
    func: object, args: Iterable[object], named: Mapping[str, object] | None = None
) -> tuple[Evidence, ...]:
    """Like :func:`evidence_of`, for a call with arguments: a device that they name, or functions that they hand on.

    Arguments that are a task's inputs may be left as whatever stands for them. Costs a look at the code at each call.
    """
    try:
        reading = Reading()
        frame = reading.outermost()
        given = [_argument(arg) for arg in args]
        _look(frame, func, given, {k: _argument(v) for k, v in (named or {}).items()}, _MOST_STEPS)
        return _sorted(frame.found)
    except Exception:  # any callable's own code, and any code at all
        return ()


def evidence_in_pickle(data: bytes) -> tuple[Evidence, ...]:
    """What a pickle of a callable, or of calls, says for its being a GPU task; () where it says nothing or is broken.

    It is read and never loaded: no module is imported, no class made, nothing run. Functions sent by value (by
    cloudpickle) have to be of this minor version of Python.
    """
    try:
        return _sorted(read_pickle(data, lambda frame, func: _look(frame, func, [], {}, _MOST_STEPS)))
    except Exception:  # a pickle may be anything
        return ()


def forget() -> None:
    """Forget what was seen, for when modules have changed."""
    _seen.clear()
    _alive.clear()
    _by_code.clear()
    forget_functions()


def _argument(obj: object) -> Value:
    told = isinstance(obj, str | int | type(None)) or callable(obj) or is_device_type(type(obj))
    return value_of(obj) if told else UNKNOWN


def _is_its_code(func: FunctionType) -> bool:
    """Tell whether nothing is bound to a function, so that others with its code and globals are the same."""
    bound = func.__closure__, func.__defaults__, func.__kwdefaults__
    return bound == (None, None, None) and not vars(func)


def _inspect(func: object, depth: int) -> tuple[Evidence, ...]:
    plain = type(func) is FunctionType and _is_its_code(func)
    if plain:
        code = func.__code__  # type: ignore[attr-defined]
        known = _by_code.get(id(code))
        if known is not None and known[1] == id(func.__globals__):  # type: ignore[attr-defined]
            _remember(func, known[2])
            return known[2]
    try:
        frame = Reading(depth).outermost()
        _look(frame, func, [], {}, _MOST_STEPS)
        found = _sorted(frame.found)
    except Exception:  # as above
        found = ()
    if plain:
        if len(_by_code) > _MOST_KNOWN:
            _by_code.clear()
        _by_code[id(code)] = (code, id(func.__globals__), found)  # type: ignore[attr-defined]
    _remember(func, found)
    return found


def _remember(func: object, found: tuple[Evidence, ...]) -> None:
    if len(_seen) > _MOST_KNOWN:
        _seen.clear()
        _alive.clear()
    number = id(func)
    if type(func) is FunctionType:
        _alive[number] = weakref.ref(func, functools.partial(_ended, number))
    elif type(func) is BuiltinFunctionType or isinstance(func, type):
        _alive[number] = func
    else:
        return
    _seen[number] = found


def _ended(number: int, _: object) -> None:
    _seen.pop(number, None)
    _alive.pop(number, None)


def _sorted(found: Iterable[Evidence]) -> tuple[Evidence, ...]:
    once = {(e.kind, e.detail): e for e in sorted(found, key=lambda e: e.weight)}
    return tuple(sorted(once.values(), key=lambda e: (-e.weight, e.kind, e.detail))[:_MOST_EVIDENCE])


def _look(f: Frame, func: Any, args: list[Value], named: dict[str, Value], steps: int) -> None:
    """Look into a callable by what kind of callable it is."""
    if steps <= 0:
        return
    kind = type(func)
    if kind is FunctionType:
        _look_at_function(f, func, args, named, steps)
    elif isinstance(func, functools.partial):
        bound = {k: value_of(v, free=True) for k, v in func.keywords.items()}
        _look(f, func.func, [*(value_of(a, free=True) for a in func.args), *args], {**bound, **named}, steps - 1)
    elif kind is MethodType:
        _look_at_method(f, func, args, named, steps)
    elif kind is operator.methodcaller:
        _look_at_caller(f, func)
    elif root_of(str(kind.__module__)) in ROOTS or not _look_at_steps(f, func, args, named, steps):
        value = value_of(func, free=True)
        if type(value) is Known and isinstance(func, type):
            value = Known(func, free=True)
        if type(value) is Made and value.device:
            f.say(0.9, value.device)
        calls.call(f, value, args, named)


def _look_at_method(f: Frame, func: MethodType, args: list[Value], named: dict[str, Value], steps: int) -> None:
    owner = f.uses(value_of(func.__self__, free=True))
    if type(owner) is Instance:
        calls.call(f, Attr(owner, func.__func__.__name__), args, named)
    elif type(owner) is not Made or not owner.device:
        _look(f, func.__func__, [owner, *args], named, steps - 1)


def _look_at_caller(f: Frame, func: Any) -> None:
    """Of ``operator.methodcaller``; with arguments by name it is pickled as a partial that would make it."""
    how, given = func.__reduce__()[:2]
    every = [*getattr(how, "args", ()), *given]
    also = {k: value_of(v) for k, v in getattr(how, "keywords", {}).items()}
    calls.call(f, Attr(UNKNOWN, every[0]), [value_of(a) for a in every[1:]], also)


def _look_at_function(f: Frame, func: FunctionType, args: list[Value], named: dict[str, Value], steps: int) -> None:
    wrapped = func.__dict__.get("__wrapped__")
    module = root_of(str(func.__module__))
    if module in ROOTS:
        calls.call(f, value_of(func), args, named)
        return
    own = is_own(func) or not _of_host_library(module)
    if wrapped is not None and callable(wrapped):
        _look(f, wrapped, args, named, steps - 1)
        own = own and is_own(func)
    if own:
        f.reading.follow(f, Known(func, free=True), args, named)
    elif wrapped is None:
        f.reading.hand_on(f, args, named)


_HOST: Final = frozenset({"dask", "numpy", "pandas", "scipy", "pyarrow", "operator", "functools", "toolz", "hetsched"})


def _of_host_library(root: str) -> bool:
    return root in _HOST


def _look_at_steps(f: Frame, func: Any, args: list[Value], named: dict[str, Value], steps: int) -> bool:
    """Look into a callable that is made of others; returns whether it is one."""
    kind = type(func)
    home = root_of(kind.__module__)
    if home == "hetsched":
        for inner, given, also in _steps_of(func):
            steps -= 1
            _look(f, inner, [_argument(a) for a in given], {k: _argument(v) for k, v in also.items()}, steps)
        return True
    if home in ("toolz", "cytoolz"):
        inside = getattr(func, "_partial", None)
        parts = [inside] if inside is not None else [getattr(func, "first", None), *getattr(func, "funcs", ())]
    elif home == "dask" and hasattr(func, "func"):
        parts = [functools.partial(func.func, *_plain(func.args), **dict(getattr(func, "kwargs", None) or {}))]
    elif home == "numpy" and hasattr(func, "pyfunc"):
        parts = [func.pyfunc]
    elif hasattr(kind, "__wrapped__") or "__wrapped__" in getattr(func, "__dict__", ()):
        parts = [func.__wrapped__]
    elif isinstance(func, list | tuple) and len(func) <= steps:
        parts = list(func)
    else:
        return False
    for part in parts:
        if callable(part):
            _look(f, part, args, named, steps - 1)
    return True


def _plain(args: Iterable[Any]) -> list[Any]:
    return [arg for arg in args if callable(arg) or isinstance(arg, str)]


def _steps_of(func: Any) -> Iterable[tuple[Any, Iterable[Any], Mapping[str, Any]]]:
    """The calls of hetsched's own callables: chains, plans, and those that carry something around one function."""
    for link in getattr(func, "links", None) or getattr(func, "steps", None) or ():
        yield link[0], link[1], link[2] or {}
    for name in ("func", "__wrapped__"):
        inner = getattr(func, name, None)
        if callable(inner):
            yield inner, (), {}
            return
