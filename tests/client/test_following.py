"""dask's callbacks and ``rerun_exceptions_locally`` with a cluster's get."""

from __future__ import annotations

import io
import threading
import time

import dask
import pytest
from dask.cache import Cache
from dask.callbacks import Callback
from dask.diagnostics import CacheProfiler, Profiler, ProgressBar, ResourceProfiler
from threaded_cluster import threaded_cluster

import hetsched


def inc(x):
    return x + 1


def fails(x):
    raise ValueError(x)


DSK = {"lit": 1, "a": (inc, "lit"), "b": (inc, "a"), "c": (inc, "a"), "out": (sum, ["b", "c"])}


@pytest.fixture(scope="module")
def cluster():
    with threaded_cluster("a", "b") as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with hetsched.Client(cluster) as client:
        yield client


class Log(Callback):
    """Notes every call."""

    def __init__(self):
        self.calls: list[tuple[object, ...]] = []
        self.threads: set[threading.Thread] = set()

    def _note(self, *what):
        self.calls.append(what)
        self.threads.add(threading.current_thread())

    def _start(self, dsk):
        self._note("start", set(dsk))

    def _start_state(self, dsk, state):
        self._note("start_state", sorted(state["ready"]), sorted(state["waiting"]))

    def _pretask(self, key, dsk, state):
        self._note("pretask", key, key in state["running"])

    def _posttask(self, key, result, dsk, state, worker_id):
        total = sum(len(state[name]) for name in ("ready", "waiting", "running", "finished"))
        self._note("posttask", key, result, key in state["finished"], key in state["running"], total, worker_id)

    def _finish(self, dsk, state, errored):
        self._note("finish", errored, sorted(state["finished"]))


def test_every_task_is_told_once(client):
    log = Log()
    with log:
        assert hetsched.get(DSK, "out") == 6
        assert Callback.active
    assert log.threads == {threading.current_thread()}
    assert log.calls[0] == ("start", {"lit", "a", "b", "c", "out"})
    assert log.calls[1] == ("start_state", ["a"], ["b", "c", "out"])
    assert log.calls[-1] == ("finish", False, ["a", "b", "c", "out"])
    told = log.calls[2:-1]
    assert sorted(call for call in told if call[0] == "pretask") == [("pretask", key, True) for key in "abc"] + [
        ("pretask", "out", True)
    ]
    ends = sorted((call for call in told if call[0] == "posttask"), key=lambda call: str(call[1]))
    where = client.address
    assert ends == [("posttask", key, None, True, False, 4, where) for key in "abc"] + [
        ("posttask", "out", 6, True, False, 4, where)
    ]


def test_what_runs_is_told_while_it_runs(client):
    go = threading.Event()
    seen = []

    class Opens(Callback):
        """Lets the last task go on once the end of the first was told."""

        def _posttask(self, key, result, dsk, state, worker_id):
            seen.append((key, sorted(state["running"]), sorted(state["finished"])))
            go.set()

    _gates["go"] = go
    with Opens():
        assert client.get({"first": (inc, 1), "last": (_after, "first")}, "last") == 3
    assert seen[0] in [("first", ["last"], ["first"]), ("first", [], ["first"])]
    assert seen[1] == ("last", [], ["first", "last"])


_gates = {}


def _after(x):
    # The workers of this test are in this process.
    assert _gates_here()["go"].wait(20)
    return x + 1


def _gates_here():
    from importlib import import_module

    return import_module(__name__)._gates


def test_what_was_asked_for_is_told_with_its_value_as_soon_as_it_is_there(client):
    go = threading.Event()
    seen = []

    def posttask(key, result, dsk, state, worker_id):
        seen.append((key, result))
        go.set()

    _gates["go"] = go
    with Callback(posttask=posttask):
        assert client.get({"first": (inc, 1), "last": (_after, 5)}, ["first", "last"]) == (2, 6)
    assert seen == [("first", 2), ("last", 6)]


def test_a_progress_bar_reaches_the_end(client):
    out = io.StringIO()
    with ProgressBar(out=out, dt=0.01):
        assert dask.delayed(sum)([dask.delayed(inc)(n) for n in range(50)]).compute(scheduler=client) == 1275
    assert out.getvalue().rstrip().endswith("s")
    assert "[########################################] | 100% Completed" in out.getvalue()


def test_profilers(client):
    with Profiler() as profiler, CacheProfiler() as sizes, ResourceProfiler(dt=0.01) as resources:
        assert client.get(DSK, "out") == 6
    assert sorted(task.key for task in profiler.results) == ["a", "b", "c", "out"]
    assert all(task.end_time >= task.start_time for task in profiler.results)
    assert sorted(task.key for task in sizes.results) == ["a", "b", "c", "out"]
    resources.close()


def test_a_cache_keeps_what_came_here_and_nothing_else(client):
    cache = Cache(1e6)
    with cache:
        assert client.get(DSK, "out") == 6
        assert dict(cache.cache.data) == {"out": 6}
        assert client.get({**DSK, "more": (inc, "out")}, "more") == 7
        assert client.get({**DSK, "other": (inc, "a")}, "other") == 3


def test_a_task_that_fails(client):
    log = Log()
    with log, pytest.raises(ValueError, match="2"):
        client.get({"a": (inc, 1), "b": (fails, "a"), "c": (inc, "b")}, "c")
    assert [call[0] for call in log.calls].count("finish") == 1
    assert log.calls[-1][:2] == ("finish", True)
    assert not any(call[:2] == ("posttask", "b") for call in log.calls)


@pytest.mark.parametrize("hook", ["start", "start_state", "pretask", "posttask", "finish"])
def test_what_a_callback_raises_reaches_the_caller(client, cluster, hook):
    def raises(*args):
        raise KeyError(hook)

    with Callback(**{hook: raises}), pytest.raises(KeyError, match=hook):
        client.get(DSK, "out")
    assert client.get(DSK, "out") == 6
    assert cluster.settled() == (0, 0)


def test_without_tasks(client):
    log = Log()
    with log:
        assert client.get({"a": 1}, "a") == 1
    assert log.calls == [("start", {"a"}), ("start_state", [], []), ("finish", False, [])]


def _breaks_on(x, ident):
    if threading.get_ident() == ident:
        raise KeyError(f"here: {x}")
    raise ValueError(f"there: {x}")


def test_what_failed_is_run_again_here(client):
    ident = threading.get_ident()
    dsk = {"a": (inc, 1), "b": (_breaks_on, "a", ident), "c": (inc, "b"), "other": (time.sleep, 0)}
    with pytest.raises(ValueError, match="there: 2"):
        client.get(dsk, ["c", "other"])
    with pytest.raises(KeyError, match="here: 2"):
        client.get(dsk, ["c", "other"], rerun_exceptions_locally=True)
    with dask.config.set(rerun_exceptions_locally=True), pytest.raises(KeyError, match="here: 2"):
        hetsched.get(dsk, ["c", "other"])
    future = client.submit(inc, 4)
    with pytest.raises(KeyError, match="here: 5"):
        client.get({"b": (_breaks_on, future, ident)}, "b", rerun_exceptions_locally=True)
