"""The AsyncClient, on a small cluster in the same loop."""

from __future__ import annotations

import json

import dask
import dask.array as da
import pytest
import trio
from small_cluster import small_cluster

import hetsched
from hetsched.errors import ConnectionLost, HetschedError, Rejected


def add(*numbers):
    return sum(numbers)


def fail():
    raise ValueError("on purpose")


async def test_the_names_are_those_of_the_client():
    names = [
        "get", "compute", "persist", "submit", "map", "gather", "scatter", "cancel", "as_completed", "wait", "who_has",
        "scheduler_info", "explain", "close",
    ]  # fmt: skip
    for kind in (hetsched.Client, hetsched.AsyncClient):
        assert all(callable(getattr(kind, name)) for name in names)


async def test_everything_is_awaited():
    async with small_cluster("a", "b") as cluster, hetsched.AsyncClient(cluster.address, name="me") as client:
        one = client.submit(add, 1)
        assert await client.submit(add, one, 1) == 2
        assert await client.get({"x": (add, 1, 2), "y": (add, "x", one)}, ["x", ["y"]]) == (3, (4,))
        assert await client.gather({"a": client.map(add, range(3))}) == {"a": [0, 1, 2]}
        x = da.ones(10, chunks=2)
        assert await client.compute(x.sum(), sync=True) == 10
        assert await client.compute(x.sum()) == 10
        held = client.persist(x)
        assert await client.compute(held.sum()) == 10
        bad = client.submit(fail)
        with pytest.raises(ValueError, match="on purpose") as caught:
            await bad
        assert "raised by the task" in caught.value.__notes__[0]
        assert isinstance(await bad.exception(), ValueError)
        assert await bad.traceback() is not None
        assert (await client.wait([one, bad])).done == {one, bad}
        assert {future async for future in client.as_completed([one, bad])} == {one, bad}
        assert [pair async for pair in client.as_completed([one], with_results=True)] == [(one, 1)]
        ((key, workers),) = (await client.who_has(one)).items()
        assert key == one.key
        assert {*workers} <= {"a", "b"}
        assert (await client.explain(one))["phase"] == "MEMORY"
        assert list((await client.scheduler_info())["clients"]) == ["me-1"]
        (data,) = client.scatter([5])
        assert await data == 5
        with pytest.raises(TimeoutError):
            await client.submit(add, client.submit(_sleep, 0.2)).result(timeout=0.01)


def _sleep(seconds):
    import time

    time.sleep(seconds)
    return seconds


async def test_a_cancelled_get_leaves_nothing_behind():
    async with small_cluster("a") as cluster, hetsched.AsyncClient(cluster.address) as client:
        with trio.move_on_after(0.05):
            await client.get({("x", n): (_sleep, 0.01) for n in range(1000)}, [("x", n) for n in range(1000)])
        state = cluster.server.scheduler.state
        while state.graphs:
            await trio.sleep(0.001)
        assert not state.tasks


async def test_an_error_in_the_body_comes_out_as_it_is():
    async with small_cluster("a") as cluster:
        with pytest.raises(KeyError, match="mine"):
            async with hetsched.AsyncClient(cluster.address) as client:
                client.submit(add, 1)
                raise KeyError("mine")
        with pytest.raises(ConnectionLost, match="the Client is closed"):
            client.submit(add, 1)


async def test_a_worker_that_is_lost_is_made_up_for():
    async with small_cluster("a", "b") as cluster, hetsched.AsyncClient(cluster.address) as client:
        futures = client.map(add, range(100))
        await client.wait(futures)
        cluster.scopes["a"].cancel()
        assert await client.gather(futures) == list(range(100))


async def test_a_token_is_needed_and_given(tmp_path):
    path = tmp_path / "token"
    path.write_bytes(b"secret")
    path.chmod(0o600)
    async with small_cluster("a", token=b"secret") as cluster:
        with pytest.raises(Rejected, match="a token is needed here"):
            async with hetsched.AsyncClient(cluster.address):
                pass
        async with hetsched.AsyncClient(cluster.address, token_file=path) as client:
            assert await client.submit(add, 1) == 1
        with dask.config.set({"hetsched.comm.token-file": str(path), "hetsched.comm.pickle-protocol": 4}):
            async with hetsched.AsyncClient(cluster) as client:
                assert await client.submit(add, 2) == 2
                assert (await client.scheduler_info())["clients"].popitem()[1]["terms"]["pickle"] == 4


async def test_a_scheduler_file_and_copies(tmp_path):
    async with small_cluster("a", "b") as cluster:
        file = tmp_path / "scheduler.json"
        file.write_text(json.dumps({"address": cluster.address}))
        async with hetsched.AsyncClient(scheduler_file=str(file)) as client:
            future = client.scatter([1, 2], broadcast=True)[0]
            await client.wait([future])
            while len((await client.who_has(future))[future.key]) < 2:
                pass
            assert await client.gather(future) == 1
        file.write_text("[]")
        with pytest.raises(HetschedError, match="is no scheduler file"):
            async with hetsched.AsyncClient(scheduler_file=file):
                pass
