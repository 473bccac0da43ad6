"""dask's callbacks: called in the order, in the thread and with the state that dask's own schedulers call them with."""

from __future__ import annotations

import io
import threading

import dask.array as da
import pytest
from dask.cache import Cache
from dask.callbacks import Callback
from dask.diagnostics import CacheProfiler, Profiler, ProgressBar, ResourceProfiler

import hetsched


def inc(x):
    return x + 1


def fails(x):
    raise ValueError(x)


DSK = {"lit": 1, "a": (inc, "lit"), "b": (inc, "a"), "c": (inc, "a"), "out": (sum, ["b", "c"])}


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
        self._note("start_state", sorted(state["ready"]), sorted(state["waiting"]), state["finished"].copy())

    def _pretask(self, key, dsk, state):
        self._note("pretask", key, key in state["running"], sorted(state["finished"]))

    def _posttask(self, key, result, dsk, state, worker_id):
        assert isinstance(worker_id, int)
        self._note("posttask", key, result, key in state["finished"], key in state["running"])

    def _finish(self, dsk, state, errored):
        self._note("finish", errored, sorted(state["finished"]) if state else None)


def test_the_calls_and_their_order():
    log = Log()
    with log:
        assert hetsched.get(DSK, "out", num_workers=1) == 6
    assert log.threads == {threading.current_thread()}
    assert log.calls[0] == ("start", {"lit", "a", "b", "c", "out"})
    assert log.calls[1] == ("start_state", ["a"], ["b", "c", "out"], set())
    assert log.calls[-1] == ("finish", False, ["a", "b", "c", "out"])
    tasks = log.calls[2:-1]
    assert [(name, key) for name, key, *_ in tasks[:2]] == [("pretask", "a"), ("posttask", "a")]
    assert tasks[0] == ("pretask", "a", True, [])
    assert tasks[1] == ("posttask", "a", 2, True, False)
    assert tasks[-1] == ("posttask", "out", 6, True, False)
    assert sorted(key for name, key, *_ in tasks if name == "posttask") == ["a", "b", "c", "out"]


def test_state_while_it_runs():
    seen = []

    def posttask(key, result, dsk, state, worker):
        total = sum(len(state[k]) for k in ("ready", "waiting", "running", "finished"))
        seen.append((total, key in state["cache"], sorted(state["released"])))

    with Callback(posttask=posttask):
        hetsched.get(DSK, "out", num_workers=1)
    assert [total for total, *_ in seen] == [4] * 4
    assert [there for _, there, _ in seen] == [True] * 4
    assert seen[-1][2] == ["a", "b", "c"]


def test_finish_is_called_once_when_a_task_fails():
    log = Log()
    with log, pytest.raises(ValueError, match="2"):
        hetsched.get({"a": (inc, 1), "b": (fails, "a"), "c": (inc, "b")}, "c")
    assert [call[0] for call in log.calls].count("finish") == 1
    assert log.calls[-1][:2] == ("finish", True)
    assert ("posttask", "a", 2, True, False) in log.calls
    assert not any(call[:2] == ("posttask", "b") for call in log.calls)


def test_a_graph_without_tasks():
    log = Log()
    with log:
        assert hetsched.get({"a": 1}, "a") == 1
    assert log.calls == [("start", {"a"}), ("start_state", [], [], set()), ("finish", False, [])]


@pytest.mark.parametrize("hook", ["start", "start_state", "pretask", "posttask", "finish"])
def test_what_a_callback_raises_reaches_the_caller(hook):
    finished = []

    def raises(*args):
        raise KeyError(hook)

    watcher = Callback(finish=lambda *args: finished.append(args[-1]))
    with watcher, Callback(**{hook: raises}), pytest.raises(KeyError, match=hook):
        hetsched.get(DSK, "out")
    assert len(finished) <= 1
    assert hetsched.get(DSK, "out") == 6


def test_given_on_the_call_in_place_of_those_around():
    log = Log()
    with Log() as other:
        assert hetsched.get(DSK, "out", callbacks=[log._callback]) == 6
    assert other.calls == []
    assert len(log.calls) == 11


def test_inner_calls_are_not_followed():
    log = Log()
    with log:
        hetsched.get({"a": (lambda: hetsched.get(DSK, "out"),)}, "a")
    assert [call[0] for call in log.calls].count("start") == 1


def test_retried_tasks_end_once():
    log = Log()
    tries = []

    def flaky():
        tries.append(1)
        if len(tries) < 3:
            raise OSError
        return 7

    with log:
        assert hetsched.get({"a": (flaky,), "b": (inc, "a")}, "b", annotations={"a": {"retries": 2}}) == 8
    assert [call[1] for call in log.calls if call[0] == "posttask"] == ["a", "b"]


def test_diagnostics():
    out = io.StringIO()
    with ProgressBar(out=out, dt=0.01), Profiler() as profiler, CacheProfiler() as cache:
        assert hetsched.get(DSK, "out") == 6
    assert sorted(row.key for row in profiler.results) == ["a", "b", "c", "out"]
    assert all(row.start_time <= row.end_time for row in profiler.results)
    assert {row.key for row in cache.results} == {"a", "b", "c", "out"}
    assert "100% Completed" in out.getvalue()
    with ResourceProfiler(dt=0.01) as resources:
        done = threading.Event()
        threading.Timer(0.1, done.set).start()
        assert hetsched.get({"a": (done.wait, 20)}, "a") is True
    assert resources.results


def test_a_bar_over_a_collection():
    out = io.StringIO()
    with ProgressBar(out=out):
        assert da.ones(10, chunks=2).sum().compute(scheduler=hetsched.get) == 10
    assert "100% Completed" in out.getvalue()
    out = io.StringIO()
    with ProgressBar(out=out), pytest.raises(ValueError, match="1"):
        hetsched.get({"a": (fails, 1)}, "a")
    assert "100% Completed" not in out.getvalue()


def test_the_opportunistic_cache():
    ran = []

    def costly(x):
        ran.append(x)
        threading.Event().wait(0.02)  # what took no time is not kept
        return x + 1

    with Cache(1e8):
        assert hetsched.get({"slow": (costly, 1), "a": (inc, "slow")}, "a") == 3
        assert hetsched.get({"slow": (costly, 1), "b": (inc, "slow"), "c": (sum, ["b", "slow"])}, ["c", "slow"]) == (
            5,
            2,
        )
        assert hetsched.get({"slow": (costly, 1)}, "slow") == 2
    assert ran == [1]


def test_what_a_callback_puts_into_the_graph_is_taken():
    def start(dsk):
        dsk["a"] = 100

    ran = []
    dsk = {"x": (ran.append, 1), "a": (inc, "x"), "b": (inc, "a"), "c": (dict, [["k", "a"]]), "d": (inc, "b")}
    with Callback(start=start):
        assert hetsched.get(dsk, ["d", "c", "a"]) == (102, {"k": 100}, 100)
    assert ran == []
