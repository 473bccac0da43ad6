"""Read functions, and those they call: binds arguments, follows calls to a depth, keeps to a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Final

from hetsched.core.evidence import Evidence

from . import calls, on_names, on_values, on_ways, sources
from .bytecode import Frame, Looks
from .libraries import DEVICE, meaning
from .resolve import Globals, class_attribute, is_own, value_of
from .values import UNKNOWN, Inner, Input, Instance, Items, Known, Made, Pairs, Value

__all__ = ["DEPTH", "Reading"]

DEPTH: Final = 2
"""How many calls deep a person's own functions are followed, if nothing else is said."""
_MOST_INSTRUCTIONS = 20_000
_NOTHING_TO_DO = compile("", "nothing", "exec")
_ = on_names, on_values, on_ways  # which fill the table that frames are read by


class _NoGlobals:
    module = ""

    def look(self, name: str) -> Value:
        return UNKNOWN


class Reading:
    """One look at a callable and what it calls; ``depth`` is how many calls deep functions are followed."""

    __slots__ = ("_active", "_init_made", "_mentioned", "_wide", "budget", "depth")

    call = staticmethod(calls.call)
    attribute = staticmethod(calls.attribute)
    hand_on = staticmethod(calls.hand_on)

    def __init__(self, depth: int = DEPTH) -> None:
        self.budget = _MOST_INSTRUCTIONS
        self.depth = depth
        self._active: set[CodeType] = set()
        self._mentioned: set[str] = set()
        self._wide: dict[int, Globals] = {}
        self._init_made: dict[type, dict[str, Value]] = {}

    def outermost(self) -> Frame:
        """A frame to call things from, as nobody's code."""
        return Frame(self, _NOTHING_TO_DO, _NoGlobals(), {}, 0)

    def mention(self, f: Frame, root: str) -> None:
        """Note once that a library is used at all, which says little."""
        if root not in self._mentioned:
            self._mentioned.add(root)
            f.say(0.3 if meaning(f"{root}.x") == DEVICE else 0.2, f"uses {root}")

    def follows(self, f: Frame, callee: Known) -> bool:
        """Whether a function would be followed from here."""
        return callee.free or (f.depth < self.depth and is_own(callee.value, f.globals.module))

    def follow(self, f: Frame, callee: Value, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """Read a function that is called here; returns what it returns."""
        if type(callee) is Inner:
            code, depth = callee.code, f.depth
            wide: Looks = callee.wide.globals
            if callee.bound is not None:
                args = [callee.bound, *args]
            slots = _bound(code, args, named, callee.defaults, callee.keywords)
            slots.update(zip(code.co_freevars, callee.cells, strict=False))
        else:
            func: FunctionType = callee.value
            if not self.follows(f, callee):
                self.hand_on(f, args, named)
                return UNKNOWN
            code, depth = func.__code__, f.depth + (not callee.free)
            wide = self._globals(func)
            defaults = tuple(value_of(v) for v in func.__defaults__ or ())
            keywords = {k: value_of(v) for k, v in (func.__kwdefaults__ or {}).items()}
            slots = _bound(code, args, named, defaults, keywords)
            slots.update(_cells(func))
        if code in self._active:
            return UNKNOWN
        self._active.add(code)
        try:
            result = Frame(self, code, wide, slots, depth).read()
        finally:
            self._active.discard(code)
        through = f", in {code.co_name}" if depth != f.depth else ""
        f.found.extend(Evidence(e.kind, e.weight, e.detail + through) for e in result.found)
        f.hit = f.hit or (result.hit and bool(result.found))
        return result.returned

    def names_of(self, f: Frame, body: Inner) -> dict[str, Value]:
        """Read the body of a class; returns what its names are."""
        slots = dict(zip(body.code.co_freevars, body.cells, strict=False))
        frame = Frame(self, body.code, body.wide.globals, slots, f.depth)
        result = frame.read()
        f.found.extend(result.found)
        f.hit = f.hit or (result.hit and bool(result.found))
        return frame.stored

    def _globals(self, func: FunctionType) -> Globals:
        names = func.__globals__
        wide = self._wide.get(id(names))
        if wide is None:
            wide = self._wide[id(names)] = Globals(names)
        return wide

    def made_by_init(self, f: Frame, owner: Instance) -> dict[str, Value]:
        """What a class's ``__init__`` makes the attributes of its objects."""
        kind = owner.kind
        made = self._init_made.get(kind)
        if made is None:
            made = self._init_made[kind] = {}
            init: Any = None
            try:
                init = class_attribute(kind, "__init__")
            except KeyError:  # pragma: no cover - every class has one
                return made
            if type(init) is FunctionType and is_own(init, f.globals.module):
                stranger = Instance(kind)
                self.follow(self.outermost(), Known(init, free=True), [stranger], {})
                made.update({k: v for k, v in stranger.attributes.items() if type(v) is not Made or v.device})
                for name, value in made.items():
                    if type(value) is Made:
                        made[name] = Made(value.of, value.device)
        return made

    def as_made(self, f: Frame, owner: Instance, name: str, value: Instance) -> Value:
        """An attribute whose object does not tell: what ``__init__`` says it is, if that is something on a device."""
        if value.kind.__module__ == owner.kind.__module__ or "__getattr__" not in dir(value.kind):
            return value
        made = self.made_by_init(f, owner).get(name)
        return made if type(made) is Made else value


def _cells(func: FunctionType) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=False):
        try:
            found[name] = value_of(cell.cell_contents, name, free=True)
        except ValueError:  # not yet filled
            found[name] = UNKNOWN
    return found


def _bound(
    code: CodeType,
    args: Sequence[Value],
    named: Mapping[str, Value],
    defaults: Sequence[Value],
    keywords: Mapping[str, Value],
) -> dict[str, Value]:
    """What the names of a function's arguments are in a call; one that is not given is an :class:`Input`."""
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    slots: dict[str, Value] = {}
    first = count - len(defaults)
    for i, name in enumerate(names[:count]):
        if i < len(args):
            slots[name] = args[i]
        elif name in named:
            slots[name] = named[name]
        else:
            slots[name] = defaults[i - first] if i >= first else Input(name)
    for name in names[count : count + only]:
        slots[name] = named[name] if name in named else keywords.get(name) or Input(name)
    at = count + only
    if code.co_flags & 4:
        slots[names[at]] = Items(args[count:])
        at += 1
    if code.co_flags & 8:
        slots[names[at]] = Pairs({k: v for k, v in named.items() if k not in slots})
    return slots


def _read_text(text: str, file: str) -> dict[str, Value]:
    """What the names of a module are, by its text."""
    frame = Frame(Reading(), compile(text, file, "exec", dont_inherit=True), _NoGlobals(), {}, 0)
    frame.read()
    return frame.stored


sources.read_module.append(_read_text)
