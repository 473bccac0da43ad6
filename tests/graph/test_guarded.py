"""What dask's optimiser of arrays would do to annotations as it joins layers, it is kept from doing."""

from __future__ import annotations

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest

import hetsched
from hetsched.annotations import REFUSED, register, unregister

META = {"dtype": int, "meta": np.empty(0, dtype=int)}


def inc(x):
    return x + 1


def dec(x):
    return x - 1


def both(x, y):
    return x + y


def noted(name):
    """What the tasks that dask has for the blocks, and not to put them together, have of an annotation."""
    rows = [row for row in hetsched.last_report() if not str(row.key).startswith("finalize")]
    return [row.annotations.get(name) for row in rows]


def compute(made, **kwargs):
    return dask.compute(made, scheduler=hetsched.get, **kwargs)[0]


@pytest.mark.parametrize("note", [{"workers": "embedded"}, {"workers": ["embedded", "b", "a"]}, {"retries": 2}])
def test_equal_annotations_stay_what_they_are(note):
    with dask.annotate(**note):
        x = da.arange(4, chunks=4).map_blocks(inc, **META).map_blocks(inc, **META)
    layer = x.dask.layers[x.name]
    before = dict(layer.annotations)
    assert compute(x).tolist() == [2, 3, 4, 5]
    ((name, value),) = note.items()
    (said,) = set(noted(name))
    assert said == hetsched.core.annotations.validate({name: value})[name]
    assert layer.annotations == before


def test_a_duration_is_of_each_function():
    with hetsched.annotate(duration=1.5):
        x = da.arange(4, chunks=2).map_blocks(inc, **META).map_blocks(inc, **META)
    assert compute(x).tolist() == [2, 3, 4, 5]
    assert sum(noted("duration")) == pytest.approx(9)


def test_a_registered_merge_is_asked_of_equal_values_too():
    register("seat", merge=lambda first, then: REFUSED)
    try:
        with hetsched.annotate(seat=1):
            x = da.arange(4, chunks=4).map_blocks(inc, **META).map_blocks(inc, **META)
        assert compute(x).tolist() == [2, 3, 4, 5]
        assert noted("seat") == [1] * 3
    finally:
        unregister("seat")


def test_values_that_cannot_be_compared_are_no_error():
    parts = da.arange(4, chunks=4)
    for _ in range(2):
        with hetsched.annotate(shelf=np.arange(3)):
            parts = parts.map_blocks(inc, **META)
    assert compute(parts).tolist() == [2, 3, 4, 5]


def roots(name):
    return da.Array({(name, 0): (np.arange, 2), (name, 1): (np.arange, 2)}, name, chunks=((2, 2),), dtype=int)


def test_layers_that_are_joined_with_their_roots_keep_theirs():
    with hetsched.annotate(job="j"):
        x = da.map_blocks(both, roots("a"), roots("b"), **META)
    assert compute(x).tolist() == [0, 2, 0, 2]
    assert set(noted("job")) == {"j"}


@pytest.mark.parametrize("build", [
    lambda: (da.arange(4, chunks=2).map_blocks(inc, **META).map_blocks(dec, **META) + 1).map_blocks(dec, **META),
    lambda: db.range(4, npartitions=2).map(inc).map(dec).map(inc).map(dec),
], ids=["array", "bag"])  # fmt: skip
def test_what_the_call_says_of_a_layer_is_not_lost_in_fusing(build):
    made = build()
    assert list(compute(made, annotations={"inc": {"job": "j"}})) == [0, 1, 2, 3]
    found = noted("job")
    assert "j" in found
    assert None in found
    name = next(name for name in made.dask.layers if name.startswith("inc"))
    assert list(compute(made, annotations={(name, 1): {"job": "one"}})) == [0, 1, 2, 3]
    assert noted("job").count("one") == 1
