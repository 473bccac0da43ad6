"""The sizes of layers, as read from what collections say of themselves."""

from __future__ import annotations

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.base import collections_to_expr

import hetsched
from hetsched.graph.sizes import sizes_of


def sizes(x):
    expr = collections_to_expr((x,), optimize_graph=False).optimize()
    return {name.rpartition("-")[0]: (size.nbytes, size.parts, size.source) for name, size in sizes_of(expr).items()}


def test_arrays():
    x = da.ones((100, 10), chunks=(30, 10), dtype="f4")
    assert sizes((x * 2).sum(axis=0)) == {
        "ones_like": (4000.0, 4, "shape"),
        "mul": (4000.0, 4, "shape"),
        "sum": (4 * 10 * 4.0, 4, "shape"),  # each block has one row left
        "sum-aggregate": (40.0, 1, "shape"),
    }


def test_parts_of_arrays():
    x = da.ones((100, 10), chunks=((30, 30, 40), (9, 1)), dtype="f4")
    size = sizes_of(collections_to_expr((x,), optimize_graph=False).optimize())[x.name]
    assert size.of([(x.name, 2, 0), (x.name, 0, 1)]) == (40 * 9 + 30) * 4
    assert size.of([(x.name, n, m) for n in range(3) for m in range(2)]) == 4000
    assert size.of(["what else"]) == size.of([(x.name, 3, 0)]) == pytest.approx(4000 / 6)
    part = hetsched.pool_report(x[60:]).rows
    assert [row.nbytes for row in part] == [1600]


def test_arrays_that_are_cut_anew():
    x = da.ones((100, 10), chunks=(30, 10)).rechunk((100, 5))
    found = sizes(x)
    assert found["rechunk-split"] == (8000.0, 8, "shape")
    assert found["rechunk-merge"] == (8000.0, 2, "shape")


def test_arrays_that_do_not_know():
    x = da.from_array(np.array([1, "a", None], dtype=object), chunks=2)
    y = da.ones(10, chunks=5)
    assert sizes(x[:1]) == {}
    assert sizes(y[y > 1]).keys() == {"ones_like", "gt"}


def test_frames_of_pandas_and_parquet(tmp_path):
    frame = pd.DataFrame({"a": np.arange(1000), "b": np.arange(1000.0)}, index=np.arange(1000) * 3)
    df = dd.from_pandas(frame, npartitions=4)
    assert sizes(df)["frompandas"] == (24_000.0, 4, "rows")
    assert sizes(df["a"] + 1)["add"] == (16_000.0, 4, "rows")
    frame.to_parquet(tmp_path / "part.0.parquet")
    read = dd.read_parquet(tmp_path)
    assert 24_000.0 in {nbytes for nbytes, _, _ in sizes(read + 1).values()}
    assert "lambda" not in sizes(df.map_partitions(lambda part: part[:1]))


def rows(*xs):
    return {row.layer.rpartition("-")[0] or row.layer: row for row in hetsched.pool_report(*xs).rows}


def test_only_what_is_read_counts():
    x = da.ones((1000,), chunks=100)
    assert rows(x[:250] + 1)["ones_like"].nbytes == 2400


def test_hints_and_what_was_measured():
    make = dask.delayed(lambda n: np.ones(n), pure=False, name="make_for_sizes")
    with hetsched.annotate(nbytes=5):
        said = dask.delayed(str)("x", dask_key_name="said-1")
    first = make(1000, dask_key_name="kind_of_its_own-1")
    both = rows(said, first)
    assert (both["said"].nbytes, both["said"].source) == (5, "hint")
    assert (both["kind_of_its_own"].nbytes, both["kind_of_its_own"].source) == (None, "unknown")
    first.compute(scheduler=hetsched.get)
    again = rows(make(1000, dask_key_name="kind_of_its_own-2"))["kind_of_its_own"]
    assert again.source == "measured"
    assert again.nbytes == pytest.approx(8000, rel=0.05)
