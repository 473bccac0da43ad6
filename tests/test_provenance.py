"""Annotated tasks know the line that built them."""

from __future__ import annotations

import pickle
import re

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest

import hetsched
from hetsched.provenance import Noted, Site

META = {"dtype": int, "meta": np.empty(0, dtype=int)}
HERE = re.escape(__file__)


def inc(x):
    return x + 1


def sites():
    """The lines of the tasks of the last report that have one."""
    return sorted({row.annotations["provenance"] for row in hetsched.last_report() if "provenance" in row.annotations})


def line(site):
    match = re.fullmatch(rf"{HERE}:(\d+) in (\S+)", site)
    assert match, site
    return int(match[1]), match[2]


def first_line(func):
    return func.__code__.co_firstlineno


def build_arrays():
    with hetsched.annotate(job="a"):
        x = da.arange(8, chunks=4).map_blocks(inc, **META)
        return x.map_blocks(inc, **META)


def test_each_layer_has_its_line():
    build_arrays().compute(scheduler=hetsched.get)
    found = [line(site) for site in sites()]
    assert {at - first_line(build_arrays) for at, _ in found} <= {2, 3}
    assert {name for _, name in found} == {"build_arrays"}
    with hetsched.annotate(job="b"):
        b = db.range(4, npartitions=2).map(inc)
        d = dask.delayed(inc)(1)
    for made in (b, d):
        dask.compute(made, scheduler=hetsched.get)
        (site,) = sites()
        assert line(site)[1] == "test_each_layer_has_its_line"


def test_lines_do_not_keep_dask_from_fusing():
    with hetsched.annotate(job="a"):
        x = da.arange(8, chunks=4)
        x = x + 1
        x = x * 2
    x.compute(scheduler=hetsched.get)
    with dask.annotate(job="a"):
        y = (da.arange(8, chunks=4) + 1) * 2
    count = len(hetsched.last_report())
    y.compute(scheduler=hetsched.get)
    assert len(hetsched.last_report()) == count


def test_a_callable_has_the_line_that_annotated_it():
    with dask.annotate(pool="A"):
        d = dask.delayed(hetsched.task(inc, retries=1))(1)
    d.compute(scheduler=hetsched.get)
    (site,) = sites()
    assert line(site)[1] == "test_a_callable_has_the_line_that_annotated_it"


def test_an_error_says_where_its_task_was_built():
    with hetsched.annotate(job="a"):
        d = dask.delayed(lambda: 1 / 0)()
    with pytest.raises(ZeroDivisionError) as caught:
        d.compute(scheduler=hetsched.get)
    assert re.search(rf"; built at {HERE}:\d+ in test_an_error_says", caught.value.__notes__[0])


def test_what_a_person_says_stays():
    with hetsched.annotate(provenance="step 3"):
        d = dask.delayed(inc)(1)
    d.compute(scheduler=hetsched.get)
    assert sites() == ["step 3"]


def test_off():
    with dask.config.set({"hetsched.provenance": False}):
        build_arrays().compute(scheduler=hetsched.get)
        assert sites() == []
        assert hetsched.task(inc, job="a") == hetsched.task(inc, job="a")
        dask.delayed(hetsched.task(inc, job="a"))(1).compute(scheduler=hetsched.get)
        assert sites() == []


def test_tasks_without_annotations_have_none():
    dask.delayed(inc)(1).compute(scheduler=hetsched.get)
    assert sites() == []
    with dask.annotate(job="a"):
        d = dask.delayed(inc)(1)
    d.compute(scheduler=hetsched.get)
    assert sites() == []


def test_what_was_built_before_keeps_out_of_the_block():
    before = dask.delayed(inc)(1)
    with hetsched.annotate(job="a"):
        total = dask.delayed(sum)([before, before])
    assert total.compute(scheduler=hetsched.get) == 4
    assert [row.annotations.get("job") for row in hetsched.last_report()] == [None, "a"]


def test_layers_are_pickled_without_us():
    copied = Noted(job="a").copy()
    assert copied == {"job": "a", "provenance": Site("anywhere")}
    back = pickle.loads(pickle.dumps(copied))
    assert type(back["provenance"]) is str
    assert type(pickle.loads(pickle.dumps(Noted(job="a")))) is dict
    assert Site("a") == Site("b") != "a"
    assert len({Site("a"), Site("b")}) == 1
