"""From objects that are there to what a reader of code knows of them; nothing is imported, called or asked."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from enum import EnumType
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from . import sources
from .held import is_installed, told_or_held
from .libraries import ALIASES, ALWAYS, DEVICE, ROOTS, meaning, root_of
from .objects import devices_of
from .values import UNKNOWN, Attr, Instance, Items, Known, Made, Name, Value

__all__ = ["Globals", "class_attribute", "is_own", "is_standard", "unwrapped", "value_of"]

_PLAIN: Final = frozenset({str, int, float, bool, complex, bytes, type(None), type(...), range, slice})
_BUILTINS: Final = dict(vars(sys.modules["builtins"]))
_HOST_ROOTS: Final = sys.stdlib_module_names | frozenset(
    {"cloudpickle", "dask", "distributed", "fsspec", "hetsched", "hypothesis", "matplotlib", "msgpack", "networkx",
     "numpy", "pandas", "pyarrow", "pytest", "requests", "scipy", "sklearn", "toolz", "trio", "xarray", "yaml", "zarr"}
)  # fmt: skip
_CACHED: Final = type(functools.lru_cache(len))
_NAMESPACES: Final = frozenset({("types", "SimpleNamespace"), ("argparse", "Namespace")})
_own: dict[str, bool] = {}


def is_own(func: FunctionType, beside: str = "") -> bool:
    """Tell whether a function is a person's own: not of the standard library nor of an installed package.

    What lies in the same package as the module ``beside`` is.
    """
    module = func.__module__ if type(func.__module__) is str else ""
    root = root_of(module)
    if root == root_of(beside):
        return True
    known = _own.get(root)
    if known is None:
        if len(_own) > 10_000:
            _own.clear()
        installed = "site-packages" in func.__code__.co_filename or "dist-packages" in func.__code__.co_filename
        known = _own[root] = not installed and root not in _HOST_ROOTS and root not in ROOTS
    return known


def unwrapped(func: FunctionType) -> FunctionType:
    """The function that is a person's own, of one that an installed package has wrapped around it."""
    inner = func.__dict__.get("__wrapped__")
    return inner if type(inner) is FunctionType and "site-packages" in func.__code__.co_filename else func


def is_standard(func: FunctionType) -> bool:
    """Tell whether a function is of the standard library."""
    return root_of(str(func.__module__)) in sys.stdlib_module_names


class Globals:
    """The global names of a function, and what they are known to be."""

    __slots__ = ("_found", "_names", "module")

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._found: dict[str, Value] = {}
        module = names.get("__name__")
        self.module = module if type(module) is str else ""

    def look(self, name: str) -> Value:
        """What a global name stands for."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._look(name)
        return found

    def _look(self, name: str) -> Value:
        if name in self._names:
            obj = self._names[name]
        elif name in _BUILTINS:
            return Known(_BUILTINS[name])
        else:
            obj = None
        if obj is None:
            # Not installed here, or not yet: what people call it, or what the module's own text says it is.
            said = sources.said_of(self._names, name)
            if said is not None:
                return Name(said.path, absent=True) if type(said) is Name else said
            if name in ALIASES:
                return Name(ALIASES[name], absent=True)
            return Known(None) if name in self._names else UNKNOWN
        if obj is False and sounds_of_device(name):
            return UNKNOWN  # true where there is a device
        value = value_of(obj, name)
        if _tells_nothing(value, obj, name, self._names):
            said = sources.said_of(self._names, name)
            return value if said is None else said
        return value


def sounds_of_device(name: str) -> bool:
    """Tell whether a name is one that people give to what says whether, or which, device is used."""
    low = name.lower()
    return any(part in low for part in ("gpu", "cuda", "device", "cupy", "backend", "accel", "cudf", "rapids"))


def _tells_nothing(value: Value, obj: Any, name: str, names: dict[str, Any]) -> bool:
    """Whether a value may be something of a library's that does not look like it: a stand-in, a mock."""
    if type(value) is Known:
        return type(obj) is FunctionType and (obj.__globals__ is not names or obj.__name__ != name)
    if type(value) is Made:
        return not value.device and type(obj).__module__ == "unittest.mock"
    return type(value) is Instance and _answers_to_all(type(obj))


def _answers_to_all(kind: type) -> bool:
    return any("__getattr__" in vars(base) for base in kind.__mro__[:-1])


def value_of(obj: Any, name: str = "", free: bool = False) -> Value:
    """What is known of an object. Never raises, whatever the object is."""
    kind = type(obj)
    if kind in _PLAIN:
        return Known(obj)
    try:
        return _VALUE_OF.get(kind, _any_value)(obj, name, free)
    except Exception:  # objects may be anything, and answer anything
        return UNKNOWN


def _function(obj: Any, name: str, free: bool) -> Value:
    module = obj.__module__
    if type(module) is str and root_of(module) in ROOTS:
        return Name(f"{module}.{obj.__name__}")
    return Known(obj, free)


def _module(obj: Any, name: str, free: bool) -> Value:
    dotted = obj.__name__
    return Name(dotted) if type(dotted) is str and root_of(dotted) in ROOTS else Known(obj)


def _method(obj: Any, name: str, free: bool) -> Value:
    owner = value_of(obj.__self__, free=free)
    return Attr(owner, obj.__func__.__name__) if type(owner) is Instance else value_of(obj.__func__, name, free)


def _items(obj: Any, name: str, free: bool) -> Value:
    return Items(value_of(item, free=free) for item in obj) if 0 < len(obj) <= 16 else Known(obj)


_VALUE_OF: dict[type, Callable[[Any, str, bool], Value]] = {
    FunctionType: _function,
    BuiltinFunctionType: _function,
    ModuleType: _module,
    MethodType: _method,
    dict: lambda obj, name, free: Known(obj),
    tuple: _items,
    list: _items,
}


def _any_value(obj: Any, name: str, free: bool) -> Value:
    kind = type(obj)
    if issubclass(kind, ModuleType):
        return _module(obj, name, free)
    if isinstance(obj, type):
        return Name(f"{obj.__module__}.{obj.__name__}") if root_of(str(obj.__module__)) in ROOTS else Known(obj, free)
    library = next((str(b.__module__) for b in kind.__mro__ if root_of(str(b.__module__)) in ROOTS), None)
    if library is not None:
        return _of_library(obj, kind, library, name)
    wrapped = getattr(obj, "__wrapped__", None) if kind is _CACHED else None
    if type(wrapped) is FunctionType:
        return value_of(wrapped, name, free)
    told = _mocked(obj, kind) or _by_what_it_holds(obj, kind, name)
    if told is not None:
        return told
    if (
        root_of(kind.__module__) in _HOST_ROOTS
        and not hasattr(kind, "__dlpack_device__")
        and "__call__" not in dir(kind)
    ):
        return Known(obj) if kind.__module__ != "unittest.mock" else Instance(kind, obj)
    return Instance(kind, obj)


def _by_what_it_holds(obj: Any, kind: type, name: str) -> Value | None:
    """An object of a library that holds something on a device, a member of an enumeration, a plain namespace."""
    if is_installed(kind):
        held = told_or_held(obj)
        what = f"{kind.__module__}.{kind.__name__}"
        return Made(what, f"{name or 'an object'}, a {what} with {held}") if held else None
    if type(kind) is EnumType:
        member = Instance(kind, obj)
        member.attributes.update(value=value_of(vars(obj)["_value_"]), name=value_of(vars(obj)["_name_"]))
        return member
    return Instance(kind, obj) if (kind.__module__, kind.__name__) in _NAMESPACES else None


def _mocked(obj: Any, kind: type) -> Value | None:
    """What a mock stands for that came out of one in the place of a library, by the names that mocks keep."""
    names: list[str] = []
    while True:
        found = _library_name(obj)
        if found is not None:
            break
        inside = vars(obj) if kind.__module__ == "unittest.mock" else {}
        obj = inside.get("_mock_new_parent")
        if obj is None or len(names) > 20:
            return None
        names.append(str(inside.get("_mock_new_name")))
    path = ".".join([found, *(name for name in reversed(names) if name != "()")])
    if "()" not in names:
        return Name(path)
    return Made(path, f"what {path} gives" if meaning(path) == DEVICE else "")


_by_id: dict[int, str] = {}
_listed = [0]


def _library_name(obj: Any) -> str | None:
    """The name under which an object stands among the modules that are loaded, if that is a library's."""
    if _listed[0] != len(sys.modules):
        _by_id.clear()
        _by_id.update((id(module), name) for name, module in list(sys.modules.items()) if root_of(name) in ROOTS)
        _listed[0] = len(sys.modules)
    name = _by_id.get(id(obj))
    return name if name is not None and sys.modules.get(name) is obj else None


def _of_library(obj: Any, kind: type, library: str, name: str) -> Value:
    root, what = root_of(library), f"{library}.{kind.__name__}"
    shown = f"{name or 'an object'}, a {what}" if name else f"a {what}"
    if library == "torch" and kind.__name__ == "device":
        return Known(str(obj))
    if library.startswith(("jax", "jaxlib")) and "Device" in kind.__name__:
        return Known(str(obj.platform))
    inside = getattr(obj, "py_func", None) or getattr(obj, "fn", None) or getattr(obj, "__wrapped__", None)
    if library.startswith(("numba.cuda", "numba_cuda", "triton", "warp")):
        return Made(what, shown)
    if root == "cupy" and kind.__name__ == "Fusion":
        inside = getattr(obj, "func", None)  # called itself where no argument is on a device
    if (root in ("numba", "jax", "jaxlib") or kind.__name__ == "Fusion") and type(inside) is FunctionType:
        return Known(inside)
    if root in ALWAYS or devices_of(obj):
        return Made(what, shown)
    if library != str(kind.__module__):
        return Instance(kind, obj)
    told = told_or_held(obj)
    return Made(what, f"{shown} with {told}" if told else "")


def class_attribute(kind: type, name: str) -> Any:
    """What a class, or one that it comes from, has under a name, without running anything; KeyError if nothing."""
    for base in type.__getattribute__(kind, "__mro__"):
        if name in vars(base):
            return vars(base)[name]
    raise KeyError(name)
