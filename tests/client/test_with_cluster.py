"""A Client with a scheduler and workers in processes of their own."""

from __future__ import annotations

import os
import signal
import time

import dask
import dask.array as da
import numpy as np
import pytest

import hetsched
from hetsched.errors import ConnectionLost

pytestmark = pytest.mark.limit(60)


@pytest.fixture(scope="module")
def local():
    with hetsched.LocalCluster(2, 1, memory_limit=0) as local:
        yield local


@pytest.fixture
def client(local):
    with hetsched.Client(local) as client:
        yield client


def add(*numbers):
    return sum(numbers)


def whose():
    return os.getpid()


def test_tasks_run_in_the_workers_processes(local, client):
    pids = set(client.gather([client.submit(whose, workers=[name]) for name in local.workers]))
    assert pids == set(local.workers.values())
    assert client.submit(lambda n: n + 1, client.submit(add, 1)).result() == 2
    assert hetsched.get({"pid": (whose,)}, "pid") in pids


def test_persisted_arrays(client):
    x = da.random.default_rng(1).random((400, 400), chunks=100)
    (held,) = dask.persist(x, scheduler=client)
    want = x.sum().compute(scheduler="sync")
    np.testing.assert_allclose((held.T @ held).sum().compute(scheduler=client), (x.T @ x).sum().compute())
    np.testing.assert_allclose(held.sum().compute(scheduler=client), want)
    np.testing.assert_allclose(held.compute(scheduler=client).sum(), want)


def test_large_values_go_there_and_back(client):
    array = np.arange(3_000_000.0)
    (there,) = client.scatter([array])
    np.testing.assert_array_equal(client.submit(np.negative, there).result(), -array)


def test_an_error_of_a_worker_shows_where(client):
    with pytest.raises(ZeroDivisionError) as caught:
        client.submit(_divide, 1, 0, key="quotient").result()
    assert caught.traceback[-1].name == "_divide"
    assert caught.value.__notes__[0].startswith(f"raised by the task 'quotient' (function _divide at {__file__}:")


def _divide(a, b):
    return a / b


def test_what_a_killed_worker_held_is_made_again(local, client):
    futures = client.map(add, range(200))
    client.gather(futures)
    name = local.add_worker()
    assert client.submit(add, 1, workers=[name]).result() == 1
    held = client.map(add, range(50), workers=[name], key="there")
    again = [client.submit(add, future, 1) for future in client.map(add, range(50))]
    hetsched.wait([*held, *again])
    local.kill_worker(name)
    name = local.add_worker(name)
    assert client.gather([*futures, *held, *again]) == [*range(200), *range(50), *range(1, 51)]
    local.kill_worker(name)


def test_the_scheduler_is_killed():
    with hetsched.LocalCluster(1, 1, memory_limit=0) as local, hetsched.Client(local) as client:
        slow = client.submit(time.sleep, 30)
        os.kill(local.scheduler_pid, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(ConnectionLost, match="is gone"):
            slow.result()
        assert time.monotonic() - began < 5
