"""Many computations, much data, long waits: scenarios L02 to L08, with real processes.

Automated: L02, L03, L05, L06. Sizes, counts and times are smaller than in the scenarios, see the constants.

L08 (a slow link) is not: the bandwidth between pairs of workers is not measured yet, so there is nothing that a slow
link could change in where tasks go.
"""

from __future__ import annotations

import gc
import resource
import time

import dask
import dask.array as da
import numpy as np
import psutil
import pytest

import hetsched
from hetsched import Client, LocalCluster

pytestmark = pytest.mark.limit(60)

MB = 1_000_000

COMPUTATIONS = (100, 500)
"""Between these the memory must not grow; 100 and 1000 in the scenario."""

LOAD = 5 * MB
LOADS = 100
MOST_LOADS = 12
"""That many may be there at a time, of 200 of 50 MB in 600 MB."""

LITERAL = 20 * MB
IDLE_SECONDS = 4.0


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(2, 2, resources={"slot": 2}, pools=["P"]) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        yield client


def inc(x):
    return x + 1


# L02


def test_l02_a_thousand_computations(cluster, client):
    processes = [psutil.Process(pid) for pid in (cluster.scheduler_pid, *cluster.workers.values())]

    def compute(count):
        for n in range(count):
            graph = {"a": (inc, n), "b": (inc, "a"), "c": (inc, "a"), "d": (sum, ["b", "c"])}
            assert client.get(graph, "d") == 2 * n + 4
            assert client.submit(lambda x: [x] * 1000, n).result() == [n] * 1000
        gc.collect()
        return [process.memory_info().rss for process in processes]

    before = compute(COMPUTATIONS[0])
    after = compute(COMPUTATIONS[1] - COMPUTATIONS[0])
    grown = [(b - a) / MB for a, b in zip(before, after, strict=True)]
    assert max(grown) < 10, grown
    info = client.scheduler_info()
    assert (info["tasks"], info["graphs"]) == (0, 0)
    assert sum(worker["facts"]["nbytes"] for worker in info["workers"].values()) < MB


# L03


def load(n):
    return np.full(LOAD, n % 100, np.uint8)


def reduced(array):
    time.sleep(0.005)
    return int(array[0])


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("note", [{}, {"resources": {"slot": 1}}, {"pool": "P"}, {"priority": -5}], ids=str)
def test_l03_roots_before_reductions(note):
    # Workers of their own: what memory was taken before does not count.
    with LocalCluster(2, 2, resources={"slot": 2}, pools=["P"]) as cluster, Client(cluster) as client:
        name = next(iter(cluster.workers))
        client.submit(reduced, client.submit(load, 1, workers=[name])).result()
        before = client.submit(peak, workers=[name]).result()
        with hetsched.annotate(**note):
            loads = [dask.delayed(load)(n) for n in range(LOADS)]
        sums = [dask.delayed(reduced)(one) for one in loads]
        total = dask.delayed(sum)(sums)
        assert total.compute(scheduler=client, optimize_graph=False) == sum(n % 100 for n in range(LOADS))
        after = client.submit(peak, workers=[name]).result()
        assert after - before < MOST_LOADS * LOAD, f"{(after - before) / LOAD:.1f} loads"
        # Fewer roots than twice the threads.
        few = [dask.delayed(reduced)(dask.delayed(load)(n)) for n in range(3)]
        assert dask.compute(*few, scheduler=client) == (0, 1, 2)
        assert client.submit(peak, workers=[name]).result() - before < MOST_LOADS * LOAD


# L05


def traffic(client):
    info = client.scheduler_info()
    (mine,) = [about for name, about in info["clients"].items()]
    return mine["bytes_in"], [worker["bytes_out"] for worker in info["workers"].values()]


def item(array, n):
    return int(array[n])


def by_graph(client, array):
    graph = {"array": array, **{("item", n): (item, "array", n) for n in range(100)}}
    return client.get(graph, [("item", n) for n in range(100)])


def by_delayed(client, array):
    there = dask.delayed(array)
    return dask.compute(*[dask.delayed(item)(there, n) for n in range(100)], scheduler=client)


def by_value(client, array):
    return dask.compute(*[dask.delayed(item)(array, n) for n in range(100)], scheduler=client)


def by_map(client, array):
    return tuple(client.gather(client.map(item, [array] * 100, range(100))))


def by_keyword(client, array):
    return tuple(client.gather(client.map(lambda n, array: int(array[n]), range(100), array=array)))


def by_blocks(client, array):
    blocks = da.arange(100, chunks=1).map_blocks(lambda n, array=None: array[n], array=array, dtype=array.dtype)
    return tuple(int(n) for n in blocks.compute(scheduler=client))


def by_list(client, array):
    graph = {("item", n): (lambda pair: item(*pair), [array, n]) for n in range(100)}
    return client.get(graph, [("item", n) for n in range(100)])


@pytest.mark.parametrize("way", [by_graph, by_delayed, by_value, by_map, by_keyword, by_blocks, by_list])
def test_l05_a_large_literal_is_sent_once(client, way):
    array = np.random.default_rng(0).integers(0, 256, LITERAL, np.uint8)  # which cannot be compressed
    before_client, before_workers = traffic(client)
    assert way(client, array) == tuple(array[:100].tolist())
    after_client, after_workers = traffic(client)
    assert after_client - before_client < 1.1 * LITERAL
    sent = [after - before for before, after in zip(before_workers, after_workers, strict=True)]
    assert max(sent) < 1.1 * LITERAL


# L06


def test_l06_an_idle_cluster():
    with LocalCluster(4, 1) as cluster, Client(cluster) as client:
        assert client.gather(client.map(inc, range(100))) == list(range(1, 101))
        processes = {"scheduler": cluster.scheduler_pid, **cluster.workers}
        before = {name: psutil.Process(pid).cpu_times() for name, pid in processes.items()}
        time.sleep(IDLE_SECONDS)  # that nothing happens can only be waited for
        after = {name: psutil.Process(pid).cpu_times() for name, pid in processes.items()}
    used = {name: sum(after[name][:2]) - sum(before[name][:2]) for name in processes}
    # One per cent, and a tick of the clock by which it is measured.
    assert {name: seconds for name, seconds in used.items() if seconds > 0.01 * IDLE_SECONDS + 0.01} == {}
