"""What the call of a method says, of an object of which little is known:

`.cuda()`, `.to("cuda")`, `.get()`, `kernel[grid]()`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, TypeAlias

from hetsched.core.evidence import DOWNLOAD

from .arguments import CPU, GPU, OPEN, SOME, device_said, is_empty, is_mapping, pairs_of, place_of
from .bytecode import Frame
from .held import CALLED, CLOSED, callables_in, callables_within, device_in, is_installed
from .libraries import DEVICE, ROOTS, meaning, names_device, root_of, words
from .resolve import class_attribute, is_own, unwrapped
from .values import UNKNOWN, Attr, Inner, Input, Instance, Items, Known, Made, Name, Pairs, Test, Value

__all__ = ["call_method", "calls_objects", "loads_library", "records"]

_BACK: Final = {"copy_to_host": 0.8, "get": 0.3, "cpu": 0.3, "to_pandas": 0.2, "asnumpy": 0.3, "to_cpu": 0.3}
_TO_DEVICE: Final = frozenset({"cuda", "to_gpu"})
_RECORDS: Final = words(
    """
    add add_argument append assert_called_with assign bind count create critical debug dump dumps emit endswith error
    exception extra filter filter_by find format format_map get index info insert isin isoformat join json labels log
    log_param log_params merge post print put query record rename replace request select set_attribute set_tag
    setdefault split startswith strip tag track update warn warning write writerow
    """
)
"""Methods that write their arguments down or compare them."""
_LIBRARY_FILE: Final = re.compile(
    r"lib(cuda|cudart|cublas|cufft|cusolver|cusparse|curand|nvrtc|cudnn|nccl)\b|nvcuda\.dll"
)


def call_method(f: Frame, callee: Attr, args: list[Value], named: dict[str, Value]) -> Value:
    """Note what the call of an attribute says; returns what it gives."""
    base, name = callee.base, callee.name
    obj = base.made if type(base) is Instance else base.value if type(base) is Known else None
    if obj is not None and type(obj) not in CLOSED and is_installed(type(obj)):
        _calls_held(f, obj)
    elif obj is None and type(base) is Instance and is_installed(base.kind):
        f.reading.hand_on(f, callables_within(base)[:8], {})
    if type(base) is Instance:
        found = _own_method(f, base, name, args, named)
        if found is not None:
            return found
    if name == "[]":
        return _launched(f, base, args, named)
    if type(base) is Pairs or type(base) is Known:
        return _of_constant(f, base, name, args, named)
    if type(base) is Made and base.device and name not in _BACK:
        return base
    return _of_other(f, base, name, args, named)


def _of_other(f: Frame, base: Value, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    """A method of what is not known, by its name."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(f, base, args, named)
    if name in _TO_DEVICE:
        f.say(0.95, f".{name}()")
        return Made(f".{name}", name, said=True)
    if name in _BACK:
        return _brought_back(f, base, name, args)
    return _any_method(f, base, name, args, named)


def _of_pairs(f: Frame, base: Value, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    """A method of a dict."""
    pairs = pairs_of(base)
    if name == "update" and type(base) is Pairs:
        base.values.update({**(pairs_of(args[0]) if args else {}), **named})
    elif name == "get" and is_empty(base):
        return args[1] if len(args) > 1 else Known(None)
    elif name in ("get", "pop", "setdefault") and args and type(args[0]) is Known:
        return f.uses(pairs.get(args[0].value, args[1] if len(args) > 1 else Known(None)))
    elif name == "values":
        return Items(pairs.values())
    elif name == "items":
        return Items(Items([Known(key), value]) for key, value in pairs.items())
    return UNKNOWN


def _calls_held(f: Frame, obj: Any) -> None:
    """Note what functions and persons' objects say that an object of a library holds: it is taken to call them."""
    for one in callables_in(obj)[:8]:
        if type(one) is FunctionType:
            f.reading.hand_on(f, [Known(one)], {})
        else:
            calls_objects(f, [Instance(type(one), one)])


def calls_objects(f: Frame, values: Sequence[Value], depth: int = 4) -> None:
    """Note what objects of persons' classes say that are handed to a library, which calls them."""
    for value in values[:16]:
        if type(value) is Items and depth:
            calls_objects(f, value.values, depth - 1)
        elif type(value) is Instance and not is_installed(value.kind):
            for name in CALLED:
                inner = value.attributes.get(name)
                if type(inner) is Inner:
                    f.reading.follow(f, inner, [], {})
                elif _has_own(f, value.kind, name):
                    call_method(f, Attr(value, name), [], {})


def _has_own(f: Frame, kind: type, name: str) -> bool:
    """Whether a class has a method that is a person's."""
    try:
        method = class_attribute(kind, name)
    except KeyError:
        return False
    return type(method) is FunctionType and is_own(method, f.globals.module)


def _own_method(f: Frame, base: Instance, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    """A method of the person's class; None where it is not one."""
    if name == "__call__":
        name = _run_by_call(base.kind)
    try:
        found: Any = class_attribute(base.kind, name)
    except KeyError:
        return None
    given: list[Value] = [base, *args]
    if isinstance(found, staticmethod):
        found, given = found.__func__, args
    elif isinstance(found, classmethod):
        found, given = found.__func__, [Known(base.kind), *args]
    if type(found) is not FunctionType or root_of(str(found.__module__)) in ROOTS:
        return None
    found = unwrapped(found)
    return f.reading.follow(f, Known(found, free=is_own(found, f.globals.module)), given, named)


def _run_by_call(kind: type) -> str:
    """What is run when an object is called: of torch's modules, and layers of Keras, it is a method of another name."""
    bases = kind.__mro__
    if any(root_of(str(base.__module__)) in ROOTS for base in bases):
        for name in ("forward", "call"):
            if any(name in vars(base) for base in bases if root_of(str(base.__module__)) not in ROOTS):
                return name
    return "__call__" if any("__call__" in vars(base) for base in bases) else "forward"


def _launched(f: Frame, base: Value, args: list[Value], named: dict[str, Value]) -> Value:
    """``kernel[grid, block](...)``. No function can be indexed, so what looks like one is a kernel."""
    if type(base) is Inner or (type(base) is Known and type(base.value) is FunctionType):
        f.say(0.85, "the launch of a kernel")
    elif type(base) is Name and meaning(base.path) == DEVICE:
        f.say(0.9, base.path)
    f.reading.hand_on(f, args, named)
    return UNKNOWN


def _of_constant(f: Frame, base: Any, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    if is_mapping(base):
        return _of_pairs(f, base, name, args, named)
    f.reading.hand_on(f, args, named)
    value = base.value
    if type(value) is str:
        if name in ("format", "lower", "strip", "format_map"):
            return base
        if name == "startswith" and args and type(args[0]) is Known:
            return Known(value.startswith(args[0].value)) if type(args[0].value) is str else UNKNOWN
    return UNKNOWN


def _brought_back(f: Frame, base: Value, name: str, args: list[Value]) -> Value:
    if args and name == "get":  # of a dict
        return UNKNOWN
    if not (type(base) is Made and base.device):
        f.say(_BACK[name], f".{name}()", DOWNLOAD)
    return UNKNOWN


def records(name: str) -> bool:
    """Tell whether methods of this name write their arguments down or compare them."""
    return name in _RECORDS


def _any_method(f: Frame, base: Value, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    if records(name):
        return UNKNOWN
    f.reading.hand_on(f, args, named)
    held = device_in(Items([*args, *named.values()])) if name[:1].isupper() or name.startswith("make_") else ""
    if held:
        return Made(name, f"a {name} with {held}", said=True)
    library = type(base) is Made and root_of(base.of) in ROOTS
    said = device_said(args, named, positional=library, numbers=library)
    if said is not None and said[0] == GPU:
        f.say(0.85, f".{name}({said[1]})")
        return Made(f".{name}", name, said=True)
    if said is not None and said[0] in (SOME, OPEN):
        f.say(0.4 if said[0] == SOME else 0.3, f".{name}({said[1]})")
    if type(base) is Attr and base.name == "cuda" and name[:1].islower() and not name.startswith(("is_", "get")):
        f.say(0.4, f".cuda.{name}")
    return Made(base.of) if type(base) is Made else Attr(base, name) if type(base) in (Input, Attr) else UNKNOWN


def _to(f: Frame, base: Value, args: list[Value], named: dict[str, Value]) -> Value:
    given = named.get("device", args[0] if args else UNKNOWN)
    place = place_of(given, numbers=True)
    if place == GPU:
        f.say(0.95, f".to({_shown(given)})")
        return Made(".to", ".to", said=True)
    if place in (SOME, OPEN):
        f.say(0.4 if place == SOME else 0.3, ".to(...)")
    elif place == CPU:
        return UNKNOWN
    return base


def _shown(value: Value) -> str:
    return repr(value.value) if type(value) is Known else "a device"


def _to_backend(f: Frame, base: Value, args: list[Value], named: dict[str, Value]) -> Value:
    given = named.get("backend", args[0] if args else UNKNOWN)
    if type(given) is Known and type(given.value) is str and given.value in ("cupy", "cudf"):
        f.say(0.9, f".to_backend({given.value!r})")
    return UNKNOWN


def _type(f: Frame, base: Value, args: list[Value], named: dict[str, Value]) -> Value:
    given = args[0] if args else UNKNOWN
    if (type(given) is Known and str(given.value).startswith("torch.cuda")) or (
        type(given) is Name and given.path.startswith("torch.cuda")
    ):
        f.say(0.9, ".type(torch.cuda...)")
    return UNKNOWN


def _starts_with(f: Frame, base: Value, args: list[Value], named: dict[str, Value]) -> Value:
    given = args[0].value if args and type(args[0]) is Known else None
    return Test(True, False) if type(given) is str and (names_device(given) or given in ROOTS) else UNKNOWN


def _pinned(f: Frame, base: Value, args: list[Value], named: dict[str, Value]) -> Value:
    f.say(0.3, ".pin_memory()")
    return base


def _parameters(f: Frame, base: Value, args: list[Value], named: dict[str, Value]) -> Value:
    if len(args) == 2 and type(args[0]) is Known and type(args[0].value) is str:
        named, args = {args[0].value: args[1]}, []
    said = device_said(args, named, positional=True)
    if said is not None and said[0] == GPU:
        f.say(0.85, f"set_params({said[1]})")
    return base


_Special: TypeAlias = Callable[[Frame, Value, list[Value], dict[str, Value]], Value]
_SPECIAL: Final[dict[str, _Special]] = {
    "to": _to,
    "to_backend": _to_backend,
    "type": _type,
    "startswith": _starts_with,
    "pin_memory": _pinned,
    "set_params": _parameters,
    "set_param": _parameters,
    "set_providers": _parameters,
}


def loads_library(f: Frame, args: list[Value]) -> None:
    """Note what it says to load a library of machine code by its name."""
    for value in args[:1]:
        if type(value) is Known and type(value.value) is str and _LIBRARY_FILE.search(value.value):
            f.say(0.85, value.value)
