"""Annotations on a cluster: given in every way, and read by the task that has them."""

from __future__ import annotations

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import hetsched
from hetsched.annotations import register, unregister
from hetsched.errors import AnnotationError


def own(*_args, **_named):
    """What the task that runs this knows of itself, without the line that built it."""
    task = hetsched.current_task()
    return {name: value for name, value in task.annotations.items() if name != "provenance"}


def block(part, *_):
    """For arrays, bags and frames: pass a part on, and say in a side channel what this task is."""
    task = hetsched.current_task()
    if task is not None:
        SAID.append(own())
    return part


SAID = []
carried = hetsched.task(block, job="carried", retries=1)
known = hetsched.task(own, job="carried", retries=1)
CARRIED = {"job": "carried", "retries": 1}


def collections():
    array, frame = da.arange(4, chunks=2), dd.from_pandas(pd.DataFrame({"a": range(4)}), npartitions=2)
    return {
        "map_blocks": array.map_blocks(carried, dtype=int, meta=np.empty(0, int)),
        "apply_gufunc": da.apply_gufunc(carried, "()->()", array, output_dtypes=int),
        "bag.map": db.range(4, npartitions=2).map(carried),
        "bag.map_partitions": db.range(4, npartitions=2).map_partitions(carried),
        "map_partitions": frame.map_partitions(carried, meta=frame._meta),
        "delayed": dask.delayed(carried)(1),
        "by hand": None,
    }


@pytest.mark.parametrize("where", ["here", "cluster"])
@pytest.mark.parametrize("name", list(collections()))
def test_a_callable_wherever_one_is_passed(cluster, where, name):
    made = collections()[name]
    SAID.clear()
    get = hetsched.get
    if where == "cluster":
        with hetsched.Client(cluster) as client:
            run(made, client)
    else:
        run(made, get)
    assert SAID
    assert all(said == CARRIED for said in SAID)


def run(made, scheduler):
    if made is None:
        get = getattr(scheduler, "get", scheduler)
        assert get({"a": 1, "b": (carried, "a")}, "b") == 1
    else:
        made.compute(scheduler=scheduler)


def test_submit_and_map(client):
    assert client.submit(known, 1).result() == CARRIED
    assert client.gather(client.map(known, range(3))) == [CARRIED] * 3
    both = {"job": "call", "retries": 2, "team": "blue"}
    assert client.submit(known, 1, retries=2, annotations={"job": "call", "team": "blue"}).result() == both
    assert client.gather(client.map(own, [1], annotations={"priority": lambda key: key[1]})) == [{"priority": 0}]
    with hetsched.annotate(priority=lambda key: 3):
        assert client.submit(own).result() == {"priority": 3}
    with pytest.raises(AnnotationError, match="retries=-1"):
        client.submit(own, annotations={"retries": -1})
    assert "test_submit_and_map" in client.submit(provenance, priority=1).result()
    assert client.submit(provenance).result() is None


def provenance():
    return hetsched.current_task().annotations.get("provenance")


def test_compute_and_persist(client):
    made = [dask.delayed(own)(n, dask_key_name=("load-1a2b", n)) for n in range(2)]
    by_key = {"load": {"job": "l"}, ("load-1a2b", 1): {"priority": 2}}
    want = [{"team": "blue", "job": "l"}, {"team": "blue", "job": "l", "priority": 2}]
    assert client.gather(client.compute(*made, team="blue", annotations=by_key)) == want
    kept = client.persist(made, team="blue", annotations=by_key)
    assert list(dask.compute(*kept, scheduler=client)) == want
    assert dask.compute(*made, scheduler=client, annotations=by_key) == ({"job": "l"}, {"job": "l", "priority": 2})
    got = dask.compute(*made, scheduler=hetsched.get, annotations=by_key)
    assert got == ({"job": "l"}, {"job": "l", "priority": 2})
    (kept,) = dask.persist(made[0], scheduler=client, num_workers=3, annotations={"load": {"job": "l"}})
    assert kept.compute(scheduler=client) == {"job": "l"}


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_graphs_by_hand(cluster, where):
    graph = {
        "a": hetsched.Task(own, annotations={"job": "a", "resources": {"MEM": 0}}),
        "b": (list, [hetsched.Task(own, annotations={"job": "nested"}), "a", (own,)]),
        "c": dask._task_spec.Task("c", own, hetsched.Task(own, "b", annotations={"job": "in dask's"})),
    }
    if where == "cluster":
        with hetsched.Client(cluster) as client:
            got = client.get(graph, ["b", "c"])
    else:
        got = hetsched.get(graph, ["b", "c"])
    assert got == ([{"job": "nested"}, {"job": "a", "resources": {"MEM": 0.0}}, {}], {})


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_registered_names_travel(cluster, where):
    register("tenant", validate=str.lower)
    try:
        with hetsched.annotate(tenant="ACME"):
            made = dask.delayed(own)()
        if where == "cluster":
            with hetsched.Client(cluster) as client:
                assert made.compute(scheduler=client) == {"tenant": "acme"}
        else:
            assert made.compute(scheduler=hetsched.get) == {"tenant": "acme"}
    finally:
        unregister("tenant")


@pytest.mark.parametrize("executor", ["cpu", "io"])
def test_a_task_knows_itself_in_this_process(executor):
    with hetsched.annotate(job="j", executor=executor, pool="P", nested={"a": [1, (2, None)]}):
        made = dask.delayed(hetsched.current_task)()
    found = made.compute(scheduler=hetsched.get)
    assert {**found.annotations, "provenance": ""} == {
        "job": "j", "executor": executor, "pool": "P", "nested": {"a": [1, (2, None)]}, "provenance": "",
    }  # fmt: skip
    assert found.executor == executor
