"""Over random layered graphs of every collection: an annotation is on exactly the task that runs its function."""

from __future__ import annotations

import functools
import operator
import threading
from contextlib import nullcontext

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetsched
from hetsched.core.annotations import validate

pytestmark = pytest.mark.filterwarnings("ignore:no GPU was found:UserWarning")

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
NOTES = st.fixed_dictionaries(
    {},
    optional={
        "job": st.sampled_from(["j", "k"]),
        "pool": st.sampled_from(["A", "B", ["A", "B"], None]),
        "executor": st.sampled_from(["cpu", "io"]),
        "priority": st.integers(-2, 2),
        "retries": st.integers(0, 2),
        "resources": st.sampled_from([{"MEM": 0}, {"MEM": 0.0, "DISK": 0}]),
        "workers": st.sampled_from([["embedded"], ["other", "embedded"]]),
        "allow_other_workers": st.booleans(),
        "replicate": st.sampled_from([1, "all"]),
        "nbytes": st.integers(0, 9),
        "duration": st.floats(0, 1),
        "team": st.sampled_from(["blue", 1, ("blue", 1)]),
    },
)
WAYS = st.sampled_from(["nothing", "dask", "hetsched", "per key", "task", "around and task"])
NINE = st.integers(0, 9)
STEPS = st.lists(st.tuples(NINE, NINE, st.integers(0, 5), WAYS, NOTES), min_size=1, max_size=8)
DESCRIBES = {"nbytes", "duration", "provenance"}


class Seen:
    """A function that notes the annotations of each task it runs in; sent to a process it would forget."""

    def __init__(self, given):
        self.lock = threading.Lock()
        self.given = given
        self.got = []

    def __call__(self, first, *rest, **kwargs):
        task = hetsched.current_task()
        if task is not None:  # else dask tries it out
            with self.lock:
                self.got.append((dict(task.annotations), task.executor))
        return first

    def __dask_tokenize__(self):
        return id(self)


class Watch:
    """Annotates functions in all ways, and looks afterwards whether the tasks that ran them had just that."""

    def __init__(self):
        self.seen = []

    def function(self, way, note):
        """A function, and what is to be around the call that uses it."""
        note = {} if way == "nothing" else note
        seen = Seen(validate(note))
        self.seen.append(seen)
        if way == "task":
            return hetsched.task(seen, **note), nullcontext()
        if way == "around and task":
            half = dict(list(note.items())[::2])
            rest = {name: value for name, value in note.items() if name not in half}
            return hetsched.task(seen, **rest), hetsched.annotate(**half)
        if way == "per key":
            return seen, hetsched.annotate(**{name: functools.partial(same, value) for name, value in note.items()})
        return seen, (dask.annotate if way == "dask" else hetsched.annotate)(**note)

    def check(self):
        """Every function ran with its annotations, as the rules of fusing leave them, and with no others."""
        for seen in self.seen:
            for got, executor in seen.got:
                for name, value in seen.given.items():
                    assert name in DESCRIBES or kept(name, value, got[name]), (name, seen.given, got)
                assert got.keys() - seen.given.keys() <= DESCRIBES, (seen.given, got)
                assert executor == seen.given.get("executor", "cpu")


def same(value, key):
    return value


def kept(name, value, got):
    """Whether a value is there, as it may be after fusing with others."""
    match name:
        case "priority" | "retries":
            return got >= value
        case "workers":
            return set(got) <= set(value)
        case "pool":
            allowed = value if isinstance(value, tuple) else (value,)
            return set(got if isinstance(got, tuple) else (got,)) <= set(allowed)
        case "allow_other_workers":
            return got <= value
        case "resources":  # those of which none is needed may be told of, or not
            return all(got[kind] >= value.get(kind, 0) and bool(got[kind]) == bool(value.get(kind)) for kind in got)
        case _:
            return got == value


def compute(*collections):
    return dask.compute(*collections, scheduler=hetsched.get)


@QUICK
@given(STEPS)
def test_arrays(steps):
    watch = Watch()
    meta = {"dtype": int, "meta": np.empty((0, 0), dtype=int)}
    want = np.arange(24).reshape(4, 6)
    made = [(da.from_array(want, chunks=(2, 3)), want)]
    plain = [
        lambda x: x + 1, lambda x: x[:, ::-1], lambda x: x * 2, lambda x: x[1:][::-1], lambda x: -x, lambda x: x[:, 1:]
    ]  # fmt: skip
    for one, other, kind, way, note in steps:
        x, a = made[one % len(made)]
        y, b = made[other % len(made)]
        func, around = watch.function(way, note)
        with around:
            if kind == 0 and x.chunks == y.chunks:
                made.append((da.map_blocks(func, x, y, **meta), a))
            elif kind == 1 and a.shape == b.shape:
                made.append((da.blockwise(func, "ij", x, "ij", y.rechunk(x.chunks), "ij", **meta), a))
            elif kind == 2:
                made.append((da.map_blocks(func, x.rechunk(2), **meta), a))
            else:
                made.append((x.map_blocks(func, **meta), a))
        if kind > 3 and min(a.shape) > 2:
            x, a = made[-1]
            made.append((plain[one % 6](x), plain[one % 6](a)))
    last = made[-2:]
    for got, (_, expected) in zip(compute(*(x for x, _ in last)), last, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert any(seen.got for seen in watch.seen)
    watch.check()


@QUICK
@given(STEPS)
def test_bags(steps):
    watch = Watch()
    made = [(db.range(6, npartitions=2), list(range(6)))]
    for one, other, kind, way, note in steps:
        x, a = made[one % len(made)]
        y, _ = made[other % len(made)]
        func, around = watch.function(way, note)
        with around:
            if kind == 0 and x is not y:  # dask gives both the same iterator
                made.append((x.map(func, y), a))
            elif kind == 1:
                made.append((x.map_partitions(func), a))
            elif kind == 2:
                made.append((x.map(func, k=other), a))
            else:
                made.append((x.map(func), a))
        if kind > 3:
            x, a = made[-1]
            made.append((x.map(operator.add, 1), [v + 1 for v in a]))
    last = made[-2:]
    for got, (_, expected) in zip(compute(*(x for x, _ in last)), last, strict=True):
        assert got == expected
    watch.check()


@QUICK
@given(STEPS)
def test_delayed(steps):
    watch = Watch()
    made = [dask.delayed(1)]
    for one, other, kind, way, note in steps:
        if kind % 4 > 1 and way == "dask":
            way = "hetsched"  # dask wraps what is in a list or named, and what it wraps gets what is around
        func, around = watch.function(way, note)
        x, y = made[one % len(made)], made[other % len(made)]
        with around:
            call = dask.delayed(func, traverse=kind % 2 == 0)
            made.append([call(x), call(x, y), call(x, [y, {"a": x}]), call(x, k=y)][kind % 4])
    assert compute(*made[-2:]) == (1, 1)
    watch.check()


@settings(QUICK, max_examples=10)
@given(STEPS)
def test_data_frames(steps):
    watch = Watch()
    frame = dd.from_pandas(pd.DataFrame({"a": range(6), "b": [0, 1] * 3}), npartitions=2)
    want = frame.compute(scheduler="sync")
    for one, other, kind, _way, note in steps[:4]:
        func, _ = watch.function("task", note)
        if kind < 2:
            frame = frame.map_partitions(func, meta=frame._meta)
        elif kind < 4:
            frame = frame.assign(b=frame.a.map(func, meta=("b", "i8")))
            want = want.assign(b=want.a)
        else:
            frame, want = frame.assign(a=frame.a + one)[frame.a >= 0], want.assign(a=want.a + one)
            frame = frame.map_partitions(func, other, meta=frame._meta)
    (got,) = compute(frame)
    pd.testing.assert_frame_equal(got, want, check_dtype=False)
    watch.check()


@QUICK
@given(STEPS)
def test_graphs_by_hand(steps):
    """Of tuples, our tasks and dask's, nested; the functions of nested calls have annotations of their own."""
    watch = Watch()
    graph = {("x", 0): 1}
    for one, other, kind, way, note in steps:
        names = list(graph)
        x, y = names[one % len(names)], names[other % len(names)]
        outer = Seen(validate(note))
        watch.seen.append(outer)
        carried, _ = watch.function("task", {**note, "job": "inner"} if way == "task" else {})
        inner = Seen(validate({"job": "nested", "priority": 1}))
        watch.seen.append(inner)
        nested = hetsched.Task(inner, y, annotations={"job": "nested", "priority": 1})
        key = ("t", len(graph))
        graph[key] = [
            hetsched.Task(outer, x, y, annotations=note),
            hetsched.Task(outer, x, nested, annotations=note),
            hetsched.Task(outer, x, [nested, (max, y, 0)], k=nested, annotations=note),
            (carried, nested),
            dask._task_spec.Task(key, min, dask._task_spec.TaskRef(x), nested),
            (max, [x, nested, y]),
        ][kind]
    last = list(graph)[-1]
    assert hetsched.get(graph, last) == 1
    watch.check()
