"""Name functions so that the same function has the same name at the next start: by its code, and not by its address."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache, partial
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, Final

__all__ = ["digest_of", "libraries", "name_of"]

_MOST_KNOWN: Final = 10_000
_DEPTH: Final = 3
_LIBRARY: Final = re.compile(
    r"^((?:cupy|cudf|cuml|cugraph|cuspatial|rmm|torch|jax|jaxlib|numba|numba_cuda|pylibraft|tensorflow)(?:_cu\w+|_cuda\w+)?)"
    r"-([^-]+)\.(?:dist|egg)-info$"
)
_codes: dict[int, tuple[CodeType, str]] = {}


def digest_of(funcs: Iterable[Any], said: Sequence[str] = ()) -> str:
    """Give 32 hexadecimal digits for functions that are called together, in this order.

    Two functions of the same name, code and partners share it; what variables they read does not count, but for what
    was ``said`` of them, the same in every process. With other versions of the GPU libraries that are installed it is
    another. Never raises.
    """
    parts = [*(_part(func, _DEPTH) for func in funcs), *said]
    return blake2b("\n".join([libraries(), *parts]).encode(errors="replace"), digest_size=16).hexdigest()


def name_of(calls: Sequence[Any], handed: Sequence[Any] = ()) -> str:
    """Name functions for people: ``module.function``, and what it was handed in brackets."""
    names = [_name(func) for func in calls[:4]] + ["..."] * (len(calls) > 4)
    with_ = f"({', '.join(_name(func) for func in handed[:2])})" if handed else ""
    return (" + ".join(names) + with_)[:200]


@cache
def libraries() -> str:
    """The GPU libraries that are installed, with their versions; none is imported."""
    found: set[str] = set()
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        found.update(f"{match[1]} {match[2]}" for name in names if (match := _LIBRARY.match(name)))
    return ", ".join(sorted(found))


def _part(func: Any, depth: int) -> str:
    if depth < 0:
        return "..."
    try:
        return _words(func, depth)
    except Exception:  # an object's own code
        return f"{type(func).__module__}.{type(func).__qualname__}"


def _words(func: Any, depth: int) -> str:
    kind = type(func)
    if kind is FunctionType:
        cells = [cell.cell_contents for cell in func.__closure__ or () if _is_full(cell)]
        inside = [*cells, *(func.__defaults__ or ())]
        return _joined(f"{func.__module__}.{func.__qualname__} {_code(func.__code__)}", inside, depth)
    if isinstance(func, partial):
        return _joined("partial " + _part(func.func, depth - 1), [*func.args, *func.keywords.values()], depth)
    if kind is MethodType:
        owner = func.__self__ if isinstance(func.__self__, type) else type(func.__self__)
        return f"{owner.__module__}.{owner.__qualname__} {_part(func.__func__, depth - 1)}"
    if isinstance(func, type) or kind is BuiltinFunctionType:
        return f"{func.__module__}.{func.__qualname__}"
    wrapped = getattr(func, "__wrapped__", None) or getattr(func, "func", None)
    call = getattr(kind, "__call__", None)  # noqa: B004 - the method itself
    inside = [one for one in (wrapped, call) if callable(one) and one is not func]
    return _joined(f"{kind.__module__}.{kind.__qualname__}", inside, depth)


def _joined(name: str, inside: Iterable[Any], depth: int) -> str:
    parts = [_part(one, depth - 1) for one in inside if callable(one)]
    return f"{name}[{'; '.join(parts)}]" if parts else name


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty one raises
    except ValueError:
        return False
    return True


def _code(code: CodeType) -> str:
    known = _codes.get(id(code))
    if known is not None and known[0] is code:
        return known[1]
    digest = blake2b(digest_size=8)
    stack = [code]
    while stack:
        one = stack.pop()
        digest.update(one.co_code)
        names = one.co_names, one.co_varnames[: one.co_argcount], one.co_freevars
        digest.update(repr(names).encode(errors="replace"))
        for const in one.co_consts:
            if type(const) is CodeType:
                stack.append(const)
            elif type(const) is frozenset:
                digest.update(repr(sorted(map(repr, const))).encode(errors="replace"))
            else:
                digest.update(repr(const).encode(errors="replace"))
    if len(_codes) >= _MOST_KNOWN:
        _codes.clear()
    _codes[id(code)] = code, digest.hexdigest()
    return _codes[id(code)][1]


def _name(func: Any) -> str:
    while isinstance(func, partial):
        func = func.func
    name = getattr(func, "__qualname__", None) or type(func).__qualname__
    module = getattr(func, "__module__", None) or type(func).__module__
    return f"{module}.{name}"
