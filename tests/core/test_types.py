"""The words: specs, references, prefixes."""

from __future__ import annotations

import operator
import pickle
from operator import attrgetter

import pytest

from hetsched.core.types import ANY_POOL, EACH, Capacity, Ref, TaskSpec, prefix_of


def test_a_ref_is_a_value() -> None:
    assert Ref(1) == Ref(1)
    assert Ref(1) != Ref(2)
    assert Ref(1) != 1
    assert {Ref(1), Ref(1), Ref(2)} == {Ref(2), Ref(1)}
    assert repr(Ref(3)) == "Ref(3)"
    assert pickle.loads(pickle.dumps(Ref(3))) == Ref(3)


def test_a_spec_takes_each_input_in_order() -> None:
    assert TaskSpec("x", operator.sub, EACH, None, [4, 2])([7, 5]) == 2


def test_a_spec_replaces_refs_and_nothing_else() -> None:
    call = lambda *args, **kwargs: (args, kwargs)  # noqa: E731
    spec = TaskSpec("x", call, (Ref(1), "plain", Ref(0), [Ref(0)]), {"a": Ref(1), "b": 2}, [0, 1])
    assert spec(["zero", "one"]) == (("one", "plain", "zero", [Ref(0)]), {"a": "one", "b": 2})
    assert TaskSpec("x", call, (1,))([]) == ((1,), {})
    assert TaskSpec("x", call)([]) == ((), {})


def test_a_spec_is_pickled_with_each_still_recognised() -> None:
    spec = TaskSpec("x", operator.add, EACH, None, [0, 1], {"retries": 1})
    copy = pickle.loads(pickle.dumps(spec))
    assert copy.args is EACH
    parts = attrgetter("key", "func", "args", "kwargs", "dependencies", "annotations")
    assert parts(copy) == parts(spec)
    other = pickle.loads(pickle.dumps(TaskSpec(("y", 1), operator.add, (Ref(0), 3), {"k": 1}, [0])))
    assert (other.key, other.args, other.kwargs, other.dependencies, other.annotations) == (
        ("y", 1), (Ref(0), 3), {"k": 1}, [0], None,
    )  # fmt: skip
    assert repr(copy) == "TaskSpec('x', dependencies=[0, 1])"


def test_a_spec_has_no_dict() -> None:
    with pytest.raises(AttributeError):
        TaskSpec("x", len).color = "red"


def test_a_capacity_says_little_by_default() -> None:
    assert Capacity({"cpu": 1}) == ({"cpu": 1}, {}, None, 2, 0.0, None)
    assert ANY_POOL == "*"


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        ("inc", "inc"),
        ("inc-12", "inc"),
        ("inc-1-2", "inc"),
        ("x7", "x"),
        ("x_7", "x"),
        ("add-0f1e2d3c4b5a69788796a5b4c3d2e1f0", "add"),
        ("read-csv-0f1e2d3c4b5a69788796a5b4c3d2e1f0", "read-csv"),
        (("sum-aggregate-0f1e2d3c4b5a69788796a5b4c3d2e1f0", 0, 1), "sum-aggregate"),
        (("x", 0), "x"),
        ((("y", 1), 2), "y"),
        ("add-list", "add-list"),
        ("12", "12"),
        ("-1", "-1"),
        ("", ""),
        (3, "int"),
        (2.5, "float"),
        (b"x", "bytes"),
        ((), "tuple"),
        (frozenset({1}), "frozenset"),
        ((1, 2), "int"),
    ],
)
def test_a_prefix_is_the_key_without_token_and_number(key, prefix) -> None:
    assert prefix_of(key) == prefix


def test_prefixes_of_many_layers_stay_right() -> None:
    tokens = [f"load-{i:032x}" for i in range(10_100)]
    assert {prefix_of((token, 0)) for token in tokens} == {"load"}
    assert prefix_of((tokens[0], 1)) == "load"
