"""`hetsched.get` goes to the Client that is open, or to the scheduler that is configured, or stays here."""

from __future__ import annotations

import os
import signal

import dask
import pytest

import hetsched
from hetsched.client import active


def where():
    return os.environ.get("HERE", ""), __import__("threading").current_thread().name


def names(client):
    return client.session.address


def test_the_innermost_client_is_used(cluster):
    with pytest.raises(ValueError, match=r"no hetsched.Client is open, and no hetsched.address is configured"):
        hetsched.default_client()
    first = hetsched.Client(cluster)
    assert hetsched.default_client() is first
    with hetsched.Client(cluster) as second:
        assert hetsched.default_client() is second
        with first:
            assert hetsched.default_client() is first
        assert hetsched.default_client() is second
    assert active.clients == []


def seen(cluster, name):
    prefix = cluster.cluster.server.scheduler.state.prefixes.get(name)
    return prefix.on["cpu"].count if prefix is not None else 0


def test_get_goes_to_the_open_client(cluster):
    assert hetsched.get({"here": (abs, -1)}, "here") == 1
    with hetsched.Client(cluster):
        assert hetsched.get({"there": (abs, -1)}, "there") == 1
        assert dask.compute(dask.delayed(abs)(-2), scheduler=hetsched.get) == (2,)
    assert hetsched.get({"here": (abs, -1)}, "here") == 1
    assert (seen(cluster, "here"), seen(cluster, "there"), seen(cluster, "abs")) == (0, 1, 1)


@pytest.mark.parametrize("how", ["environment", "configuration"])
def test_get_goes_to_the_configured_scheduler(cluster, monkeypatch, how):
    key = f"by-{how}"
    if how == "environment":
        monkeypatch.setenv("HETSCHED_ADDRESS", cluster.scheduler_address)
        assert hetsched.get({key: (abs, -1)}, key) == 1
        client = hetsched.default_client()
        monkeypatch.delenv("HETSCHED_ADDRESS")
    else:
        with dask.config.set({"hetsched.address": cluster.scheduler_address}):
            assert hetsched.get({key: (abs, -1)}, key) == 1
            client = hetsched.default_client()
    assert seen(cluster, key) == 1
    assert hetsched.get({"home": (abs, -1)}, "home") == 1
    assert seen(cluster, "home") == 0
    client.close()


def test_a_configured_client_that_is_lost_is_made_anew(cluster, monkeypatch):
    monkeypatch.setenv("HETSCHED_ADDRESS", cluster.scheduler_address)
    one = hetsched.default_client()
    assert hetsched.default_client() is one
    one.close()
    two = hetsched.default_client()
    assert two is not one
    assert hetsched.get({"x": (abs, -3)}, "x") == 3
    two.close()


def nested(number):
    return dask.compute(dask.delayed(abs)(number), scheduler=hetsched.get)[0]


def test_a_task_of_this_process_computes_here_unless_a_client_is_open(cluster, monkeypatch):
    monkeypatch.setenv("HETSCHED_ADDRESS", cluster.scheduler_address)
    before = seen(cluster, "abs")
    with hetsched.Client(cluster) as client:
        monkeypatch.delenv("HETSCHED_ADDRESS")
        assert client.submit(nested, -4).result() == 4
    assert seen(cluster, "abs") == before + 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_child_of_a_fork_is_told_to_make_a_client_of_its_own(cluster):
    with hetsched.Client(cluster) as client:
        future = client.submit(abs, -1)
        assert future.result() == 1
        read, write = os.pipe()
        pid = os.fork()
        if not pid:  # the child
            signal.alarm(10)
            said = []
            for call in (future.result, lambda: client.get({"x": (abs, -1)}, "x")):
                try:
                    call()
                except RuntimeError as error:
                    said.append(str(error)[:48])
            said.append(str(hetsched.get({"x": (abs, -5)}, "x")))
            with hetsched.Client(cluster.scheduler_address) as mine:
                said.append(str(mine.submit(abs, -6).result()))
            del future, client
            os.write(write, "\n".join(said).encode())
            os._exit(0)
        os.close(write)
        assert os.waitpid(pid, 0)[1] == 0
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read().decode().splitlines()
        assert said == ["this Client was made before the process was forke"[:48]] * 2 + ["5", "6"]
        assert future.result() == 1
