"""Tasks with Futures among their arguments do the same when the Futures have become inputs."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsched.client.futures import Future
from hetsched.client.joining import Joined, fill, futures_in, join
from hetsched.client.results import Ordered
from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.worker.plan import Chain, OnList, Plan

SESSION = SimpleNamespace(release=lambda result: None)


def make_futures(count):
    graph = Ordered([TaskSpec(("f", n), len) for n in range(count)], range(count))
    return [Future(SESSION, result, None) for result in graph.results.values()]


FUTURES = make_futures(4)
VALUES = {future: (f"value {n}",) for n, future in enumerate(FUTURES)}


def tell(*args, **kwargs):
    """Everything about a call, as a value that can be hashed."""
    return "call", tuple(map(frozen, args)), tuple((k, frozen(v)) for k, v in sorted(kwargs.items()))


def frozen(obj):
    if isinstance(obj, dict):
        return "dict", tuple((k, frozen(v)) for k, v in obj.items())
    if isinstance(obj, set):
        return "set", tuple(sorted(map(repr, map(frozen, obj))))
    return (type(obj).__name__, *map(frozen, obj)) if isinstance(obj, list | tuple) else obj


def outcome(spec, inputs):
    """What a task with Futures should give."""
    return spec_filled(spec)(inputs)


def spec_filled(spec):
    args = spec.args if spec.args is EACH else tuple(full(a) for a in spec.args)
    kwargs = spec.kwargs and {k: full(a) for k, a in spec.kwargs.items()}
    return TaskSpec(spec.key, full_func(spec.func), args, kwargs, spec.dependencies)


def full(obj):
    return fill(obj, VALUES)


def full_link(func, args, kwargs):
    return full_func(func), args if args is EACH else tuple(map(full, args)), kwargs and dict(full(kwargs))


def full_func(func):
    match func:
        case Plan():
            return Plan([(*full_link(*step[:3]), ()) for step in func.steps])
        case Chain():
            return Chain([full_link(*link) for link in func.links])
        case OnList():
            return OnList(full_func(func.func))
        case partial():
            return partial(full_func(func.func), *map(full, func.args), **full(func.keywords))
    return func


values = st.recursive(
    st.sampled_from([*FUTURES, 1, "text", None]),
    lambda inner: st.lists(inner, max_size=3)
    | st.tuples(inner, inner)
    | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    | st.sets(st.sampled_from([*FUTURES, 1]), max_size=2),
    max_leaves=6,
)
named = st.none() | st.dictionaries(st.sampled_from(["p", "q"]), values, min_size=1, max_size=2)


def arguments(slots):
    """Arguments of a call in which so many values are there to be referred to."""
    refs = st.integers(0, slots - 1).map(Ref) if slots else st.nothing()
    return st.just(EACH) | st.lists(values | refs, max_size=4).map(tuple)


@st.composite
def callables(draw, slots, depth=0):
    """Something that takes so many arguments."""
    kind = draw(st.sampled_from(["tell", "list", "partial", "plan", "chain"] if depth < 2 else ["tell"]))
    match kind:
        case "list":
            return OnList(draw(callables(1, depth + 1)))
        case "partial":
            extra = draw(st.lists(values, max_size=2))
            return partial(draw(callables(slots + len(extra), depth + 1)), *extra)
        case "plan":
            steps = []
            for n in range(draw(st.integers(1, 3))):
                args = draw(arguments(slots + n))
                inner = draw(callables(slots + n if args is EACH else len(args), depth + 1))
                steps.append((inner, args, draw(named) if inner is tell and args is not EACH else None, ()))
            return Plan(steps)
        case "chain":
            links = []
            for n in range(draw(st.integers(1, 3))):
                args = draw(arguments(1 if n else slots))
                inner = draw(callables((1 if n else slots) if args is EACH else len(args), depth + 1))
                links.append((inner, args, None))
            return Chain(links)
    return tell


@st.composite
def tasks(draw):
    count = draw(st.integers(0, 3))
    args = draw(arguments(count))
    func = draw(callables(count if args is EACH else len(args)))
    return TaskSpec("t", func, args, draw(named) if func is tell and args is not EACH else None, range(10, 10 + count))


@given(st.lists(tasks(), min_size=1, max_size=3))
def test_a_joined_task_gives_what_one_with_the_values_gives(specs):
    joined = Joined(specs)
    futures = list(joined.futures)
    for spec, new in zip(specs, joined.tasks, strict=True):
        inputs = [VALUES[futures[-1 - d]] if d < 0 else ("input", d) for d in new.dependencies]
        own = [("input", d) for d in spec.dependencies]
        assert list(new.dependencies[: len(own)]) == list(spec.dependencies)
        assert len(set(new.dependencies)) == len(new.dependencies)
        assert frozen(new(inputs)) == frozen(outcome(spec, own))


def test_tasks_without_futures_are_left_alone():
    spec = TaskSpec("t", OnList(tell), (1, [2], {"a": (3,)}), {"k": [4]})
    joined, futures = join([spec])
    assert joined[0] is spec
    assert futures == []


def test_a_list_that_holds_itself_is_looked_at_once():
    ring = [1]
    ring.append(ring)
    spec = TaskSpec("t", tell, (ring, FUTURES[0]))
    (new,) = Joined([spec]).tasks
    assert new.args[0] is ring
    assert new.dependencies == [-1]


@pytest.mark.parametrize("shape", [FUTURES[0], [FUTURES[0], (FUTURES[1], 3)], {"a": FUTURES[2]}, {FUTURES[3]}, 5, []])
def test_values_take_the_place_of_futures(shape):
    found = {}
    assert futures_in(shape, found) is bool(found)
    some = dict(list(VALUES.items())[:2])
    left = [future for future in found if future not in some]
    got = fill(shape, VALUES)
    assert futures_in(got, {}) is False
    if not left:
        assert got == fill(shape, some)
