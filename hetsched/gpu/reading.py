"""Read functions, and those they call: binds arguments, follows calls to a depth, keeps to a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Final

from hetsched.core.evidence import Evidence

from . import attributes, calls, on_names, on_values, on_ways, sources
from .bytecode import Frame, Looks, Result
from .libraries import DEVICE, meaning
from .resolve import Globals, class_attribute, is_own, value_of
from .values import UNKNOWN, Attr, Inner, Input, Instance, Items, Known, Made, Pairs, Value

__all__ = ["DEPTH", "Reading", "forget_functions"]

DEPTH: Final = 2
"""How many calls deep a person's own functions are followed, if nothing else is said."""
_MOST_INSTRUCTIONS: Final = 5_000
_MOST_READ: Final = 10_000
_USES: Final = "uses"
_NONE: Final[dict[str, Value]] = {}
_NOTHING_TO_DO = compile("", "nothing", "exec")
_ = on_names, on_values, on_ways  # which fill the table that frames are read by


_DULL: Final = frozenset({type(UNKNOWN), Input, Attr})
_read_before: dict[tuple[int, int, int, int], tuple[CodeType, Result]] = {}
"""What reading functions gave whose arguments are not known, by code (which is kept), globals, and how deep to go."""


def forget_functions() -> None:
    """Forget what functions gave that were read on the way to others."""
    _read_before.clear()


class _NoGlobals:
    module = ""

    def look(self, name: str) -> Value:
        return UNKNOWN


class Reading:
    """One look at a callable and what it calls; ``depth`` is how many calls deep functions are followed."""

    __slots__ = ("_active", "_cuts", "_init_made", "_wide", "budget", "depth")

    call = staticmethod(calls.call)
    attribute = staticmethod(attributes.attribute)
    hand_on = staticmethod(calls.hand_on)

    def __init__(self, depth: int = DEPTH) -> None:
        self.budget = _MOST_INSTRUCTIONS
        self.depth = depth
        self._active: set[int] = set()
        self._cuts = 0  # calls that were not followed since they are being read: what was found is less than all
        self._wide: dict[int, Globals] = {}
        self._init_made: dict[type, dict[str, Value]] = {}

    def outermost(self) -> Frame:
        """A frame to call things from, as nobody's code."""
        return Frame(self, _NOTHING_TO_DO, _NoGlobals(), {}, 0)

    def mention(self, f: Frame, root: str) -> None:
        """Note that a library is used at all, which says little."""
        f.say(0.3 if meaning(f"{root}.x") == DEVICE else 0.2, f"{_USES} {root}")

    def follows(self, f: Frame, callee: Known) -> bool:
        """Whether a function would be followed from here."""
        return callee.free or (f.depth < self.depth and is_own(callee.value, f.globals.module))

    def follow(self, f: Frame, callee: Value, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """Read a function that is called here; returns what it returns."""
        if type(callee) is Inner:
            if callee.bound is not None:
                args = [callee.bound, *args]
            slots = _bound(callee.code, args, named, callee.defaults, callee.keywords)
            slots.update(zip(callee.code.co_freevars, callee.cells, strict=False))
            result = self._read(callee.code, callee.wide.globals, slots, f.depth)
        elif self.follows(f, callee):
            result = self._read_function(callee.value, args, named, f.depth + (not callee.free))
        else:
            calls.not_followed(f, callee.value, args, named)
            return UNKNOWN
        if result.found:
            by = "" if type(callee) is Inner or callee.free else f", in {callee.value.__code__.co_name}"
            f.found.extend(_through(e, by) for e in result.found)
            f.hit = f.hit or result.hit
        return result.returned

    def _read_function(
        self, func: FunctionType, args: Sequence[Value], named: Mapping[str, Value], depth: int
    ) -> Result:
        code = func.__code__
        dull = func.__closure__ is None and not named and all(type(arg) in _DULL for arg in args)
        key = id(code), id(func.__globals__), len(args), self.depth - depth
        if dull and key in _read_before:
            return _read_before[key][1]
        given, only = func.__defaults__, func.__kwdefaults__
        defaults = [value_of(v) for v in given] if given else ()
        keywords = {k: value_of(v) for k, v in only.items()} if only else _NONE
        slots = _bound(code, args, named, defaults, keywords)
        if func.__closure__ is not None:
            slots.update(_cells(func))
        cuts = self._cuts
        result = self._read(code, self._globals(func), slots, depth)
        if dull and cuts == self._cuts and self.budget >= 0 and not (given or only):
            if len(_read_before) > _MOST_READ:
                _read_before.clear()
            _read_before[key] = code, result
        return result

    def _read(self, code: CodeType, wide: Looks, slots: dict[str, Value], depth: int) -> Result:
        number = id(code)
        if number in self._active:
            self._cuts += 1
            return Result(False, [], UNKNOWN)
        self._active.add(number)
        try:
            return Frame(self, code, wide, slots, depth).read()
        finally:
            self._active.discard(number)

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


def _through(evidence: Evidence, by: str) -> Evidence:
    """Evidence of a function that was called, with the name of that function; that a library is used needs none."""
    if not by or evidence.detail.startswith(_USES):
        return evidence
    return Evidence(evidence.kind, evidence.weight, evidence.detail + by)


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
