"""Annotations that are functions of the key, in every way in: each is called with the key as it was written."""

from __future__ import annotations

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import hetsched
from hetsched.errors import AnnotationError, GraphError

META = {"dtype": int, "meta": np.empty(0, dtype=int)}


def inc(x):
    return x + 1


def first(key):
    return key[0] if isinstance(key, tuple) else key


NOTES = {
    "priority": lambda key: len(first(key)),
    "retries": lambda key: len(first(key)),
    "workers": lambda key: [first(key), "embedded"],
    "resources": lambda key: {first(key): 0},
    "pool": first,
    "job": first,
    "nbytes": lambda key: len(first(key)),
    "duration": lambda key: float(len(first(key))),
    "replicate": lambda key: len(first(key)),
    "allow_other_workers": lambda key: bool(key),
    "executor": lambda key: "io" if key else "cpu",
    "gpu": lambda key: not key,
    "provenance": first,
    "not of ours": lambda key: key,
}


SHARED = {
    "priority", "workers", "resources", "retries", "duration", "nbytes", "allow_other_workers", "executor", "gpu",
    "provenance",
}  # fmt: skip
"""Where the answers for three keys can be one task's."""


def ran():
    return {row.key: row.annotations for row in hetsched.last_report()}


def whole(key):
    """The key as it was written, of a task that was a part of it."""
    return whole(key[1]) if str(first(key)).endswith("-part") else key


def expected(name, key):
    note = hetsched.core.annotations.validate({name: NOTES[name](whole(key))})
    return note[name]


@pytest.mark.parametrize("name", list(NOTES))
def test_every_name_in_every_way(name):
    note = {name: NOTES[name]}
    graph = {"x-1": (inc, 1), ("y-2", 0): (inc, (inc, "x-1")), "z": [("y-2", 0)]}
    with dask.annotate(**note):
        assert hetsched.get(graph, "z") == [4]
    assert {key: found[name] for key, found in ran().items()} == {key: expected(name, key) for key in graph}
    hetsched.get(graph, "z", annotations={"x": note, ("y-2", 0): note})
    assert ran() == {"x-1": {name: expected(name, "x-1")}, ("y-2", 0): {name: expected(name, ("y-2", 0))}, "z": {}}
    own = {"a": hetsched.Task(inc, 1, annotations=note), "b": (inc, hetsched.Task(inc, "a", annotations=note))}
    hetsched.get(own, "b")
    assert ran() == {"a": {name: expected(name, "a")}, ("inc-part", "b", 1): {name: expected(name, "b")}, "b": {}}
    hetsched.get({("c", 5): (inc, 1), "d": (hetsched.task(inc, **note), ("c", 5))}, "d")
    assert ran()["d"][name] == expected(name, "d")
    assert ran()["c", 5] == {}


@pytest.mark.parametrize("name", list(NOTES))
def test_layers_of_arrays_on_each_other(name):
    with dask.annotate(**{name: NOTES[name]}):
        x = da.arange(4, chunks=2).map_blocks(inc, name="one", **META).map_blocks(inc, name="two", **META)
    with dask.annotate(**{name: NOTES[name]}):
        x = x.map_blocks(inc, name="three", **META)
    assert dask.compute(x, scheduler=hetsched.get)[0].tolist() == [3, 4, 5, 6]
    rows = ran()
    for number in range(2):
        said = rows["three", number][name]
        assert said == expected(name, ("three", number)) or name in SHARED, said
    assert ("two", 0) in rows or name in SHARED
    assert sum(name in found for found in rows.values()) >= 2


def collections():
    with hetsched.annotate(priority=lambda key: hash(key) % 1000):
        yield da.arange(4, chunks=2).map_blocks(inc, **META).map_blocks(hetsched.task(inc, retries=1), **META)
        yield db.range(4, npartitions=2).map(inc).map(hetsched.task(inc, retries=1)).map(inc)
        yield dask.delayed(sum)([dask.delayed(inc)(n) for n in range(3)])
    yield dd.from_pandas(pd.DataFrame({"a": range(4)}), npartitions=2).map_partitions(hetsched.task(inc, retries=1))


def test_around_compute_also_for_parts_of_what_dask_fused():
    for number, made in enumerate(collections()):
        keys = []
        with hetsched.annotate(job=lambda key, keys=keys: keys.append(key) or f"j{len(keys)}"):
            dask.compute(made, scheduler=hetsched.get)
        assert {row.annotations["job"] for row in hetsched.last_report()} <= {f"j{n + 1}" for n in range(len(keys))}
        assert not [key for key in keys if str(first(key)).endswith("-part")], number


def test_pools_are_told_of_what_is_said_by_key():
    with hetsched.annotate(priority=lambda key: 1, pool=lambda key: "A"):
        assert hetsched.get_pool(da.arange(4, chunks=2) + 1) == "A"


@pytest.mark.parametrize("mine", ["x", ("x", 0)])
def test_a_bad_answer_names_the_task(mine):
    with pytest.raises(AnnotationError, match=r"retries='many' of the task .*x"):
        hetsched.get({mine: (inc, 1)}, mine, annotations={"x": {"retries": lambda _: "many"}})


def test_what_is_neither_a_name_nor_a_callable_is_refused():
    for build in (
        lambda: hetsched.get({"x": hetsched.Task(inc, 1, annotations={1: 2})}, "x"),
        lambda: hetsched.get({"x": (inc, hetsched.Task(inc, 1, annotations={"retries": 1, None: 2}))}, "x"),
        lambda: hetsched.get({"x": (inc, 1)}, "x", annotations={"x": {b"retries": 1}}),
    ):
        with pytest.raises(AnnotationError, match="an annotation's name is a text, and not"):
            build()
    with pytest.raises(AnnotationError, match=r"it is not \['load'\]"):
        hetsched.get({"x": (inc, 1)}, "x", annotations=["load"])
    named = hetsched.Task("inc", 1, annotations={"job": "j"})
    for own in (hetsched.Task("inc", 1), hetsched.Task("inc", (inc, 1)), [named]):
        with pytest.raises(GraphError, match="takes a callable, not 'inc'; it was given for the task 'x'"):
            hetsched.get({"x": own}, "x")
