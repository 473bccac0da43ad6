"""The vocabulary: each name's good and bad values, the joins of fusion, who wins where several speak."""

from __future__ import annotations

import enum
import fractions
import math
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsched.core.annotations import EXECUTORS, VOCABULARY, combine, executor_of, merge, resolve, validate, varies
from hetsched.errors import AnnotationError


class Shade(enum.StrEnum):
    IO = "io"


class Prickly:
    """A value that nobody may look at."""

    def _refuse(self, *_):
        raise RuntimeError("touched")

    __eq__ = __hash__ = __repr__ = __bool__ = __copy__ = __deepcopy__ = __reduce__ = __len__ = _refuse  # type: ignore[assignment]


def exactly(left, right):
    """Equal, and of the same types all through."""
    return left == right and repr(left) == repr(right)


GOOD = [
    ("workers", "w1", ("w1",)),
    ("workers", ["w2", "w1", "w2"], ("w2", "w1")),
    ("workers", ("tcp://10.0.0.1:80",), ("tcp://10.0.0.1:80",)),
    ("workers", {"c", "a", "b"}, ("a", "b", "c")),
    ("workers", frozenset({"b", "a"}), ("a", "b")),
    ("workers", [np.str_("w")], ("w",)),
    ("allow_other_workers", True, True),
    ("pool", "A", "A"),
    ("pool", ["B", "A"], ("B", "A")),
    ("pool", {"B", "A"}, ("A", "B")),
    ("pool", None, None),
    ("resources", {"GPU": 1}, {"GPU": 1.0}),
    ("resources", {"GPU": np.float32(0.5), "MEM": 0}, {"GPU": 0.5, "MEM": 0.0}),
    ("resources", {}, {}),
    ("priority", 3, 3),
    ("priority", -2.5, -2.5),
    ("priority", np.int16(7), 7),
    ("priority", np.float32(0.5), 0.5),
    ("priority", fractions.Fraction(1, 4), 0.25),
    ("priority", 1_000_000, 1_000_000),
    ("retries", 0, 0),
    ("retries", np.uint8(4), 4),
    ("executor", "gpu", "gpu"),
    ("executor", Shade.IO, "io"),
    ("gpu", False, False),
    ("nbytes", 10**12, 10**12),
    ("duration", 2, 2.0),
    ("duration", np.float64(0.25), 0.25),
    ("replicate", 1, 1),
    ("replicate", "all", "all"),
    ("job", "nightly", "nightly"),
    ("provenance", "a.py:3 in f", "a.py:3 in f"),
]

BAD = {
    "workers": [1, None, "", [], [1], ["a", ""], {"a": 1}, b"w"],
    "allow_other_workers": [1, None, "yes", ["w1"]],
    "pool": [1, "", [], [None], True],
    "resources": [
        [("GPU", 1)],
        "GPU",
        {"GPU": True},
        {"GPU": -1},
        {"GPU": math.inf},
        {"GPU": math.nan},
        {1: 1},
        {"": 1},
    ],
    "priority": [True, "3", None, math.nan, math.inf, 1_000_001, -1e6 - 1, 1j, 10**5000, (1, 2)],
    "retries": [-1, True, 1.0, "1", None, 2**63],
    "executor": ["", "GPU ", None, 1, True, ["gpu"]],
    "gpu": [0, 1, None, "yes", np.bool_(True)],
    "nbytes": [-1, 1.5, True, "1 GB", 2**64],
    "duration": [-0.1, math.nan, math.inf, "5s", False, 10**400],
    "replicate": [0, -1, "ALL", True, 1.0, None],
    "job": ["", None, 3],
    "provenance": ["", None, ("a.py", 3, "f")],
}


@pytest.mark.parametrize(("name", "value", "normal"), GOOD)
def test_good_values_are_brought_to_normal_form(name, value, normal):
    assert exactly(validate({name: value}), {name: normal})
    assert exactly(validate({name: normal}), {name: normal})


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, values in BAD.items() for at in range(len(values))])
def test_bad_values_are_refused_by_name(name, at):
    value = BAD[name][at]
    with pytest.raises(AnnotationError) as caught:
        validate({name: value})
    text = str(caught.value)
    assert text.startswith(f"the annotation {name}=")
    assert f"is not allowed: it takes {VOCABULARY[name].allowed}" in text
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_every_name_is_tried_above():
    names = "workers allow_other_workers pool resources priority retries executor gpu nbytes duration replicate job"
    assert list(VOCABULARY) == [*names.split(), "provenance"]
    assert {name for name, *_ in GOOD} == set(BAD) == set(VOCABULARY)
    assert all(rule.meaning and rule.allowed and rule.fused for rule in VOCABULARY.values())


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        (
            {"retries": -1},
            "the annotation retries=-1 is not allowed: it takes a whole number, 0 or more",
        ),
        (
            {"executor": "gpuu"},
            "the annotation executor='gpuu' is not allowed: it takes 'cpu', 'gpu', 'io' or 'process'; "
            "did you mean 'gpu'?",
        ),
        (
            {"executor": "Processes"},
            "the annotation executor='Processes' is not allowed: it takes 'cpu', 'gpu', 'io' or 'process'; "
            "did you mean 'process'?",
        ),
        (
            {"executor": "moon"},
            "the annotation executor='moon' is not allowed: it takes 'cpu', 'gpu', 'io' or 'process'",
        ),
        (
            {"job": Prickly()},
            "the annotation job=<Prickly, whose repr fails> is not allowed: it takes a name",
        ),
        (
            {"job": ["x" * 1000]},
            f"the annotation job=['{'x' * 198}... is not allowed: it takes a name",
        ),
        (
            {"executor": "cpu", "gpu": True},
            "the annotations executor='cpu' and gpu=True contradict each other: leave one of them out",
        ),
        (
            {"resources": {"GPU": 1, "MEM": 2}, "executor": "cpu"},
            "the annotations executor='cpu' and resources={'GPU': 1.0, 'MEM': 2.0} contradict each other: "
            "leave one of them out",
        ),
        (
            {"gpu": False, "executor": "gpu"},
            "the annotations executor='gpu' and gpu=False contradict each other: leave one of them out",
        ),
        (
            {"gpu": False, "resources": {"GPU": 0.5}},
            "the annotations gpu=False and resources={'GPU': 0.5} contradict each other: leave one of them out",
        ),
        (
            "pool",
            "the annotations must be a mapping from name to value, not 'pool'",
        ),
    ],
)
def test_what_the_errors_say(annotations, text):
    with pytest.raises(AnnotationError) as caught:
        validate(annotations)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "annotations",
    [
        {"executor": "gpu", "gpu": True, "resources": {"GPU": 1.0}},
        {"executor": "cpu", "gpu": False, "resources": {"GPU": 0.0, "MEM": 1.0}},
        {"executor": "io", "gpu": True},
        {"executor": "process", "gpu": False, "resources": {"MEM": 1.0}},
        {"executor": "process", "resources": {"GPU": 1.0}},
    ],
)
def test_what_does_not_contradict(annotations):
    assert validate(annotations) == annotations


def test_unknown_names_are_kept_untouched():
    thing, lock = Prickly(), threading.Lock()
    given = {"team": thing, "priority": 1, "lock": lock, "Pool": 3}
    checked = validate(given)
    assert list(checked) == ["team", "priority", "lock", "Pool"]
    assert checked["team"] is thing
    assert checked["lock"] is lock
    assert checked is not given
    assert merge(checked, checked) is checked
    again = merge(checked, {**checked})
    assert again is not None
    assert again["team"] is thing
    assert merge(checked, {**checked, "team": Prickly()}) is None
    assert merge({"team": (thing, 1)}, {"team": (Prickly(), 1)}) is None


def test_callables_wait_for_their_key():
    def by_key(key):
        return key[1]

    given = {"priority": by_key, "team": str, "pool": "A"}
    with pytest.raises(AnnotationError, match=r"the annotation priority=<function .*by_key"):
        validate(given)
    checked = validate(given, per_key=True)
    assert checked == given
    assert varies(checked)
    assert resolve(checked, ("x", 4)) == {"priority": 4, "team": "('x', 4)", "pool": "A"}
    assert not varies(resolve(checked, ("x", 4)))
    with pytest.raises(AnnotationError) as caught:
        resolve(checked, ("x", "high"))
    assert str(caught.value) == (
        "the annotation priority='high' of the task ('x', 'high') is not allowed: "
        "it takes a number from -1,000,000 to 1,000,000"
    )
    with pytest.raises(AnnotationError, match=r"executor='cpu' and gpu=True of the task 'k' contradict each other"):
        resolve(validate({"executor": lambda _: "cpu", "gpu": lambda _: True}, per_key=True), "k")


def test_an_error_in_a_callable_is_its_own():
    with pytest.raises(ZeroDivisionError):
        resolve({"priority": lambda _: 1 / 0}, "x")


@pytest.mark.parametrize(
    ("annotations", "executor"),
    [
        ({}, "cpu"),
        ({"priority": 1}, "cpu"),
        ({"executor": "io", "gpu": True}, "io"),
        ({"executor": "process", "resources": {"GPU": 1.0}}, "process"),
        ({"gpu": True}, "gpu"),
        ({"gpu": False}, "cpu"),
        ({"resources": {"GPU": 0.5}}, "gpu"),
        ({"resources": {"GPU": 0.0}}, "cpu"),
        ({"resources": {"MEM": 1.0}}, "cpu"),
    ],
)
def test_executor_of(annotations, executor):
    assert executor_of(annotations) == executor
    assert executor in EXECUTORS


# Fusion: (first, then, fused); None where they must not be fused. Every name has its one-sided cases below.
MERGES = [
    ({}, {}, {}),
    ({"workers": ("a", "b", "c")}, {"workers": ("c", "b")}, {"workers": ("b", "c")}),
    ({"workers": ("a",)}, {"workers": ("b",)}, None),
    ({"allow_other_workers": True}, {"allow_other_workers": True}, {"allow_other_workers": True}),
    ({"allow_other_workers": True}, {"allow_other_workers": False}, {"allow_other_workers": False}),
    ({"pool": "A"}, {"pool": "A"}, {"pool": "A"}),
    ({"pool": "A"}, {"pool": "B"}, None),
    ({"pool": "A"}, {"pool": ("B", "A")}, {"pool": "A"}),
    ({"pool": ("B", "A")}, {"pool": "A"}, {"pool": "A"}),
    ({"pool": ("B", "A")}, {"pool": "C"}, None),
    ({"pool": ("B", "A")}, {"pool": ("A", "C")}, {"pool": ("A",)}),
    ({"pool": ("B", "A")}, {"pool": ("C", "D")}, None),
    ({"pool": None}, {"pool": None}, {"pool": None}),
    ({"pool": None}, {"pool": "A"}, None),
    ({"pool": None}, {"pool": ("A", "B")}, None),
    ({"resources": {"GPU": 1.0}}, {"resources": {"GPU": 2.0}}, {"resources": {"GPU": 2.0}}),
    ({"resources": {"A": 1.0, "B": 3.0}}, {"resources": {"B": 2.0, "A": 2.0}}, {"resources": {"A": 2.0, "B": 3.0}}),
    ({"resources": {"A": 1.0, "GPU": 0.0}}, {"resources": {"A": 1.0}}, {"resources": {"A": 1.0, "GPU": 0.0}}),
    ({"resources": {"GPU": 1.0}}, {"resources": {"MEM": 1.0}}, None),
    ({"resources": {"MEM": 1.0, "GPU": 1.0}}, {"resources": {"MEM": 1.0}}, None),
    ({"priority": -1}, {"priority": 2.5}, {"priority": 2.5}),
    ({"retries": 3}, {"retries": 1}, {"retries": 3}),
    ({"executor": "io"}, {"executor": "io"}, {"executor": "io"}),
    ({"executor": "io"}, {"executor": "cpu"}, None),
    ({"gpu": True}, {"gpu": True}, {"gpu": True}),
    ({"gpu": True}, {"gpu": False}, None),
    ({"nbytes": 1}, {"nbytes": 2}, {"nbytes": 2}),
    ({"nbytes": 1}, {}, {}),
    ({}, {"nbytes": 2}, {"nbytes": 2}),
    ({"duration": 1.0}, {"duration": 2.0}, {"duration": 3.0}),
    ({"duration": 1e308}, {"duration": 1.7e308}, {"duration": 1.7976931348623157e308}),
    ({"duration": 1.0}, {}, {}),
    ({}, {"duration": 1.0}, {}),
    ({"replicate": 2}, {"replicate": 2}, {"replicate": 2}),
    ({"replicate": 2}, {"replicate": "all"}, None),
    ({"job": "a"}, {"job": "a"}, {"job": "a"}),
    ({"job": "a"}, {"job": "b"}, None),
    ({"provenance": "f"}, {"provenance": "g"}, {"provenance": "g"}),
    ({"provenance": "f"}, {}, {"provenance": "f"}),
    ({}, {"provenance": "g"}, {"provenance": "g"}),
    ({"team": "a"}, {"team": "a"}, {"team": "a"}),
    ({"team": "a"}, {"team": "b"}, None),
    ({"team": ("a", 1)}, {"team": ("a", 1)}, {"team": ("a", 1)}),
    ({"team": ("a", 1)}, {"team": ("a", 1.0)}, None),
    ({"team": ("a", 1)}, {"team": ("a",)}, None),
    ({"team": True}, {"team": 1}, None),
    ({"team": None}, {"team": None}, {"team": None}),
    ({"team": None}, {}, None),
    ({"team": ["a"]}, {"team": ["a"]}, None),
    ({"team": np.arange(3)}, {"team": np.arange(3)}, None),
    ({"priority": 1, "pool": "A"}, {"pool": "A", "priority": 2}, {"priority": 2, "pool": "A"}),
    ({"priority": 1, "pool": "A"}, {"pool": "B", "priority": 2}, None),
    ({"retries": 1, "nbytes": 4}, {"duration": 2.0, "retries": 2}, {"retries": 2}),
]


@pytest.mark.parametrize(("first", "then", "fused"), MERGES)
def test_merge(first, then, fused):
    before = repr((first, then))
    merged = merge(first, then)
    assert exactly(merged, fused)
    assert repr((first, then)) == before
    assert (merge(then, first) is None) == (fused is None)


ONE_SIDED = {
    name: next(normal for known, _, normal in GOOD if known == name)
    for name in VOCABULARY
    if name not in {"nbytes", "duration", "provenance"}
}


@pytest.mark.parametrize("name", ONE_SIDED)
def test_what_only_one_has_keeps_the_two_apart(name):
    annotated = {name: ONE_SIDED[name]}
    assert merge(annotated, {}) is None
    assert merge({}, annotated) is None


def test_every_name_has_a_merge_above():
    assert {name for first, then, _ in MERGES for name in (*first, *then)} == {*VOCABULARY, "team"}


def test_the_common_cases_make_nothing_new():
    annotations, empty = validate({"pool": "A", "note": [1]}), {}
    assert merge(annotations, annotations) is annotations
    assert merge(empty, {}) is empty
    assert merge(empty, empty) is empty


def test_the_same_duration_twice_is_twice_as_long():
    annotations = {"duration": 2.0, "pool": "A"}
    assert merge(annotations, annotations) == {"duration": 4.0, "pool": "A"}


VALUES = {
    "workers": st.lists(st.sampled_from("abc"), min_size=1),
    "allow_other_workers": st.booleans(),
    "pool": st.none() | st.sampled_from("AB") | st.lists(st.sampled_from("ABC"), min_size=1),
    "resources": st.dictionaries(st.sampled_from(["GPU", "MEM"]), st.integers(0, 3)),
    "priority": st.integers(-3, 3) | st.floats(-3, 3),
    "retries": st.integers(0, 3),
    "executor": st.sampled_from(EXECUTORS),
    "gpu": st.booleans(),
    "nbytes": st.integers(0, 3),
    "duration": st.floats(0, 3),
    "replicate": st.integers(1, 2) | st.just("all"),
    "job": st.sampled_from("jk"),
    "provenance": st.sampled_from("pq"),
    "team": st.sampled_from(["x", "y", 1, 1.0, True, None, ("x", 1), ["x"]]),
}
RAW = st.fixed_dictionaries({}, optional=VALUES)
RESTRICTS = ("workers", "pool", "resources", "executor", "gpu", "replicate", "job", "team", "allow_other_workers")


def valid(raw):
    try:
        return validate(raw)
    except AnnotationError:
        return None


ANNOTATIONS = RAW.map(valid).filter(lambda checked: checked is not None)


@given(RAW)
def test_only_contradictions_are_refused_and_validating_again_changes_nothing(raw):
    checked = valid(raw)
    if checked is None:
        assert len({"executor", "gpu", "resources"} & raw.keys()) > 1
    else:
        assert exactly(validate(checked), checked)


@given(ANNOTATIONS, ANNOTATIONS)
def test_merge_keeps_what_was_given_or_refuses(first, then):
    merged = merge(first, then)
    assert (merged is None) == (merge(then, first) is None)
    if merged is None:
        return
    assert exactly(validate(merged), merged)
    assert executor_of(merged) == executor_of(first) == executor_of(then)
    for name in RESTRICTS:
        assert (name in merged) == (name in first) == (name in then)
    if "workers" in merged:
        assert set(merged["workers"]) == set(first["workers"]) & set(then["workers"])
    for name in ("priority", "retries"):
        assert merged.get(name) == max(first[name], then[name]) if name in merged else name not in first


@given(ANNOTATIONS)
def test_merging_with_itself(annotations):
    merged = merge(annotations, annotations)
    if "duration" in annotations:
        assert merged == {**annotations, "duration": 2 * annotations["duration"]}
    else:
        assert merged is annotations


@pytest.mark.parametrize(
    ("outer", "inner", "both"),
    [
        ({"priority": 1, "pool": "A"}, {"priority": 2}, {"priority": 2, "pool": "A"}),
        ({"pool": "A"}, {"pool": None}, {"pool": None}),
        ({"retries": 3}, {"retries": 0, "team": "x"}, {"retries": 0, "team": "x"}),
        ({"resources": {"GPU": 1.0}}, {"resources": {"MEM": 1.0}}, {"resources": {"MEM": 1.0}}),
        ({"gpu": True}, {"executor": "cpu"}, {"gpu": False, "executor": "cpu"}),
        ({"gpu": True}, {"executor": "io"}, {"gpu": True, "executor": "io"}),
        ({"executor": "cpu"}, {"gpu": True}, {"executor": "gpu", "gpu": True}),
        ({"executor": "io"}, {"gpu": True}, {"executor": "gpu", "gpu": True}),
        ({"executor": "io"}, {"gpu": False}, {"executor": "io", "gpu": False}),
        ({"executor": "gpu"}, {"gpu": False}, {"executor": "cpu", "gpu": False}),
        ({"gpu": False}, {"resources": {"GPU": 1.0}}, {"gpu": True, "resources": {"GPU": 1.0}}),
        (
            {"resources": {"GPU": 1.0, "MEM": 2.0}},
            {"executor": "cpu"},
            {"resources": {"MEM": 2.0}, "executor": "cpu"},
        ),
        ({"resources": {"GPU": 1.0}}, {"executor": "process"}, {"resources": {"GPU": 1.0}, "executor": "process"}),
    ],
)
def test_combine(outer, inner, both):
    before = repr((outer, inner))
    assert exactly(combine(outer, inner), both)
    assert repr((outer, inner)) == before


def test_combining_with_nothing_makes_nothing_new():
    annotations: dict[str, object] = {"pool": "A"}
    assert combine({}, annotations) is annotations
    assert combine(annotations, {}) is annotations


@given(ANNOTATIONS, ANNOTATIONS)
def test_combining_never_contradicts_and_the_inner_wins(outer, inner):
    both = combine(outer, inner)
    assert exactly(validate(both), both)
    assert both.keys() == outer.keys() | inner.keys()
    assert all(both[name] is value for name, value in inner.items())
    if {"executor", "gpu"} & inner.keys() and inner.get("gpu") is not False:
        assert executor_of(both) == executor_of(inner)
