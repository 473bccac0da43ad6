"""Follow a code object's instructions with what is known of values, in one pass from first to last, without running it.

Every jump forward meets the other ways at its target, where what is known is merged; a jump back ends a loop, whose
body is taken to have run. Handlers of exceptions are not followed: they are not the way that code takes. A function's
*hit* is whether each way through it that ends in a return uses a device.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Final, NamedTuple, Protocol

from hetsched.core.evidence import CODE, STRONG, WEAK, Evidence

from .values import UNKNOWN, Made, Value, either

__all__ = ["HANDLERS", "Frame", "Looks", "Result", "handles", "weakened"]

_WAYS_WEIGHT: Final = 0.4
"""What strong evidence weighs that is met on some of the ways through a function only."""


class Looks(Protocol):
    """Where global names are looked up."""

    module: str

    def look(self, name: str) -> Value:
        """What a name stands for."""
        ...


class Result(NamedTuple):
    """What reading a function gave: whether every way through it uses a device, what was found, what it returns."""

    hit: bool
    found: list[Evidence]
    returned: Value


def weakened(found: Sequence[Evidence], says: str = "on some ways only") -> list[Evidence]:
    """The same evidence as far as a function is not sure to come by it."""
    return [e if e.weight < WEAK else Evidence(e.kind, _WAYS_WEIGHT, f"{e.detail} ({says})") for e in found]


class _State(NamedTuple):
    stack: list[Value]
    slots: list[Value]
    hit: bool


class Frame:
    """One code object under way."""

    __slots__ = (
        "at", "code", "decided", "depth", "found", "globals", "heads", "hit", "joins", "keywords", "live", "loops",
        "names", "next", "raw", "reading", "returned", "returns", "slots", "stack", "stored",
    )  # fmt: skip

    def __init__(self, reading: Any, code: CodeType, wide: Looks, slots: dict[str, Value], depth: int) -> None:
        self.reading = reading
        self.code = code
        self.globals = wide
        self.depth = depth
        variables = code.co_varnames
        if code.co_cellvars:
            variables += tuple(name for name in code.co_cellvars if name not in variables)
        self.names = variables + code.co_freevars
        get = slots.get
        self.slots: list[Value] = [get(name, UNKNOWN) for name in self.names]
        self.stack: list[Value] = []
        self.stored: dict[str, Value] = {}  # by modules and classes
        self.hit = False
        self.decided = False  # whether some condition was about devices, and both ways lead on
        self.found: list[Evidence] = []
        self.live = True
        self.joins: dict[int, _State] = {}
        self.loops: dict[int, tuple[int, int]] = {}  # by head: where it ends, and how much was found before it
        self.keywords: tuple[str, ...] = ()
        self.raw = code.co_code
        self.at = self.next = 0
        self.heads: frozenset[int] | None = None
        self.returned: Value = None
        self.returns: bool | None = None  # whether all returns so far were hits

    def read(self) -> Result:
        """Go through the instructions; returns what they say."""
        raw, handlers, steps, joins = self.raw, HANDLERS, _STEPS, self.joins
        end, extended, at = len(raw), 0, 0
        reading = self.reading
        reading.budget -= end >> 1
        if reading.budget < 0:
            return Result(False, [], UNKNOWN)
        while at < end:
            if joins and at in joins:
                self._meet(joins.pop(at))
            op = raw[at]
            if op == _EXTENDED:
                extended = (extended | raw[at + 1]) << 8
                at += 2
                continue
            if self.live:
                arg = raw[at + 1] | extended
                self.at = at
                at += steps[op] or _step(raw, at)
                self.next = at
                handlers[op](self, arg)
            else:
                at += 2
            extended = 0
        if self.returns is None:  # it only raises, or yields for ever
            self.returns = self.hit
        hit = self.returns
        return Result(
            hit, self.found if hit else weakened(self.found), UNKNOWN if self.returned is None else self.returned
        )

    def _meet(self, other: _State) -> None:
        if not self.live:
            self.stack, self.slots, self.hit = list(other.stack), list(other.slots), other.hit
            self.live = True
            return
        mine = self.stack
        if len(mine) == len(other.stack):
            self.stack = [a if a is b else either(a, b) for a, b in zip(mine, other.stack, strict=True)]
        self.slots = [a if a is b else either(a, b) for a, b in zip(self.slots, other.slots, strict=True)]
        self.hit = self.hit and other.hit

    # What the handlers of instructions are made of.

    def push(self, value: Value) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Value:
        """Take the topmost value; where code was entered in its middle there may be none."""
        return self.stack.pop() if self.stack else UNKNOWN

    def pops(self, count: int) -> list[Value]:
        """Take several, the lowest first."""
        if not count:
            return []
        stack = self.stack
        if len(stack) < count:
            stack[:0] = [UNKNOWN] * (count - len(stack))
        taken = stack[-count:]
        del stack[-count:]
        return taken

    def goes(self, target: int, hit: bool) -> None:
        """Note that a way leads from here to an instruction further on."""
        if target <= self.at:
            return
        other = self.joins.get(target)
        state = _State(self.stack[:], self.slots[:], hit)
        if other is not None:
            stack = state.stack
            if len(stack) == len(other.stack):
                stack = [either(a, b) for a, b in zip(stack, other.stack, strict=True)]
            slots = [a if a is b else either(a, b) for a, b in zip(state.slots, other.slots, strict=True)]
            state = _State(stack, slots, hit and other.hit)
        self.joins[target] = state

    def loops_to(self, head: int) -> None:
        """Note that a way leads back to a loop's head: the loop may end now.

        What some turn of the loop does, the loop is taken to do, unless what an item lives on decides about it.
        """
        if head not in self.loops:
            if self.hit and not self.decided:  # `while True`, which is left from its middle in a later turn
                self.joins.update((at, way._replace(hit=True)) for at, way in self.joins.items() if at > self.at)
            return
        end, before = self.loops[head]
        self.goes(end, self.hit)
        if not self.decided and end in self.joins and any(e.weight >= STRONG for e in self.found[before:]):
            self.joins[end] = self.joins[end]._replace(hit=True)

    def gives(self, value: Value) -> None:
        """Note that a way ends here, and what it returns."""
        self.returned = value if self.returned is None else either(self.returned, value)
        self.returns = self.hit if self.returns is None else self.returns and self.hit
        self.live = False

    def uses(self, value: Value) -> Value:
        """Note that a value is used, which says something if it is on a device; returns it."""
        if type(value) is Made and value.device and not value.said:
            self.say(0.9, value.device)
        return value

    def say(self, weight: float, detail: str, kind: str = CODE) -> None:
        """Note evidence down."""
        self.found.append(Evidence(kind, weight, detail))
        if weight >= STRONG:
            self.hit = True


_STEPS = [0] * 256
"""How many bytes an instruction takes with the caches that follow it, by opcode; 0 for one not yet met."""


def _step(raw: bytes, at: int) -> int:
    end = at + 2
    while end < len(raw) and not raw[end]:  # the opcode of a cache is 0
        end += 2
    _STEPS[raw[at]] = end - at
    return end - at


Handler = Callable[[Frame, int], None]
_EXTENDED = dis.opmap["EXTENDED_ARG"]
_MOST_POPS = 100


def _unknown(op: int) -> Handler:
    """An instruction that says nothing: it leaves as many values as it should, and none is known."""
    takes_argument = op >= dis.HAVE_ARGUMENT

    def handle(frame: Frame, arg: int) -> None:
        try:
            effect = dis.stack_effect(op, arg if takes_argument else None, jump=False)
        except ValueError:
            return
        if effect > 0:
            frame.stack.extend([UNKNOWN] * min(effect, _MOST_POPS))
        elif effect < 0:
            frame.pops(min(-effect, _MOST_POPS))
        if frame.stack and effect <= 0:
            frame.stack[-1] = UNKNOWN

    return handle


HANDLERS: list[Handler] = [_unknown(op) for op in range(256)]
"""By opcode: what an instruction does."""


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Have a function handle the instructions of these names, as far as this version of Python has them."""

    def note(handler: Handler) -> Handler:
        for name in names:
            if dis.opmap.get(name, 256) < 256:  # above are names that only the compiler uses
                HANDLERS[dis.opmap[name]] = handler
        return handler

    return note
