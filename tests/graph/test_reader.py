"""Every form of graph dask has is read, and gives what dask's own one-thread reference gives."""

from __future__ import annotations

import sys
from collections import ChainMap, namedtuple
from types import MappingProxyType

import dask
import numpy as np
import pytest
from dask._task_spec import Alias, DataNode, Dict, List, Set, Task, TaskRef, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

import hetsched
from hetsched.errors import BadKeyError, CycleError, MissingKeyError

Pair = namedtuple("Pair", ["left", "right"])  # noqa: PYI024 - dask asks for _fields, as of either kind


def inc(x):
    return x + 1


def add(*xs):
    return sum(xs)


def given_to(*args, **kwargs):
    """What a function is called with, in a form that can be hashed and compared with its types."""
    return "call", frozen(args), frozen(kwargs)


def frozen(x):
    if isinstance(x, dict):
        return "dict", tuple(sorted(((frozen(k), frozen(v)) for k, v in x.items()), key=repr))
    if isinstance(x, set | frozenset):
        return type(x).__name__, tuple(sorted(map(frozen, x), key=repr))
    if isinstance(x, list | tuple) and x[:1] != ("call",):
        return type(x).__name__, tuple(map(frozen, x))
    return (type(x).__name__, x)


def both(dsk, keys):
    """The answers of dask's reference and of ours."""
    return dask.get(dsk, keys), hetsched.get(dsk, keys)


# The older form

LEGACY = {
    "one": 1,
    "two": (inc, "one"),
    "alias": "two",
    "alias of alias": "alias",
    ("t", 0): (add, "one", "two"),
    7: (inc, ("t", 0)),
    2.5: (inc, 7),
    "list": ["one", ["two", ("t", 0)], (inc, "two")],
    "sum": (sum, ["one", "two", 7]),
    "nested": (add, (inc, (inc, "one")), (sum, [(inc, "two"), "one"])),
    "in a dict": (given_to, {"k": "two", "l": ["two", {"m": "two"}]}),
    "a dict": {"k": "two"},
    "list of dicts": [{"k": "two"}, "two"],
    "in a set": (given_to, {"one", "no key"}),
    "frozen": (given_to, frozenset(["two", 3])),
    "tuple": (given_to, ("one", ("two", "no key"))),
    "literals": (given_to, None, True, b"one", 1.5, "no key", ()),
    "named": (given_to, Pair("two", ["one"])),
    "named value": Pair("two", 5),
    "empty": [],
    "no call": (1, "one"),
    "same twice": (add, "two", "two", "two"),
    "no arguments": (dict,),
}


@pytest.mark.parametrize("key", LEGACY, ids=str)
def test_the_older_form(key):
    want, got = both(dict(LEGACY), [key])
    assert frozen(got) == frozen(want)


def test_values_of_the_older_form():
    keys = ["alias of alias", 7, 2.5, "sum", "nested", "same twice"]
    assert hetsched.get(LEGACY, keys) == (2, 4, 5, 7, 7, 6)
    assert hetsched.get(LEGACY, "list") == [1, [2, 3], 3]
    assert hetsched.get(LEGACY, "named") == given_to(Pair(2, [1]))


def test_the_graph_and_what_is_in_it_stay_as_they_were():
    inner = ["one", ["two"], {"k": "two"}]
    dsk = {**LEGACY, "inner": (len, inner)}
    before = dict(dsk)
    request = ["inner", ["sum"]]
    hetsched.get(dsk, request)
    assert list(dsk.items()) == list(before.items())
    assert all(dsk[key] is before[key] for key in dsk)
    assert inner == ["one", ["two"], {"k": "two"}]
    assert request == ["inner", ["sum"]]


class Touchy:
    """Any look at one raises."""

    def _no(self, *args):
        raise RuntimeError("a user's value was touched")

    __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __contains__ = __lt__ = __str__ = __repr__ = _no


def same(x):
    return x


@pytest.mark.parametrize(
    "value", [[1], {"a": 1}, {1, 2}, object(), np.arange(3), Touchy(), len, ValueError("a value"), lambda: None, int]
)
def test_literals_pass_by_identity(value):
    if not isinstance(value, list | set):  # dask looks for keys in these, and makes new ones
        assert hetsched.get({"a": value, "b": (same, "a")}, "a") is value
        assert hetsched.get({"a": value, "b": (same, "a")}, "b") is value
    if not isinstance(value, list | set | dict):
        assert hetsched.get({"a": (same, value)}, "a") is value
    nodes = {"a": DataNode("a", value), "b": Task("b", same, TaskRef("a")), "c": Task("c", same, value)}
    got = hetsched.get(nodes, ["a", "b", "c"])
    assert all(one is value for one in got)


@pytest.mark.parametrize("where", [lambda v: ("x", v), lambda v: ["x", ("y", v)], lambda v: {"k": ("x", v)}])
def test_values_inside_of_tuples_are_not_touched(where):
    value = Touchy()
    if isinstance(where(value), tuple):
        assert hetsched.get({"a": where(value)}, "a")[1] is value
    assert hetsched.get({"a": (type, where(value))}, "a") is type(where(value))


def test_a_result_is_never_read_as_a_task():
    dsk = {"a": (lambda: (len, "abcd"),), "b": (same, "a"), "c": (list, ["a"]), "d": (lambda: "a",), "e": (same, "d")}
    assert hetsched.get(dsk, ["a", "b", "c", "e"]) == ((len, "abcd"), (len, "abcd"), [(len, "abcd")], "a")


@pytest.mark.parametrize("kind", [dict, MappingProxyType, lambda d: ChainMap({}, d)])
def test_kinds_of_mapping(kind):
    assert hetsched.get(kind({"a": (inc, 1), "b": (inc, "a")}), "b") == 3


# Nodes

NODES = {
    "data": DataNode("data", 5),
    "task": Task("task", inc, TaskRef("data")),
    "alias": Alias("alias", "task"),
    "alias of alias": Alias("alias of alias", "alias"),
    "alias of data": Alias("alias of data", "data"),
    "kwargs": Task("kwargs", given_to, 1, x=TaskRef("task"), y=List(TaskRef("data"), 2), z=None),
    "list": List(TaskRef("task"), List(TaskRef("data"), 1)),
    "tuple": Task("tuple", given_to, Tuple(TaskRef("task"), Set(1, TaskRef("data")))),
    "dict": Task("dict", given_to, Dict({"k": TaskRef("task"), "l": List(TaskRef("data"))})),
    "nested": Task("nested", add, Task(None, inc, TaskRef("task")), Task(None, inc, Task(None, inc, 1))),
    "alias inside": Task("alias inside", add, Alias("alias"), DataNode(None, 3)),
    "text": Task("text", given_to, "task", ["task"], ("task",), {"k": "task"}),
    "call shaped": Task("call shaped", given_to, ("not called", "task")),
    "plain list": Task("plain list", given_to, [1, [2]], {"k": (3,)}),
    ("t", 1): Task(("t", 1), inc, TaskRef("kwargs-free")),
    "kwargs-free": Task("kwargs-free", inc, 0),
}


@pytest.mark.parametrize("key", NODES, ids=str)
def test_nodes(key):
    want, got = both(dict(NODES), [key])
    assert frozen(got) == frozen(want)


def test_values_of_nodes():
    keys = ["alias of alias", "alias of data", ("t", 1), "nested", "alias inside"]
    assert hetsched.get(NODES, keys) == (6, 5, 2, 10, 9)
    assert hetsched.get(NODES, "list") == [6, [5, 1]]


def test_a_task_of_a_class_of_its_own():
    class Doubled(Task):
        def __call__(self, values=()):
            return 2 * super().__call__(values)

    dsk = {"a": Doubled("a", inc, TaskRef("b")), "b": Task("b", inc, 1)}
    assert both(dsk, "a") == (6, 6)


def test_fused_subgraphs():
    a = Task("a", inc, TaskRef("x"))
    b = Task("b", add, TaskRef("a"), TaskRef("y"), TaskRef("a"))
    c = Task("c", given_to, TaskRef("b"), k=TaskRef("a"))
    fused = Task.fuse(a, b, c)
    outer = Task.fuse(Task("y", inc, TaskRef("x")), fused, key="out")
    dsk = {"x": Task("x", inc, 0), "y": DataNode("y", 10), "c": fused}
    assert hetsched.get(dsk, "c") == dask.get(dsk, "c") == given_to(14, k=2)
    nested = {"x": Task("x", inc, 0), "out": outer}
    assert hetsched.get(nested, "out") == dask.get(nested, "out") == given_to(6, k=2)


def test_a_fused_task_with_literals_in_its_place():
    fused = Task.fuse(Task("a", inc, TaskRef("x")), Task("b", inc, TaskRef("a")))
    assert both({"x": DataNode("x", 1), "b": fused}, "b") == (3, 3)
    assert both({"x": DataNode("x", 1), "y": Alias("y", "x"), "b": fused.substitute({"x": "y"})}, "b") == (3, 3)


# Bad graphs


@pytest.mark.parametrize(
    ("dsk", "cycle"),
    [
        ({"a": (inc, "a")}, {"a"}),
        ({"a": (inc, "b"), "b": (inc, "a")}, {"a", "b"}),
        ({"a": "b", "b": "a"}, {"a", "b"}),
        ({"a": "a"}, {"a"}),
        ({"a": Alias("a", "b"), "b": Alias("b", "c"), "c": Alias("c", "b")}, {"b", "c"}),
        ({"a": (inc, "b"), "b": (inc, (inc, ["c"])), "c": (inc, "b"), "d": 1}, {"b", "c"}),
        ({"a": Task("a", inc, TaskRef("b")), "b": Task("b", inc, k=TaskRef("a"))}, {"a", "b"}),
        ({"a": ["a"]}, {"a"}),
    ],
)
def test_cycles_are_named(dsk, cycle):
    with pytest.raises(ValueError, match="cycle") as caught:
        hetsched.get(dsk, "a")
    assert isinstance(caught.value, CycleError)
    assert set(caught.value.cycle) == cycle
    assert all(repr(key) in str(caught.value) for key in cycle)


def test_a_cycle_nobody_asked_for_does_not_matter():
    assert hetsched.get({"a": (inc, 1), "b": (inc, "c"), "c": (inc, "b")}, "a") == 2


def test_missing_keys_are_named_with_who_needs_them():
    dsk = {"a": Task("a", inc, TaskRef("nowhere")), "b": Task("b", inc, TaskRef("a")), "c": Alias("c", "gone")}
    with pytest.raises(KeyError) as caught:
        hetsched.get(dsk, "b")
    assert isinstance(caught.value, MissingKeyError)
    assert str(caught.value) == "the key 'nowhere' is not in the graph; it is needed by 'a'"
    with pytest.raises(MissingKeyError, match="'absent' is not in the graph; it was asked for"):
        hetsched.get(dsk, ["absent"])
    with pytest.raises(MissingKeyError, match="'gone'"):
        hetsched.get(dsk, ["c"])
    with pytest.raises(MissingKeyError, match="'absent'"):
        hetsched.get({}, "absent")


@pytest.mark.parametrize("keys", [None, [None], [["a", None]], {}, [{"a"}], [np.arange(2)]])
def test_what_cannot_be_a_key(keys):
    with pytest.raises(TypeError, match="cannot be a key") as caught:
        hetsched.get({"a": 1}, keys)
    assert isinstance(caught.value, BadKeyError)


def test_what_cannot_be_a_key_inside_of_the_graph():
    with pytest.raises(BadKeyError, match="None cannot be a key; it is needed by 'a'"):
        hetsched.get({"a": Task("a", inc, TaskRef(None))}, "a")


# Size


def test_a_chain_of_10_000():
    dsk = {"x0": 0, **{f"x{i}": (inc, f"x{i - 1}") for i in range(1, 10_001)}}
    assert hetsched.get(dsk, "x10000") == 10_000
    nodes = {i: Task(i, inc, TaskRef(i - 1)) for i in range(1, 10_001)}
    assert hetsched.get({0: DataNode(0, 0), **nodes}, 10_000) == 10_000


def test_a_chain_of_aliases():
    dsk = {"x0": (inc, 1), **{f"x{i}": f"x{i - 1}" for i in range(1, 20_000)}}
    assert hetsched.get(dsk, ["x19999", "x0"]) == (2, 2)


def test_deep_nesting():
    call: object = 0
    container: object = "x"
    node: object = TaskRef("x")
    for _ in range(5_000):
        call, container, node = (inc, call), [container], Task(None, inc, node)
    assert hetsched.get({"a": call, "b": (inc, "a")}, "b") == 5_001
    deep = hetsched.get({"x": 3, "a": container}, "a")
    for _ in range(5_000):
        (deep,) = deep
    assert deep == 3
    assert hetsched.get({"x": 3, "a": List(node)}, "a") == [5_003]


def test_a_fan_in_of_100_000():
    dsk: dict[object, object] = {("x", i): (int, i) for i in range(100_000)}
    dsk["sum"] = (sum, [("x", i) for i in range(100_000)])
    assert hetsched.get(dsk, "sum") == sum(range(100_000))


def test_nothing_recurses():
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(250)
        call: object = 0
        for _ in range(1_000):
            call = (inc, call)
        assert hetsched.get({"a": call}, "a") == 1_000
    finally:
        sys.setrecursionlimit(limit)


# Any graph


def _legacy_key(i):
    return [f"k{i}", ("t", i), 1000 + i, 1000.5 + i, ("deep", ("er", i))][i % 5]


LITERALS = st.one_of(
    st.integers(-3, 3), st.sampled_from(["text", "k", None, 2.5, True, b"x", ("a", "b"), ()])
)  # fmt: skip


@st.composite
def legacy_graphs(draw):
    """Each value speaks of earlier keys only."""
    dsk: dict[object, object] = {}
    for i in range(draw(st.integers(1, 9))):
        leaf = st.one_of(st.sampled_from(list(dsk)), LITERALS) if dsk else LITERALS
        inner = st.recursive(
            leaf,
            lambda part, leaf=leaf: st.one_of(
                st.lists(part, max_size=3),
                st.lists(part, max_size=3).map(tuple),
                st.lists(part, max_size=3).map(lambda xs: (given_to, *xs)),
                st.dictionaries(st.sampled_from(["x", "k0", "y"]), part, max_size=2),
                st.tuples(leaf, part).map(lambda ab: Pair(*ab)),
            ),
            max_leaves=6,
        )
        dsk[_legacy_key(i)] = draw(inner)
    keys = draw(st.lists(st.sampled_from(list(dsk)), min_size=1, max_size=4))
    return dsk, [keys, keys[0]]


def outcome(get, dsk, keys):
    try:
        return frozen(get(dsk, keys))
    except Exception as error:
        return type(error)


@given(legacy_graphs())
def test_any_older_graph(graph):
    dsk, keys = graph
    want = outcome(dask.get, dsk, keys)
    assert outcome(hetsched.get, dsk, keys) == want


@st.composite
def node_graphs(draw):
    """Nodes of every kind; some of them fused, and those again."""
    dsk: dict[object, object] = {}
    for i in range(draw(st.integers(1, 9))):
        key = f"k{i}"
        literal = st.one_of(LITERALS, st.just(["k0"]), st.just({"k": "k0"}))
        leaf = literal
        if dsk:
            known = st.sampled_from(list(dsk))
            leaf = st.one_of(literal, known.map(TaskRef), known.map(TaskRef), known.map(Alias))
        part = st.recursive(
            leaf,
            lambda p: st.one_of(
                st.lists(p, max_size=3).map(lambda xs: List(*xs)),
                st.lists(p, max_size=3).map(lambda xs: Tuple(*xs)),
                st.dictionaries(st.sampled_from("xyz"), p, max_size=2).map(Dict),
                st.lists(p, max_size=3).map(lambda xs: Task(None, given_to, *xs)),
            ),
            max_leaves=4,
        )
        args = draw(st.lists(part, max_size=3))
        kwargs = draw(st.dictionaries(st.sampled_from(["p", "q"]), part, max_size=1))
        kind = draw(st.sampled_from(["task", "task", "task", "data", "alias"]))
        if kind == "data":
            dsk[key] = DataNode(key, draw(literal))
        elif kind == "alias" and dsk:
            dsk[key] = Alias(key, draw(st.sampled_from(list(dsk))))
        else:
            dsk[key] = Task(key, given_to, *args, **kwargs)
    for _ in range(draw(st.integers(0, 3))):
        _fuse(dsk, draw)
    keys = draw(st.lists(st.sampled_from(list(dsk)), min_size=1, max_size=4))
    return dsk, keys


def _fuse(dsk, draw):
    """Fuse a task with some of its inputs that nobody else reads."""
    readers = {key: [r for r, node in dsk.items() if key in node.dependencies] for key in dsk}
    tasks = [key for key, node in dsk.items() if isinstance(node, Task)]
    if not tasks:
        return
    last = draw(st.sampled_from(tasks))
    first = [d for d in sorted(dsk[last].dependencies) if readers[d] == [last] and isinstance(dsk[d], Task)]
    if first:
        dsk[last] = Task.fuse(*[dsk[d] for d in first], dsk[last], key=last)
        for d in first:
            del dsk[d]


@settings(max_examples=60)
@given(node_graphs())
def test_any_graph_of_nodes(graph):
    dsk, keys = graph
    want = outcome(dask.get, dsk, keys)
    assert outcome(hetsched.get, dsk, keys) == want
