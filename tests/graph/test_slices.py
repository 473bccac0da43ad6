"""Slices of slices, joined as dask joins them: the same values, of one look at the array."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from dask.array.chunk import getitem
from dask.array.core import getter, getter_inline, getter_nofancy
from hypothesis import given
from hypothesis import strategies as st

from hetsched.core.types import EACH, Ref
from hetsched.graph.slices import join_slices
from hetsched.worker.plan import Chain

ARRAY = np.arange(60).reshape(6, 10)
SLICES = st.slices(6) | st.builds(slice, st.integers(0, 3), st.integers(0, 8), st.integers(1, 2))
INDEX = SLICES | st.tuples(SLICES) | st.tuples(SLICES, SLICES) | st.just([0]) | st.tuples(SLICES, st.just([1, 0]))


def run(links):
    try:
        return Chain(links)()
    except (IndexError, ValueError):
        return None


@given(
    st.sampled_from([getitem, getter, getter_nofancy, getter_inline]),
    st.lists(st.tuples(st.sampled_from([getitem, getter, getter_inline]), INDEX), min_size=1, max_size=4),
)
def test_the_value_is_the_same(func, more):
    links = [(func, (ARRAY, slice(1, None)), None), *((f, (Ref(0), index), None) for f, index in more)]
    joined = join_slices(links)
    value = run(links)
    if value is not None:
        np.testing.assert_array_equal(run(joined), value)


LOCK = threading.Lock()


@pytest.mark.parametrize(
    ("links", "joined"),
    [
        (
            [(getter, (ARRAY, slice(5, None)), None), (getitem, (Ref(0), slice(2, 6)), None)],
            [(getter, (ARRAY, slice(7, 11, None)), None)],
        ),
        (
            [
                (getter, (ARRAY, (slice(5, 9),)), {"asarray": False, "lock": LOCK}),
                (getitem, (Ref(0), (slice(1, 2),)), None),
            ],
            [(getter, (ARRAY, (slice(6, 7, None),), False, LOCK), None)],
        ),
        (
            [(getter_inline, (ARRAY, slice(1, 5)), None), (getitem, (Ref(0), slice(1, 2)), None), (abs, EACH, None)],
            [(getter, (ARRAY, slice(2, 3, None)), None), (abs, EACH, None)],
        ),
    ],
)
def test_what_is_joined(links, joined):
    assert join_slices(links) == joined


@pytest.mark.parametrize(
    "links",
    [
        [(getter, (ARRAY, slice(5)), None), (getitem, (Ref(0), (slice(2),)), None)],
        [(getter, (ARRAY, slice(5)), None), (getter, (Ref(0), slice(2), True, LOCK), None)],
        [(getter_nofancy, (ARRAY, slice(5)), None), (getitem, (Ref(0), [1, 2]), None)],
        [(getter, (ARRAY, (slice(5), None)), None), (getitem, (Ref(0), (slice(2),)), None)],
        [(getter, (ARRAY, slice(5)), None), (getitem, (Ref(0), slice(None, None, -1)), None)],
        [(getter, (ARRAY, slice(5)), None), (abs, EACH, None), (getitem, (Ref(0), slice(2)), None)],
        [(getter, (ARRAY, slice(5)), None), (getitem, (ARRAY, slice(2)), None)],
    ],
)
def test_what_is_not(links):
    assert join_slices(links) == links
