"""Annotations that a library made known: checked, merged by its rule, and carried like any other."""

from __future__ import annotations

import copy
import pickle

import dask.array as da
import numpy as np
import pytest

import hetsched
from hetsched.annotations import ABSENT, REFUSED, register, unregister
from hetsched.core.annotations import merge, validate
from hetsched.errors import AnnotationError

META = {"dtype": int, "meta": np.empty(0, dtype=int)}


@pytest.fixture
def tenant():
    yield "tenant"
    unregister("tenant")


def stricter(first, then):
    return max(first, then) if first[0] == then[0] else REFUSED


def word(value):
    if not isinstance(value, str):
        raise TypeError(f"a tenant is a name, not a {type(value).__name__}")
    return value.lower()


def test_values_are_checked_where_they_are_written(tenant):
    register(tenant, validate=word)
    assert validate({"tenant": "ACME"}) == {"tenant": "acme"}
    with pytest.raises(AnnotationError, match=r"the annotation tenant=3 is not allowed: a tenant is a name, not a int"):
        hetsched.annotate(tenant=3)
    register(tenant, validate=word, allowed="a name")
    with pytest.raises(AnnotationError, match=r"the annotation tenant=3 is not allowed: it takes a name"):
        hetsched.task(abs, tenant=3)
    with hetsched.annotate(tenant=lambda key: 3):
        x = da.arange(4, chunks=2).map_blocks(abs, **META)
    with pytest.raises(AnnotationError, match="tenant=3 of the task"):
        x.compute(scheduler=hetsched.get)


@pytest.mark.parametrize(
    ("first", "then", "merged"),
    [
        ({"tenant": "a1"}, {"tenant": "a2"}, {"tenant": "a2"}),
        ({"tenant": "a1"}, {"tenant": "b1"}, None),
        ({"tenant": "a1"}, {}, None),
        ({}, {"tenant": "a1"}, None),
    ],
)
def test_its_merge_joins_or_refuses(tenant, first, then, merged):
    register(tenant, merge=stricter)
    assert merge(first, then) == merged


def test_one_that_describes_is_asked_about_tasks_without(tenant):
    register(tenant, describes=True, merge=lambda first, then: ABSENT if ABSENT in (first, then) else first + then)
    assert merge({"tenant": "a"}, {"tenant": "b"}) == {"tenant": "ab"}
    assert merge({"tenant": "a"}, {}) == {}
    assert merge({"tenant": "a"}, {"pool": "A"}) is None


def test_without_a_merge_equal_values_are_fused(tenant):
    register(tenant)
    assert merge({"tenant": "a"}, {"tenant": "a"}) == {"tenant": "a"}
    assert merge({"tenant": "a"}, {"tenant": "b"}) is None
    register(tenant, merge=lambda first, then: 1 / 0)
    with pytest.raises(AnnotationError, match=r"registered for the annotation 'tenant' failed: ZeroDivisionError"):
        merge({"tenant": "a"}, {"tenant": "b"})


@pytest.mark.parametrize(("then", "tasks"), [("a2", [{"tenant": "a2"}]), ("b1", [{"tenant": "a1"}, {"tenant": "b1"}])])
def test_chains_of_arrays_are_fused_by_it(tenant, then, tasks):
    register(tenant, merge=stricter)
    with hetsched.annotate(tenant="a1"):
        x = da.from_array(np.arange(3), chunks=3).map_blocks(lambda b: b + 1, **META)
    with hetsched.annotate(tenant=then):
        y = x.map_blocks(lambda b: b * 10, **META)
    assert y.sum().compute(scheduler=hetsched.get) == 60
    notes = [{**row.annotations} for row in hetsched.last_report() if "tenant" in row.annotations]
    assert [{"tenant": note["tenant"]} for note in notes] == tasks


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("pool", {}, "'pool' is in the standard vocabulary"),
        ("two words", {}, "not 'two words'"),
        ("tenant", {"describes": True}, "describes=True needs a merge"),
    ],
)
def test_what_cannot_be_registered(name, options, error):
    with pytest.raises((ValueError, TypeError), match=error):
        register(name, **options)


def test_the_words_are_themselves_after_a_copy():
    for found in (ABSENT, REFUSED):
        assert copy.deepcopy(found) is found
        assert pickle.loads(pickle.dumps(found)) is found
    assert repr(REFUSED) == "hetsched.annotations.REFUSED"


def test_the_module_is_there_without_being_imported():
    assert hetsched.annotations.register is register
