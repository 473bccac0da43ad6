"""The vocabulary of annotations: what each name means, which values it takes, what fusing two tasks makes of it.

All of it reads one table, :data:`VOCABULARY`; the table in the documentation is generated from it. Names that are not
in it belong to plugins: their values are carried as they are, never compared (plain numbers, strings and tuples of
those aside), hashed, copied or shown, unless a library said what to do with them
(:func:`hetsched.annotations.register`). In the order a graph goes through them::

    validate(annotations)       where a person writes them: bad values are errors there
    combine(outer, inner)       several places speak of one task: the inner one wins, name by name
    merge(first, then)          two tasks become one: joined by the table, or None, "do not fuse these"

One law rules ``merge``: fusing must not put an annotation on a function that was not given it. So a name that only
one of the two tasks has keeps them apart, unless it merely describes (``nbytes``, ``duration``, ``provenance``).
"""

from __future__ import annotations

import difflib
import operator
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

from hetsched.errors import AnnotationError

from .rules import ABSENT, REFUSED, REGISTERED, Join, Rule

__all__ = [
    "EXECUTORS", "VOCABULARY", "Executor", "combine", "executor_of", "merge", "resolve", "validate", "varies",
]  # fmt: skip

Annotations: TypeAlias = dict[str, object]
Executor: TypeAlias = Literal["cpu", "gpu", "io", "process"]
EXECUTORS: Final[tuple[Executor, ...]] = get_args(Executor)

PRIORITY_LIMIT: Final = 1_000_000
WHOLE_LIMIT: Final = 2**63 - 1  # what the wire carries
_PLAIN: Final = frozenset({str, int, float, complex, bool, bytes, type(None)})


def _word(value: object) -> str:  # this and the next bring a value to its one normal form
    if not isinstance(value, str) or not value:
        raise TypeError
    return str.__str__(value)  # the text itself, also of an Enum or a numpy string


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_word(value),)
    if isinstance(value, (set, frozenset)):
        value = sorted(map(_word, value))
    if not isinstance(value, (list, tuple)) or not value:
        raise TypeError
    return tuple(dict.fromkeys(map(_word, value)))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _number(value: object, low: float = 0, high: float = sys.float_info.max) -> int | float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    number = operator.index(value) if isinstance(value, Integral) else float(value)
    if not low <= number <= high:  # nan is refused here too
        raise ValueError
    return number


def _whole(value: Any, low: int = 0) -> int:  # index() is the one to refuse
    number = operator.index(value)
    if isinstance(value, bool) or not low <= number <= WHOLE_LIMIT:
        raise ValueError
    return number


def _resources(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise TypeError
    return {_word(name): float(_number(amount)) for name, amount in value.items()}


def _executor(value: object) -> str:
    if (word := _word(value)) not in EXECUTORS:
        raise ValueError
    return word


def _both(join: Join) -> Join:
    """The join (of two values to what the fused task gets), refused where only one of the two has a value."""
    return lambda first, then: REFUSED if first is ABSENT or then is ABSENT else join(first, then)


def _equal(first: object, then: object) -> object:
    return first if first == then else REFUSED


def _common(first: object, then: object) -> object:
    """Of names: those that both have. A single name, or None, stays what it is."""
    if not isinstance(first, tuple):
        return first if first == then or (isinstance(then, tuple) and first in then) else REFUSED
    if not isinstance(then, tuple):
        return then if then in first else REFUSED
    return tuple(name for name in first if name in then) or REFUSED


def _amounts(first: Mapping[str, float], then: Mapping[str, float]) -> object:
    """Of resources: the larger amounts. Refused where they differ in kind: no worker may have all of them."""
    if {name for name in first if first[name]} != {name for name in then if then[name]}:
        return REFUSED
    return {name: max(first.get(name, 0.0), then.get(name, 0.0)) for name in {**first, **then}}


def _sum(first: Any, then: Any) -> object:  # two floats, or ABSENT
    return ABSENT if first is ABSENT or then is ABSENT else min(first + then, sys.float_info.max)


_COUNT = "a whole number, {} or more"
_SAME = "equal on both, or not fused"
_SHARED = "those on both; not fused where one has none or none is left"
_LARGER = "the larger; not fused where only one has it"
_KINDS = ", ".join(map(repr, EXECUTORS[:-1])) + f" or {EXECUTORS[-1]!r}"

# fmt: off
VOCABULARY: Final[Mapping[str, Rule]] = MappingProxyType({
    "workers": Rule("the workers that may run it", "a worker's name or address, or a list of them",
                    _SHARED, _words, _both(_common)),
    "allow_other_workers": Rule("`workers` is only a wish: others may run it too", "True or False",
                                "True where both are True; not fused where only one has it",
                                _flag, _both(min)),
    "pool": Rule("the pool, or pools, whose workers may run it",
                 "a pool's name, a list of names, or None (it takes no pool over from its neighbours)",
                 _SHARED,
                 lambda value: value if value is None else (_word if isinstance(value, str) else _words)(value),
                 _both(_common)),
    "resources": Rule("what it takes of its worker while it runs",
                      "a dict from the resource's name to a finite number, 0 or more",
                      "the larger amounts; not fused where they differ in kind", _resources, _both(_amounts)),
    "priority": Rule("higher goes first", f"a number from -{PRIORITY_LIMIT:,} to {PRIORITY_LIMIT:,}",
                     _LARGER, lambda value: _number(value, -PRIORITY_LIMIT, PRIORITY_LIMIT), _both(max)),
    "retries": Rule("how often it is tried again after an error", _COUNT.format(0), _LARGER, _whole, _both(max)),
    "executor": Rule("which of its worker's executors runs it", _KINDS, _SAME, _executor, _both(_equal)),
    "gpu": Rule("whether it is a GPU task, whatever detection says", "True or False", _SAME, _flag, _both(_equal)),
    "nbytes": Rule("a hint: the bytes of its result", _COUNT.format(0), "that of the last, if it has one",
                   _whole, lambda _first, then: then),
    "duration": Rule("a hint: the seconds it takes", "a finite number of seconds, 0 or more",
                     "the sum; dropped where one is unknown", lambda value: float(_number(value)), _sum),
    "replicate": Rule("how many workers shall hold its result", _COUNT.format(1) + ", or 'all'", _SAME,
                      lambda value: "all" if isinstance(value, str) and value == "all" else _whole(value, 1),
                      _both(_equal)),
    "job": Rule("the group of tasks a person cares about", "a name", _SAME, _word, _both(_equal)),
    "provenance": Rule("the file, line and function that built it", "a text that is not empty", "the last one",
                       _word, lambda first, then: first if then is ABSENT else then),
})
# fmt: on


def validate(annotations: Mapping[str, object], *, per_key: bool = False) -> Annotations:
    """Check the known names and bring their values to normal form; unknown names are kept, untouched.

    With ``per_key`` a callable is left as it is: :func:`resolve` calls it with each task's key.
    """
    return _validated(annotations, per_key, "")


def varies(annotations: Mapping[str, object]) -> bool:
    """Whether some value is a callable, so that each key has its own annotations, by :func:`resolve`."""
    return any(map(callable, annotations.values()))


def resolve(annotations: Mapping[str, object], key: object) -> Annotations:
    """The annotations of one key: callables are called with it, as dask does, then all is validated."""
    called = {name: value(key) if callable(value) else value for name, value in annotations.items()}
    return _validated(called, False, f" of the task {_shown(key)}")


def combine(outer: Annotations, inner: Annotations) -> Annotations:
    """Annotations given in two places for the same task: the inner ones win, name by name.

    ``executor``, ``gpu`` and ``resources["GPU"]`` answer one question together. Where the inner ones answer it, outer
    ones that contradict them are put right: ``gpu=True`` around ``executor="cpu"`` becomes ``gpu=False``.
    """
    if not inner or not outer:
        return inner or outer
    both = {**outer, **inner}
    wanted = next((gpu for _, gpu in _verdicts(inner) if gpu is not None), None)
    for name, gpu in _verdicts(outer):
        if wanted is None or gpu is wanted or name in inner or (gpu is None and not wanted):
            continue
        resources = outer[name]
        if isinstance(resources, dict):
            both[name] = {kind: amount for kind, amount in resources.items() if kind != "GPU"}
        else:
            both[name] = wanted if name == "gpu" else "gpu" if wanted else "cpu"
    return both


def merge(first: Annotations, then: Annotations) -> Annotations | None:
    """The annotations of ``first`` and ``then`` fused into one task, or None where they must not be fused.

    Both are as :func:`validate` returns them. Constant time, and no new dict, where they are one and the same dict
    or both empty. (``duration`` is the exception: the same one twice is twice as long.)
    """
    if (first is then and "duration" not in first) or not (first or then):
        return first
    merged: Annotations = {}
    for name in {**first, **then}:
        rule = VOCABULARY.get(name) or REGISTERED.get(name)
        join = rule.join if rule is not None and rule.join is not None else _unknown
        value = join(first.get(name, ABSENT), then.get(name, ABSENT))
        if value is REFUSED:
            return None
        if value is not ABSENT:
            merged[name] = value
    return merged


def executor_of(annotations: Mapping[str, object]) -> Executor:
    """The executor that validated annotations ask for; "cpu" where they say nothing."""
    if not annotations:
        return "cpu"
    executor = annotations.get("executor")
    if executor is not None:
        return executor  # type: ignore[return-value]  # validated
    gpu, resources = annotations.get("gpu"), annotations.get("resources")
    if gpu is None and isinstance(resources, dict):
        gpu = resources.get("GPU")
    return "gpu" if gpu else "cpu"


def _validated(annotations: Mapping[str, object], per_key: bool, of: str) -> Annotations:
    if not isinstance(annotations, Mapping):
        raise AnnotationError(f"the annotations{of} must be a mapping from name to value, not {_shown(annotations)}")
    checked = dict(annotations)
    for name, value in annotations.items():
        rule = VOCABULARY.get(name) or REGISTERED.get(name)
        if rule is None or (per_key and callable(value)):
            continue
        try:
            checked[name] = rule.normalise(value)
        except (TypeError, ValueError, OverflowError) as error:
            given = _shown(value)
            near = difflib.get_close_matches(given.strip("'").lower(), EXECUTORS, n=1) if name == "executor" else []
            text = f"the annotation {name}={given}{of} is not allowed"
            text += f": it takes {rule.allowed}" if rule.allowed else f": {error}" if str(error) else ""
            raise AnnotationError(text + "".join(f"; did you mean {word!r}?" for word in near)) from None
    verdicts = [(name, gpu) for name, gpu in _verdicts(checked) if gpu is not None]
    for (one, gpu), (other, against) in pairwise(verdicts):
        if gpu is not against:
            pair = f"{one}={_shown(checked[one])} and {other}={_shown(checked[other])}{of}"
            raise AnnotationError(f"the annotations {pair} contradict each other: leave one of them out")
    return checked


def _verdicts(annotations: Mapping[str, object]) -> Iterator[tuple[str, bool | None]]:
    """Each name that says whether this is for the GPU, and what it says; None: for some other place of its own."""
    executor, gpu, resources = map(annotations.get, ("executor", "gpu", "resources"))
    if isinstance(executor, str):
        yield "executor", {"gpu": True, "cpu": False}.get(executor)
    if isinstance(gpu, bool):
        yield "gpu", gpu
    if isinstance(resources, dict) and resources.get("GPU"):
        yield "resources", True


def _unknown(first: object, then: object) -> object:
    """The join of names that nobody here knows: the same value on both sides, or refused."""
    pairs: list[tuple[object, object]] = [(first, then)]
    if type(first) is tuple and type(then) is tuple and len(first) == len(then):
        pairs = list(zip(first, then, strict=True))
    alike = all(a is b or (type(a) is type(b) and type(a) in _PLAIN and a == b) for a, b in pairs)
    return first if alike else REFUSED


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # a repr is code of the user's
        text = f"<{type(value).__name__}, whose repr fails>"
    return text if len(text) <= 200 else f"{text[:200]}..."
