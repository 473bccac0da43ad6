"""Tasks with annotations in graphs written by hand: beside tuples and dask's nodes, and nested in them."""

from __future__ import annotations

import operator
import pickle

import pytest
from dask._task_spec import List, Task, TaskRef

import hetsched
from hetsched.errors import AnnotationError


def both(*args, **kwargs):
    return args, kwargs


TEN = hetsched.Task(operator.mul, "y", 10, annotations={"job": "in"})
BASE = {"x": 1, "y": hetsched.Task(sum, ["x", "x"], annotations={"priority": 3})}
Y = ("y", {"priority": 3})
INNER = (("mul-part", "k", 2), {"job": "in"})


def rows():
    return [(row.key, dict(row.annotations)) for row in hetsched.last_report()]


@pytest.mark.parametrize(
    ("task", "value", "ran"),
    [
        ((abs, "y"), 2, [Y, ("k", {})]),
        (hetsched.Task(both, "y", kw="x"), ((2,), {"kw": 1}), [Y, ("k", {})]),
        (
            hetsched.Task(both, "y", a=["y", (abs, "x")], annotations={"job": "k"}),
            ((2,), {"a": [2, 1]}),
            [Y, ("k", {"job": "k"})],
        ),
        (
            (both, TEN, hetsched.Task(operator.add, "y", 2)),
            ((20, 4), {}),
            [Y, (("mul-part", "k", 1), {"job": "in"}), ("k", {})],
        ),
        (["y", TEN], [2, 20], [Y, INNER, ("k", {})]),
        (Task("k", both, TaskRef("y"), TEN), ((2, 20), {}), [Y, INNER, ("k", {})]),
        (Task("k", both, List(TaskRef("y"), TEN)), (([2, 20],), {}), [Y, INNER, ("k", {})]),
        (
            hetsched.Task(both, hetsched.Task(both, TEN, annotations={"job": "mid"}), annotations={"job": "top"}),
            ((((20,), {}),), {}),
            [Y, INNER, (("both-part", "k", 1), {"job": "mid"}), ("k", {"job": "top"})],
        ),
        (
            Task.fuse(Task("a", operator.neg, TaskRef("y")), Task("b", both, TaskRef("a"), TEN), key="k"),
            ((-2, 20), {}),
            [Y, (("a-part", "k", "a", 2), {}), (("mul-part", "k", 3), {"job": "in"}), ("k", {})],
        ),
    ],
)  # fmt: skip
def test_where_they_may_stand(task, value, ran):
    graph = {**BASE, "k": task}
    assert hetsched.get(graph, "k") == value
    assert rows() == ran
    assert graph == {**BASE, "k": task}


def test_a_fused_node_inside_of_another_counts_as_one_call():
    inner = Task.fuse(Task("a", operator.neg, TaskRef("y")), Task("b", operator.add, TaskRef("a"), TEN), key="b")
    assert hetsched.get({**BASE, "k": Task("k", both, inner)}, "k") == ((18,), {})
    assert rows() == [Y, ("k", {"job": "in"})]


def test_all_ways_at_once():
    carried = hetsched.task(abs, retries=1, job="callable")
    graph = {"a": hetsched.Task(carried, -3, annotations={"job": "task", "priority": 2})}
    with hetsched.annotate(pool="A", job="around"):
        assert hetsched.get(graph, "a", annotations={"a": {"priority": 9}}) == 3
    ((_, notes),) = rows()
    notes.pop("provenance")
    assert notes == {"pool": "A", "job": "task", "retries": 1, "priority": 9}


def test_equal_annotations_become_one_dict():
    graph = {("a", n): hetsched.Task(abs, n, annotations={"resources": {"GPU": 0}}) for n in range(4)}
    hetsched.get(graph, list(graph))
    notes = [row.annotations for row in hetsched.last_report()]
    assert notes == [{"resources": {"GPU": 0.0}}] * 4
    assert len({*map(id, notes)}) == 1
    odd = object()
    graph = {n: hetsched.Task(abs, -9.5, annotations={"mine": odd, "flag": flag}) for n, flag in enumerate((True, 1))}
    hetsched.get(graph, [0, 1])
    assert {row.key: row.annotations["flag"] is True for row in hetsched.last_report()} == {0: True, 1: False}


def test_a_bad_value_names_the_task():
    with pytest.raises(AnnotationError, match="the annotation priority='high' is not allowed") as caught:
        hetsched.get({"a": hetsched.Task(abs, 1, annotations={"priority": "high"})}, "a")
    assert caught.value.__notes__ == ["it was given to the task 'a'"]


def test_what_it_is():
    task = hetsched.Task(abs, "y", rate=1, annotations={"job": "j"})
    assert isinstance(task, hetsched.GraphTask)
    assert (task.func, task.args, task.kwargs, task.annotations) == (abs, ("y",), {"rate": 1}, {"job": "j"})
    assert repr(task) == "Task(abs, 'y', rate=1, annotations={'job': 'j'})"
    back = pickle.loads(pickle.dumps(task))
    assert repr(back) == repr(task)
    assert hetsched.Task(abs, annotations={}).annotations is None
