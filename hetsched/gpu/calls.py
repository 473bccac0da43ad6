"""What it says when code calls something, or hands something on: where most evidence comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, TypeAlias

from hetsched.core.evidence import DOWNLOAD

from . import methods
from .arguments import CPU, GPU, OPEN, SOME, device_said, is_mapping, pairs_of, place_of, several
from .attributes import attribute
from .builtin_calls import BUILT_IN, LIBRARIES_OF_ARRAYS
from .bytecode import Frame, weakened
from .held import device_in, is_installed
from .libraries import (
    ASKS,
    BRINGS_BACK,
    CHECKS,
    DEVICE,
    FOLLOWS_INPUT,
    MAY,
    NOTHING,
    UNLESS_HOST,
    meaning,
    root_of,
    words,
)
from .resolve import class_attribute, is_own, is_standard
from .values import (
    UNKNOWN,
    Attr,
    Inner,
    InnerClass,
    Instance,
    Items,
    Known,
    Made,
    Many,
    Name,
    Test,
    Value,
    either,
)

__all__ = ["call", "entered", "hand_on", "not_followed", "pairs_of", "several"]

_SILENT: Final = words("catboost cv2 faiss keras lightgbm numba onnxruntime polars xgboost")
"""Libraries that mostly run on the CPU: that they are used at all says nothing."""


def entered(f: Frame, value: Value) -> None:
    """Note what it says to enter a context."""
    if type(value) is Known and place_of(value) == GPU:
        f.say(0.9, f"with the device {value.value!r}")
    if type(value) is Instance:
        call(f, attribute(f, value, "__enter__"), [], {})


def call(f: Frame, callee: Value, args: list[Value], named: dict[str, Value]) -> Value:
    """Note what a call says; returns what it gives."""
    kind = type(callee)
    handler = _CALLS.get(kind)
    if handler is not None:
        return handler(f, callee, args, named)
    hand_on(f, args, named)
    return callee if kind is Made and callee.device else UNKNOWN


def _inner(f: Frame, callee: Inner, args: list[Value], named: dict[str, Value]) -> Value:
    hand_on(f, args, named)
    return f.reading.follow(f, callee, args, named)


def _inner_class(f: Frame, callee: InnerClass, args: list[Value], named: dict[str, Value]) -> Value:
    made = callee.instance()
    init = made.attributes.get("__init__")
    if type(init) is Inner:
        f.reading.follow(f, init, args, named)
    return made


def _instance(f: Frame, callee: Instance, args: list[Value], named: dict[str, Value]) -> Value:
    own = callee.attributes.get("__call__") or callee.attributes.get("forward")
    if type(own) is Inner:
        return f.reading.follow(f, own, args, named)
    if callee.made is None or class_has(callee.kind, "__call__") or class_has(callee.kind, "forward"):
        return methods.call_method(f, Attr(callee, "__call__"), args, named)
    return UNKNOWN


def _many(f: Frame, callee: Many, args: list[Value], named: dict[str, Value]) -> Value:
    return _any_of(f, callee, args, named)


def class_has(kind: type, name: str) -> bool:
    """Tell whether a class has a name, without asking its metaclass."""
    try:
        class_attribute(kind, name)
    except KeyError:
        return False
    return True


def _any_of(f: Frame, callees: Many, args: list[Value], named: dict[str, Value]) -> Value:
    """A call of one of several: a hit where all of them are."""
    before, start = f.hit, len(f.found)
    hits, given = [], None
    for one in callees.values:
        f.hit = False
        got = call(f, one, args, named)
        given = got if given is None else either(given, got)
        hits.append(f.hit)
    hit = any(hits) if callees.in_turn else all(hits)
    if not hit:
        f.found[start:] = weakened(f.found[start:])
    f.hit = before or hit
    return given


def hand_on(f: Frame, args: Sequence[Value], named: Mapping[str, Value], calls_them: bool = True) -> None:
    """Note what it says to hand values to something that is not known: functions are taken to be called by it."""
    for value in [*args, *named.values()] if named else args:
        kind = type(value)
        if kind is Name:
            _handed(f, value)
        elif kind is Inner or (kind is Known and type(value.value) is FunctionType):
            if calls_them:
                f.reading.follow(f, value, [], {})
        elif kind is Attr and type(value.base) is Instance and calls_them:
            methods.call_method(f, value, [], {})
        elif kind is Known and place_of(value) == GPU and value.value in ("cuda",):
            f.say(0.4, f"{value.value!r} is an argument")
        elif kind is Items:
            hand_on(f, value.values[:16], {}, calls_them)
        elif is_mapping(value):
            graph = [v for v in pairs_of(value).values() if type(v) is Items]  # tuples of functions and arguments
            hand_on(f, graph[:16], {}, calls_them)
        elif kind is Many:
            _any_of(f, value, [], {}) if any(type(v) in (Name, Inner) for v in value.values) else None


def not_followed(f: Frame, func: FunctionType, args: Sequence[Value], named: Mapping[str, Value]) -> None:
    """Note what it says to call a function that is not looked into."""
    hand_on(f, args, named)
    if methods.records(func.__name__) or is_own(func, f.globals.module) or is_standard(func):
        return
    methods.calls_objects(f, [*args, *named.values()])
    said = device_said((), named)
    if said is not None and said[0] == GPU:
        f.say(0.85, f"{func.__name__}({said[1]})")


def _handed(f: Frame, value: Name) -> None:
    means, leaf = meaning(value.path), value.path.rpartition(".")[2]
    if means == BRINGS_BACK:
        f.say(0.8, value.path, DOWNLOAD)
    elif means == DEVICE:
        plainly = leaf[:1].islower() and leaf != "ndarray" and root_of(value.path) != leaf
        f.say(0.9 if plainly else 0.3, value.path)
    elif means == MAY and leaf.isupper() and "CUDA" in leaf:  # cv2.dnn.DNN_TARGET_CUDA
        f.say(0.9, value.path)


def _library(f: Frame, callee: Name, args: list[Value], named: dict[str, Value]) -> Value:
    path = callee.path
    means = meaning(path)
    if means == DEVICE:
        f.say(0.95, path)
        return Made(path, path, said=True)
    if means == MAY:
        return _may(f, path, args, named)
    if means == UNLESS_HOST:
        said = device_said(args, named, positional=True)
        if said is None or said[0] in (GPU, SOME):
            f.say(0.85, path)
            return Made(path, path, said=True)
        if said[0] != CPU:
            f.say(0.3, f"{path}({said[1]})")
        return Made(path)
    if means == CHECKS:
        return Test(False, None)
    if means == ASKS:
        return Test(True, False)
    if means == FOLLOWS_INPUT:
        f.say(0.3, path)
        return UNKNOWN
    if means == BRINGS_BACK:
        f.say(0.8, path, DOWNLOAD)
    return Made(path) if means != NOTHING else UNKNOWN


def _may(f: Frame, path: str, args: list[Value], named: dict[str, Value]) -> Value:
    root = root_of(path)
    numbers = root in ("torch", "transformers", "ultralytics")
    if path in ("torch.device", "torch.types.device"):
        return _device(args, named)
    if path.endswith("set_visible_devices") and args and type(args[0]) in (Items, Known) and not several(args[0]):
        return UNKNOWN  # it hides them all
    said = device_said(args, named, positional=True, numbers=numbers)
    if said is not None and said[0] == GPU:
        f.say(0.9, f"{path}({said[1]})")
        return Made(path, path, said=True)
    if said is not None and said[0] == SOME:
        f.say(0.4, f"{path}({said[1]})")
    elif said is None and root not in _SILENT:
        f.reading.mention(f, root)
    elif said is not None and said[0] == OPEN:
        f.say(0.3, f"{path}({said[1]})")
    hand_on(f, [a for a in args if type(a) is not Known], {k: v for k, v in named.items() if type(v) is not Known})
    if len(args) == 1 and type(args[0]) in (Inner, Known) and path.rpartition(".")[2] in _DECORATORS:
        return args[0]
    return Made(path)


_DECORATORS: Final = words("jit njit vmap pmap grad compile no_grad inference_mode checkpoint")


def _device(args: list[Value], named: dict[str, Value]) -> Value:
    """``torch.device(...)``: what it names is known by the name of it."""
    given = args[0] if args else named.get("type", named.get("device", UNKNOWN))
    place = place_of(given, numbers=True)
    return Known("cuda") if place == GPU else Known("cpu") if place == CPU else given


_PLAIN_CALLABLES: Final = frozenset({type, BuiltinFunctionType, FunctionType})


def _object(f: Frame, callee: Known, args: list[Value], named: dict[str, Value]) -> Value:
    obj = callee.value
    special = BUILT_IN.get(obj) if type(obj) in _PLAIN_CALLABLES else None
    if special is not None:
        return special(f, args, named)
    if type(obj) is FunctionType:
        for value in [*args, *named.values()]:
            if type(value) is Name:
                _handed(f, value)
        return f.reading.follow(f, callee, args, named)
    if isinstance(obj, type):
        _configures(f, obj, args)
        return _class(f, obj, args, named)
    hand_on(f, args, named)
    return UNKNOWN


def _class(f: Frame, kind: type, args: list[Value], named: dict[str, Value]) -> Value:
    if root_of(kind.__module__) in ("builtins", "collections", "functools") or kind.__module__ in LIBRARIES_OF_ARRAYS:
        hand_on(f, args, named)
        return UNKNOWN
    made = Instance(kind)
    try:
        init = class_attribute(kind, "__init__")
    except KeyError:  # pragma: no cover - every class has one
        return made
    if type(init) is FunctionType:
        f.reading.follow(f, Known(init), [made, *args], named)
    if kind.__module__ == "ctypes":
        methods.loads_library(f, args)
    if not is_installed(kind):
        return made
    given = [*args, *named.values()]
    methods.calls_objects(f, given)
    held = device_in(Items(given))
    return Made(kind.__name__, f"a {kind.__name__} with {held}", said=True) if held else made


def _configures(f: Frame, obj: type, args: Sequence[Value]) -> None:
    """``dask.config.set({"array.backend": "cupy"})``."""
    if obj.__module__ == "dask.config":
        said = device_said(args, {}, positional=True)
        if said is not None and said[0] == GPU:
            f.say(0.85, f"{obj.__module__}.{obj.__name__}({said[1]})")


_Handler: TypeAlias = Callable[[Frame, Any, list[Value], dict[str, Value]], Value]
_CALLS: Final[dict[type, _Handler]] = {
    Name: _library,
    Attr: methods.call_method,
    Known: _object,
    Inner: _inner,
    InnerClass: _inner_class,
    Instance: _instance,
    Many: _many,
}
