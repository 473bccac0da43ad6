"""Pools that were said reach the tasks around them, for every kind of collection; and what is told of it."""

from __future__ import annotations

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import hetsched
from hetsched.core.pools import Reason
from hetsched.errors import HetschedError


def compute(*xs):
    """Compute, and return by the kind of task the pools that the tasks had."""
    dask.compute(*xs, scheduler=hetsched.get)
    found: dict[str, set[object]] = {}
    for row in hetsched.last_report():
        found.setdefault(row.prefix, set()).add(row.annotations.get("pool"))
    return found


@pytest.fixture
def arrays():
    with hetsched.pool("A"):
        a = da.random.random((100, 100), chunks=50)
    with hetsched.pool("B"):
        b = da.random.random(100, chunks=50)
    return a, b


def test_off_by_default(arrays):
    a, _ = arrays
    assert set().union(*compute((a - 1).sum()).values()) == {"A", None}


def test_arrays(arrays):
    a, b = arrays
    with hetsched.propagate_pools():
        found = compute((a - 1).sum(), b - a.mean())
    assert set().union(*found.values()) == {"A", "B"}
    assert found["sub"] == {"B"}
    assert {pool for kind, pools in found.items() if "mean" in kind or "sum" in kind for pool in pools} == {"A"}


def test_a_switch_for_good(arrays):
    a, _ = arrays
    assert hetsched.get_pool(a + 1) is None
    with dask.config.set({"hetsched.pools.propagate": False}):
        hetsched.propagate_pools()
        assert hetsched.get_pool(a + 1) == "A"
        hetsched.propagate_pools(False)
        assert hetsched.get_pool(a + 1) is None


def test_delayed_bags_frames_and_plain_graphs():
    with hetsched.propagate_pools():
        with hetsched.pool("A"):
            load = dask.delayed(lambda: 1, name="load")(dask_key_name="load-1")
            bag = db.from_sequence(range(4), npartitions=2).map(str)
        assert compute(dask.delayed(lambda x: x + 1)(load, dask_key_name="use-1")) == {"load": {"A"}, "use": {"A"}}
        assert hetsched.get_pool(bag.map(len).sum()) == "A"
        df = dd.from_pandas(pd.DataFrame({"a": range(8)}), npartitions=2)
        near = df.map_partitions(hetsched.task(lambda part: part + 1, pool="B"))
        assert hetsched.get_pool(near["a"].sum()) == "B"
        graph = {"x": (hetsched.task(lambda: 1, pool="A"),), "y": (lambda x: x, "x")}
        hetsched.get(graph, "y")
        assert {row.key: row.annotations.get("pool") for row in hetsched.last_report()} == {"x": "A", "y": "A"}


def test_an_array_in_a_delayed_function(arrays):
    """As dask has it the annotations are gone; this way they are kept, and the page on annotations says so."""
    blocks = arrays[0].to_delayed(optimize_graph=False).tolist()
    with hetsched.propagate_pools():
        assert hetsched.get_pool(dask.delayed(len)(blocks)) == "A"


def test_on_the_call():
    with hetsched.propagate_pools():
        hetsched.get({"x": (lambda: 1,), "y": (lambda x: x, "x")}, "y", annotations={"x": {"pool": "A"}})
    assert {row.annotations.get("pool") for row in hetsched.last_report()} == {"A"}


def test_no_pool(arrays):
    a, _ = arrays
    with hetsched.pool(None):
        free = a + 1
    with hetsched.propagate_pools():
        assert hetsched.get_pool(free * 2) is None
        assert hetsched.get_pool(free * 2 + a) == "A"


def test_what_says_gpu_or_workers_is_left_alone(arrays):
    a, _ = arrays
    with hetsched.propagate_pools():
        for note in ({"gpu": True}, {"resources": {"GPU": 1}}, {"workers": "w"}):
            with hetsched.annotate(**note):
                x = a + 1
            assert hetsched.get_pool(x) is None
            assert hetsched.pool_report(x).rows[-1].reason is Reason.LOOSE


def test_other_annotations_stay(arrays):
    a, _ = arrays
    with hetsched.annotate(priority=3):
        x = a + 1
    with hetsched.propagate_pools():
        dask.compute(x, scheduler=hetsched.get)
    given = {"priority": 3, "pool": "A"}
    assert any(given.items() <= row.annotations.items() for row in hetsched.last_report())


def test_a_collection_with_its_pools_written_on(arrays):
    a, b = arrays
    difference = b - a.mean()
    written = hetsched.propagate_pools_in_collection(difference)
    assert hetsched.get_pool(difference) is None
    assert hetsched.get_pool(written) == "B"
    assert written.name == difference.name
    assert compute(written)["sub"] == {"B"}
    np.testing.assert_allclose(written.compute(scheduler="sync"), difference.compute(scheduler="sync"))
    with hetsched.pool("A"):
        load = dask.delayed(int)(1)
    assert hetsched.get_pool(hetsched.propagate_pools_in_collection(dask.delayed(str)(load))) == "A"
    with pytest.raises(TypeError, match="has no layers"):
        hetsched.propagate_pools_in_collection(dd.from_pandas(pd.DataFrame({"a": [1]})))


def test_what_stands_for_others(arrays):
    """The results of others under names of its own: dask makes no tasks for them."""
    a, b = arrays
    with hetsched.pool("A"):
        load = dask.delayed(np.ones)(10)
    loaded = da.from_delayed(load, (10,), float)
    assert hetsched.get_pool(loaded) == "A"
    with hetsched.propagate_pools():
        assert hetsched.get_pool(da.concatenate([b, b + 1])) == "B"
        assert hetsched.get_pool(da.concatenate([a[0], b])) == ("A", "B")


def test_parts_of_a_layer_that_read_from_different_pools(arrays):
    """Each part runs where its data is; only what reads from both at once is placed as one."""
    a, b = arrays
    both = da.concatenate([a[0], b])
    with hetsched.propagate_pools():
        assert hetsched.get_pool(both * 2 + 1) == ("A", "B")
        assert compute((both * 2 + 1).sum())["sum"] == {"A", "B"}
        written = hetsched.propagate_pools_in_collection(both * 2 + 1)
        report = hetsched.pool_report(da.concatenate([a[0, :50], b]) + 1)
        rows = [(row.pool, row.nbytes) for row in report.rows if row.layer.startswith("add")]
    assert hetsched.get_pool(written) == ("A", "B")
    assert sorted(rows) == [("A", 400), ("B", 800)]


def test_asked_in_a_block_that_asks_for_each_key(arrays):
    with hetsched.annotate(priority=lambda key: key[1]):
        assert hetsched.get_pool(arrays[0]) == "A"


def test_pools_written_on_a_layer_keep_what_was_said_of_its_other_tasks():
    with hetsched.pool("A"):
        large = da.ones(1000, chunks=1000)
    with hetsched.annotate(pool=lambda key: ["A", "B"] if key[1] == 0 else "C"):
        x = da.ones(2, chunks=1)
    y = x[:1] + large
    pools = hetsched.propagate_pools_in_collection(da.concatenate([y, x[1:]])).dask.layers[x.name].annotations["pool"]
    assert [pools((x.name, n)) for n in range(2)] == ["A", "C"]


def test_what_is_no_collection():
    with pytest.raises(TypeError, match="3 is not a dask collection"):
        hetsched.get_pool(3)


def test_the_report():
    with hetsched.pool("A"):
        a = da.ones((1000, 1000), chunks=500)
    with hetsched.pool("B"):
        b = da.ones(1000, chunks=500)
    report = hetsched.pool_report(b - a.mean())
    assert report.before[("A", "B")] == (4_000_000 + 8_000 / 2 + 8 * 1 / 2, 0) or report.bytes_before > 4_000_000
    assert report.after == {("A", "B"): (8, 0)}
    assert report.bytes_after == 8
    assert report.unknown == []
    mean, minus = report.rows[-2], report.rows[-1]
    assert (mean.pool, mean.reason, minus.pool) == ("A", Reason.SAVES, "B")
    assert minus.elsewhere == {"A": 8000, "B": 8}
    text = str(report)
    assert "A <-> B: 4 MB without propagation, 8 B with it" in text
    assert "its neighbours are there; would cross: 8 kB in A" in text


def test_the_report_of_unknown_sizes_and_prices():
    with hetsched.pool("A"):
        a = dask.delayed(int)(1, dask_key_name="of_unknown_size-1")
    with hetsched.pool("B"):
        total = dask.delayed(str)(a, dask_key_name="of_unknown_size-2")
    links = [{"between": ["A", "B"], "price": 0.09}]
    with dask.config.set({"hetsched.pools.links": links}):
        text = str(hetsched.pool_report(total))
    assert "A <-> B: 0 B and 1 of unknown size without propagation, 0 B and 1 of unknown size with it (price" in text
    assert "2 of 2 layers are of unknown size, and not in these sums" in text
    assert "said; would cross: unknown in B" not in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ({"A": 1}, "is a list of links"),
        ([{"between": ["A"]}], "does not say between which two pools"),
        ([{"between": ["A", "A"]}], "does not say between which two pools"),
        ([{"between": ["1", 1]}], "does not say between which two pools"),
        ([{"between": ["A", ["B"]]}], r"\['B'\] is no pool's name"),
        ([{"between": ["A", ""]}], "'' is no pool's name"),
        ([{"between": ["A", True]}], "True is no pool's name"),
        ([{"between": ["A", "B"], "price": True}], "cannot be"),
        ([{"between": ["A", "B"], "bandwith": 3}], r"write \{between: \[A, B\]"),
        ([{"between": ["A", "B"], "bandwidth": "fast"}], "'fast' is not a size"),
        ([{"between": ["A", "B"], "latency": "soon"}], "the latency is 'soon'"),
        ([{"between": ["A", "B"], "price": -1}], "cannot be"),
        ([{"between": ["A", "B"]}, {"between": ["B", "A"]}], "two entries for the pools B and A"),
    ],
)
def test_links_that_are_not_well_put(arrays, links, says):
    with dask.config.set({"hetsched.pools.links": links}), pytest.raises(ValueError, match=says):
        hetsched.pool_report(*arrays)


def test_a_picture(arrays, tmp_path):
    pytest.importorskip("graphviz")
    a, b = arrays
    difference = b - a.mean()
    path = tmp_path / "pools.dot"
    graph = hetsched.visualize_pools(difference, filename=str(path))
    source = path.read_text()
    assert graph.source == source
    assert "0 B cross; propagation is off" in source
    with hetsched.propagate_pools():
        source = hetsched.visualize_pools(difference, filename=None).source
    assert "8 B cross; propagation is on" in source
    assert "pool A" in source
    assert source.count("penwidth") == 1


def test_a_picture_is_drawn(arrays, tmp_path, monkeypatch):
    graphviz = pytest.importorskip("graphviz")
    path = tmp_path / "pools.svg"
    try:
        hetsched.visualize_pools(*arrays, filename=str(path))
    except HetschedError:
        assert not graphviz.backend.DOT_BINARY.exists()
    else:
        assert "<svg" in path.read_text()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HetschedError, match=r"install Graphviz.*filename='pools.dot'"):
        hetsched.visualize_pools(*arrays, filename=str(path))
