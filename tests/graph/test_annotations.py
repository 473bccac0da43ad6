"""Annotations reach the tasks that run the annotated functions, and no others; read in the report."""

from __future__ import annotations

import functools
import threading
import warnings

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask._expr import HLGExpr
from dask._task_spec import Task, TaskRef
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from hypothesis import given, settings
from hypothesis import strategies as st

import hetsched
from hetsched.errors import AnnotationError

pytestmark = pytest.mark.filterwarnings("ignore:no GPU was found:UserWarning")

META = {"dtype": int, "meta": np.empty(0, dtype=int)}


def inc(x):
    return x + 1


def noted(name="job"):
    """How many tasks of the last report have each value of an annotation (None: without)."""
    counts: dict[object, int] = {}
    for row in hetsched.last_report():
        value = row.annotations.get(name)
        counts[value] = counts.get(value, 0) + 1
    return counts


def executors(name="job"):
    return {row.annotations.get(name): row.executor for row in hetsched.last_report() if name in row.annotations}


class Seen:
    """A function that notes how often it is called, and on the threads of which executor."""

    def __init__(self):
        self.lock = threading.Lock()
        self.executors: list[str] = []

    def __call__(self, block, *args):
        with self.lock:
            self.executors.append(threading.current_thread().name.split("-")[1])
        return block


def compute(*collections):
    out = dask.compute(*collections, scheduler=hetsched.get)
    return out[0] if len(out) == 1 else out


# Arrays


def test_an_array_layer_between_others():
    seen = Seen()
    x = da.arange(8, chunks=2) + 1
    with dask.annotate(job="j", executor="io", priority=3):
        y = x.map_blocks(seen, **META)
    assert compute((y * 2).sum()) == 72
    assert noted()["j"] == len(seen.executors) == 4
    assert seen.executors == ["io"] * 4
    assert executors() == {"j": "io"}
    assert {r.annotations["priority"] for r in hetsched.last_report() if "job" in r.annotations} == {3}


def test_a_callable_in_an_array():
    seen = Seen()
    x = da.arange(8, chunks=2) + 1
    y = x.map_blocks(hetsched.task(seen, job="j", executor="io"), **META) + 1
    assert compute(y.sum()) == 44
    assert noted()["j"] == len(seen.executors) == 4
    assert seen.executors == ["io"] * 4
    assert executors() == {"j": "io"}


def test_a_layer_and_a_callable_in_it_the_callable_wins():
    f = hetsched.task(inc, job="inner")
    with dask.annotate(job="outer", retries=2):
        y = da.arange(4, chunks=2).map_blocks(f, **META)
    assert compute(y).tolist() == [1, 2, 3, 4]
    rows = [row.annotations for row in hetsched.last_report() if row.annotations.get("job") == "inner"]
    assert [{**row, "provenance": ""} for row in rows] == [{"job": "inner", "retries": 2, "provenance": ""}] * 2


@pytest.mark.parametrize(
    "build",
    [
        lambda x, f: da.map_blocks(f, x, **META),
        lambda x, f: da.blockwise(f, "i", x, "i", **META),
        lambda x, f: x.map_overlap(f, depth=1, boundary=0, **META),
        lambda x, f: da.apply_gufunc(f, "()->()", x, output_dtypes=int),
        lambda x, f: da.map_blocks(lambda b, g: g(b), x, f, **META),
        lambda x, f: da.map_blocks(lambda b, g=None: g(b), x, g=f, **META),
        lambda x, f: x.map_blocks(functools.partial(f), **META),
        lambda x, f: x.map_blocks(functools.partial(lambda g, b: g(b), f), **META),
    ],
)
def test_ways_of_an_array_to_call_a_function(build):
    x = da.arange(8, chunks=2)
    assert compute(build(x + 0, hetsched.task(inc, job="j"))).tolist() == list(range(1, 9))
    assert noted()["j"] == 4


def test_callables_per_key():
    with dask.annotate(priority=lambda key: key[1], job=lambda key: f"j{key[1] % 2}"):
        y = da.arange(8, chunks=2).map_blocks(inc, **META)
    assert compute(y.sum()) == 36
    notes = [row.annotations for row in hetsched.last_report() if row.annotations]
    rows = sorted((note["priority"], note["job"]) for note in notes)
    assert rows == [(0, "j0"), (1, "j1"), (2, "j0"), (3, "j1")]


@pytest.mark.parametrize("around", [False, True])
def test_slices_of_slices_are_read_as_one(around):
    class File:
        shape, dtype, ndim = (100, 100), np.dtype(float), 2

        def __init__(self):
            self.read = []

        def __getitem__(self, index):
            self.read.append(tuple(len(range(*s.indices(100))) for s in index))
            return np.ones(self.shape)[index]

    file = File()
    y = da.from_array(file, chunks=50, meta=np.empty((0, 0)))[:10][:, 5:8]
    if around:
        with dask.annotate(job="j"):
            y = y + 1
    assert compute(y).tolist() == [[1.0 + around] * 3] * 10
    assert sum(a * b for a, b in file.read) == 30
    file.read.clear()
    y.compute(scheduler="sync")
    assert sum(a * b for a, b in file.read) >= 30


# Any array


OPERATIONS = {
    "plain": lambda x: x.map_blocks(inc, dtype=int, meta=np.empty((0, 0), int)) if isinstance(x, da.Array) else x + 1,
    "add": lambda x: x + 3,
    "transpose": lambda x: x.T,
    "slice": lambda x: x[:, ::-1][1:],
    "rechunk": lambda x: x.rechunk(2) if isinstance(x, da.Array) else x,
    "self": lambda x: x + x[::-1],
}


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(["map", "task", *OPERATIONS]), min_size=1, max_size=7),
    st.lists(st.sampled_from(["cpu", "io", "gpu"]), min_size=7, max_size=7),
)
def test_any_array_expression(operations, lanes):
    want = np.arange(24).reshape(4, 6)
    x = da.from_array(want, chunks=(2, 3))
    functions: dict[str, tuple[Seen, str]] = {}
    meta = {"dtype": int, "meta": np.empty((0, 0), dtype=int)}
    for i, (operation, lane) in enumerate(zip(operations, lanes, strict=False)):
        if operation in OPERATIONS:
            x, want = OPERATIONS[operation](x), OPERATIONS[operation](want)
            continue
        seen = Seen()
        functions[f"j{i}"] = seen, lane
        note = {"job": f"j{i}", "executor": lane}
        if operation == "task":
            x = x.map_blocks(hetsched.task(seen, **note), **meta)
        else:
            with dask.annotate(**note):
                x = x.map_blocks(seen, **meta)
    np.testing.assert_array_equal(compute(x), want)
    ran = noted()
    for job, (seen, lane) in functions.items():
        assert seen.executors == [lane] * ran.get(job, 0), job
    assert {row.executor for row in hetsched.last_report() if "job" not in row.annotations} <= {"cpu"}


# Bags, delayed, data frames


def test_a_bag():
    b = db.range(6, npartitions=3)
    with dask.annotate(job="j", pool="A"):
        c = b.map(inc)
    assert compute(c.map(inc).sum()) == 27
    assert noted()["j"] == 3
    assert [r.annotations for r in hetsched.last_report() if r.annotations] == [{"job": "j", "pool": "A"}] * 3


@pytest.mark.parametrize(
    ("build", "want", "tasks"),
    [
        (lambda b, task: b.map(task(inc)).map(inc), [2, 3, 4, 5], 2),
        (lambda b, task: b.map_partitions(task(list)), [0, 1, 2, 3], 2),
        (lambda b, task: b.filter(task(bool)), [1, 2, 3], 2),
        (lambda b, task: b.fold(task(lambda x, y: x + y)), 6, 3),
        (lambda b, task: b.reduction(task(sum), sum), 6, 2),
        (lambda b, task: b.foldby(task(lambda x: x % 2), lambda x, y: x + y), [(0, 2), (1, 4)], 2),
    ],
)
def test_ways_of_a_bag_to_call_a_function(build, want, tasks):
    got = compute(build(db.range(4, npartitions=2), functools.partial(hetsched.task, job="j")))
    assert (sorted(got) if isinstance(got, list) else got) == want
    assert noted().get("j", 0) >= tasks


def test_delayed():
    with dask.annotate(job="j", pool="A", priority=3):
        d = dask.delayed(inc)(1)
    assert compute(dask.delayed(inc)(d)) == 3
    assert [dict(row.annotations) for row in hetsched.last_report()] == [{"job": "j", "pool": "A", "priority": 3}, {}]


class Model:
    @hetsched.task(job="j")
    def predict(self, x):
        return x + 1


@pytest.mark.parametrize(
    "func", [hetsched.task(inc, job="j"), functools.partial(hetsched.task(inc, job="j")), Model().predict]
)
def test_callables_in_delayed(func):
    assert compute(dask.delayed(func)(dask.delayed(inc)(1))) == 3
    assert noted() == {"j": 1, None: 1}
    assert compute(dask.delayed(lambda f, x: f(x))(func, 1)) == 2
    assert noted() == {"j": 1}
    assert compute(dask.delayed(lambda fs, x: fs[0](x))([func], 1)) == 2
    assert noted() == {"j": 1}


@pytest.fixture
def frame():
    return dd.from_pandas(pd.DataFrame({"a": range(6), "b": [0, 1] * 3}), npartitions=3)


@pytest.mark.parametrize(
    ("build", "tasks"),
    [
        (lambda f, task: f.map_partitions(task(lambda p: p)).a.sum(), 3),
        (lambda f, task: f.assign(c=1).map_partitions(task(lambda p: p)).assign(d=2).a.sum(), 3),
        (lambda f, task: f.a.map(task(lambda x: x), meta=("a", "i8")).sum(), 3),
        (lambda f, task: f.a.apply(task(lambda x: x), meta=("a", "i8")).sum(), 3),
        (lambda f, task: f.groupby("b").apply(task(lambda g: g.a.sum()), meta=("a", "i8")).sum(), 3),
    ],
)
def test_callables_in_a_data_frame(frame, build, tasks):
    def task(func):
        return hetsched.task(func, job="j", executor="io", pool="A")

    assert compute(build(frame, task)) == 15
    assert noted().get("j", 0) == tasks
    assert executors() == {"j": "io"}


def test_around_compute_every_kind(frame):
    for lazy, want in [
        (da.arange(4, chunks=2).map_blocks(inc, **META).sum(), 10),
        (db.range(4, npartitions=2).map(inc).sum(), 10),
        (dask.delayed(inc)(1), 2),
        (frame.a.sum(), 15),
    ]:
        with hetsched.annotate(job="around", retries=1):
            assert compute(lazy) == want
        assert set(noted()) == {"around"}
        assert {row.annotations["retries"] for row in hetsched.last_report()} == {1}


def test_a_layer_wins_over_what_is_around_compute():
    with dask.annotate(job="layer"):
        d = dask.delayed(inc)(1)
    with hetsched.annotate(job="around"):
        assert compute(dask.delayed(inc)(d)) == 3
    assert noted() == {"layer": 1, "around": 1}


# On the call

DSK = {("load-1a2b", 0): (inc, 1), ("load-1a2b", 1): (inc, 2), "c": (sum, [("load-1a2b", 0), ("load-1a2b", 1)])}


def test_by_key_and_by_prefix():
    notes = {"load": {"executor": "io", "job": "l"}, ("load-1a2b", 1): {"job": "one"}, "c": {"priority": 10}}
    assert hetsched.get(DSK, "c", annotations=notes) == 5
    assert {row.key: (row.executor, dict(row.annotations)) for row in hetsched.last_report()} == {
        ("load-1a2b", 0): ("io", {"executor": "io", "job": "l"}),
        ("load-1a2b", 1): ("io", {"executor": "io", "job": "one"}),
        "c": ("cpu", {"priority": 10}),
    }


def test_the_call_wins_over_the_graph():
    layer = MaterializedLayer(DSK, annotations={"job": "layer", "retries": 1})
    assert hetsched.get(HighLevelGraph({"l": layer}, {"l": set()}), "c", annotations={"c": {"job": "call"}}) == 5
    assert noted() == {"layer": 2, "call": 1}
    assert noted("retries") == {1: 3}


def test_names_of_no_task_are_warned_about():
    with pytest.warns(UserWarning, match="names no task of this graph: 'lod'"):
        hetsched.get(DSK, "c", annotations={"lod": {"retries": 1}})


def test_bad_values_are_errors_at_once():
    ran = []
    for notes in ({"c": {"priority": "high"}}, {"c": {"executor": "gpus"}}, {"c": 3}):
        with pytest.raises(AnnotationError, match=r"priority|executor|'c'"):
            hetsched.get({"c": (ran.append, 1)}, "c", annotations=notes)
    with dask.annotate(retries=-1):
        d = dask.delayed(ran.append)(1)
    with pytest.raises(AnnotationError, match="retries=-1"):
        compute(d)
    assert ran == []


@pytest.mark.parametrize(
    ("notes", "says"),
    [
        ({"workers": ["nobody"]}, "nobody"),
        ({"resources": {"TPU": 1}}, "TPU"),
        ({"resources": {"GPU": 1000}}, "GPU"),
    ],
)
def test_what_nobody_can_run_is_an_error_at_once(notes, says):
    ran = []
    with pytest.raises(ValueError, match=f"'c'.*{says}") as caught:
        hetsched.get({"a": (ran.append, 1), "c": (inc, "a")}, "c", annotations={"c": notes})
    assert isinstance(caught.value, hetsched.errors.NoWorkerError)
    assert ran == []
    if "workers" in notes:
        assert hetsched.get({"c": (inc, 1)}, "c", annotations={"c": {**notes, "allow_other_workers": True}}) == 2


def test_unknown_names_are_kept_as_they_are():
    lock = threading.Lock()
    with dask.annotate(team="blue", lock=lock):
        x = da.arange(4, chunks=2) + 1
    assert compute(x.sum()) == 10
    rows = [row.annotations for row in hetsched.last_report() if row.annotations]
    assert [set(row) for row in rows] == [{"team", "lock"}] * 2
    assert all(row["lock"] is lock for row in rows)


# Fusing


@pytest.mark.parametrize(
    ("first", "then", "merged"),
    [
        ({"retries": 1}, {"retries": 3}, [{"retries": 3}]),
        ({"priority": 5}, {"priority": 2}, [{"priority": 5}]),
        ({"workers": ["a", "embedded"]}, {"workers": ["embedded"]}, [{"workers": ("embedded",)}]),
        ({"pool": "A"}, {"pool": "A"}, [{"pool": "A"}]),
        ({"pool": "A"}, {"pool": "B"}, [{"pool": "A"}, {"pool": "B"}]),
        ({"executor": "io"}, {"executor": "cpu"}, [{"executor": "io"}, {"executor": "cpu"}]),
        ({"retries": 1}, {}, [{"retries": 1}, {}]),
        ({"nbytes": 10}, {"nbytes": 20}, [{"nbytes": 20}]),
        ({"duration": 1.0}, {"duration": 2.0}, [{"duration": 3.0}]),
    ],
)
def test_chains_are_fused_by_the_rules(first, then, merged):
    x = da.from_array(np.arange(3), chunks=3)
    with dask.annotate(**first):
        y = x.map_blocks(inc, **META)
    with dask.annotate(**then):
        z = y.map_blocks(lambda b: b * 10, **META)
    (got,) = hetsched.get(HLGExpr.from_collection(z), z.__dask_keys__())
    assert got.tolist() == [10, 20, 30]
    assert [dict(row.annotations) for row in hetsched.last_report()] == merged


def test_the_user_may_turn_fusion_off():
    x = da.from_array(np.arange(3), chunks=3)
    with dask.annotate(retries=1):
        y = x.map_blocks(inc, **META)[::-1]
    with dask.config.set({"optimization.fuse.active": False}):
        assert compute(y).tolist() == [3, 2, 1]
    assert noted("retries")[1] == 2
    assert compute(y).tolist() == [3, 2, 1]
    assert noted("retries")[1] == 1


def test_the_configuration_is_the_same_after_calls_that_overlap():
    """dask's configuration is the whole process's: two calls that set and put back a value must not mix."""
    entered, second_entered, first_done = threading.Event(), threading.Event(), threading.Event()

    def expression(optimizer):
        layer = MaterializedLayer({"a": (inc, 1)}, annotations={"priority": 1})
        graph = HighLevelGraph({"l": layer}, {"l": set()})
        return HLGExpr(graph, low_level_optimizer=optimizer, output_keys=["a"])

    def first_optimizer(graph, keys):
        entered.set()
        second_entered.wait(2)
        return graph

    def second_optimizer(graph, keys):
        second_entered.set()
        first_done.wait(2)
        return graph

    def first():
        hetsched.get(expression(first_optimizer), ["a"])
        first_done.set()

    def second():
        entered.wait(10)
        hetsched.get(expression(second_optimizer), ["a"])

    names = ["optimization.fuse.active", "optimization.annotations.fuse"]
    before = [dask.config.get(name, None) for name in names]
    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [dask.config.get(name, None) for name in names] == before
    finally:
        dask.config.set(dict(zip(names, before, strict=True)))


def test_fused_subgraphs_are_taken_apart_where_a_callable_carries_annotations():
    f = hetsched.task(inc, job="j", executor="io")
    fused = Task.fuse(Task("a", inc, TaskRef("x")), Task("b", f, TaskRef("a")), Task("c", inc, TaskRef("b")))
    assert hetsched.get({"x": Task("x", inc, 0), "c": fused}, "c") == 4
    assert noted() == {"j": 1, None: 3}
    assert executors() == {"j": "io"}
    inner = Task.fuse(Task("b", f, TaskRef("y")), Task("c", inc, TaskRef("b")))
    twice = Task.fuse(Task("y", inc, TaskRef("x")), inner, key="c")
    assert hetsched.get({"x": Task("x", inc, 0), "c": twice}, "c") == 4
    assert noted() == {"j": 1, None: 3}


def test_delayed_with_and_without_annotations_computed_unoptimised():
    with dask.annotate(job="j"):
        parts = [dask.delayed(inc)(n) for n in range(3)]
    total = dask.delayed(sum)([dask.delayed(inc)(part) for part in parts])
    assert dask.compute(total, scheduler=hetsched.get, optimize_graph=False) == (9,)
    assert noted() == {"j": 3, None: 4}


def test_data_frames_warn_by_themselves(frame):
    """dask says so where the annotation is lost; what is said here must stay true of dask."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with dask.annotate(retries=2):
            out = frame.map_partitions(lambda p: p)
        compute(out.a.sum())
    told = any("annot" in str(w.message).lower() for w in caught)
    assert told or noted("retries").get(2)
