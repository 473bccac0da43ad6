"""GPU tasks find their lane by themselves in this process; the device is a stand-in."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import dask
import numpy as np
import pytest

import hetsched
from hetsched.gpu import streams
from hetsched.gpu.learned import Learned

sys.path.append(str(Path(__file__).parents[1] / "scenarios" / "device"))
import fakegpu

# Other tests are of processes that have no such module.
sys.path.pop()
del sys.modules["fakegpu"]


@pytest.fixture(autouse=True)
def _device(monkeypatch):
    monkeypatch.setitem(sys.modules, "fakegpu", fakegpu)


lanes: dict[str, list[str]] = {}


def note(name):
    lanes.setdefault(name, []).append(threading.current_thread().name.rpartition("-")[0].removeprefix("hetsched-"))


@pytest.fixture(autouse=True)
def afresh():
    """A process that has seen nothing yet."""
    from hetsched import computing

    computing._close()
    lanes.clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no GPU was found")
        yield
    computing._close()


def ran(name):
    return Counter(lane.partition(":")[0] for lane in lanes[name])


@dask.delayed
def put(n):
    note("put")
    time.sleep(0.0005)
    return hidden(np.arange(4) + n)


@dask.delayed
def double(a):
    note("double")
    return type(a)(2 * a._view)


@dask.delayed
def fetch(a):
    note("fetch")
    return int(a._view.sum())


@dask.delayed
def add(a, b):
    note("add")
    return a + b


hidden = fakegpu.Array


def pipeline(count):
    return [add(fetch(double(put(n))), 1) for n in range(count)]


def compute(tasks, **options):
    return dask.compute(*tasks, scheduler=hetsched.get, **options)


def test_a_pipeline_over_a_device_is_found_while_it_runs() -> None:
    assert compute(pipeline(50), num_workers=2) == tuple(2 * (6 + 4 * n) + 1 for n in range(50))
    assert ran("put")["cpu"] <= 2  # one in each slot, before the first result was there
    assert ran("double") == ran("fetch") == {"gpu": 50}
    assert ran("add") == {"cpu": 50}
    table = {row.prefix: row for row in hetsched.last_report().gpu}
    assert {name: (row.verdict, row.by_input) for name, row in table.items()} == {
        "put": ("gpu", False), "double": ("gpu", True), "fetch": ("gpu", True),
    }  # fmt: skip
    assert (table["put"].wrong, table["put"].first) == (ran("put")["cpu"],) * 2
    assert table["put"].right + table["put"].wrong == 50
    lanes.clear()
    compute(pipeline(20), num_workers=2)
    assert [ran(name) for name in ("put", "double", "fetch", "add")] == [{"gpu": 20}] * 3 + [{"cpu": 20}]


def test_a_person_s_word_is_above_what_is_seen() -> None:
    tasks = pipeline(10)
    compute(tasks, annotations={"put": {"gpu": False}, "double": {"executor": "io"}, "add": {"gpu": True}})
    assert [ran(name) for name in ("put", "double", "fetch", "add")] == [
        {"cpu": 10}, {"io": 10}, {"gpu": 10}, {"gpu": 10},
    ]  # fmt: skip


def test_nothing_is_looked_for_where_that_is_off_but_results_still_tell() -> None:
    with dask.config.set({"hetsched.gpu.detect": False}):
        compute(pipeline(10), num_workers=1)
    assert ran("put")["cpu"] == 1
    assert ran("fetch") == {"gpu": 10}


def test_ten_results_on_the_host_take_the_mark_away() -> None:
    @dask.delayed
    def now_host(n, on_host):
        note("now_host")
        return n if on_host else hidden(np.arange(4))

    compute([now_host(n, False) for n in range(3)], num_workers=1)
    lanes.clear()
    compute([now_host(n, True) for n in range(10)], num_workers=1)
    assert ran("now_host") == {"gpu": 10}
    lanes.clear()
    compute([now_host(n, True) for n in range(10)], num_workers=1)
    assert ran("now_host") == {"cpu": 10}


def test_literals_and_captured_arrays_on_a_device() -> None:
    array = hidden(np.arange(4))

    @dask.delayed
    def use(a):
        note("use")
        return int(a._view.sum())

    compute([use(array), use(np.arange(3).view(Host))])
    assert sorted(lanes["use"]) == ["cpu", "gpu"]


class Host(np.ndarray):
    """An array of the host with the same attributes."""

    @property
    def _view(self):
        return np.asarray(self)


def test_lambdas_of_one_name_are_told_apart() -> None:
    def on_device(n):
        note("device")
        return hidden(np.full(2, n))

    def on_host(n):
        note("host")
        return n

    graph = {("lambda", n): (on_device if n % 2 else on_host, n) for n in range(60)}
    hetsched.get(graph, list(graph), num_workers=1)
    assert ran("device")["cpu"] <= 1
    assert ran("host") == {"cpu": 30}


# Errors of a device


def error_of(module, name, text):
    return type(name, (RuntimeError,), {"__module__": module})(text)


def test_a_task_that_needs_the_device_s_thread_is_tried_again_there() -> None:
    @dask.delayed
    def picky(n):
        note("picky")
        if not threading.current_thread().name.startswith("hetsched-gpu"):
            raise error_of("cupy_backends.cuda.api.runtime", "CUDARuntimeError", "cudaErrorInvalidContext")
        return n

    assert compute([picky(n) for n in range(20)], num_workers=1) == tuple(range(20))
    assert ran("picky") == {"cpu": 1, "gpu": 20}
    (row,) = hetsched.last_report().gpu
    assert (row.verdict, row.right, row.wrong, row.first) == ("gpu", 20, 1, 1)


def test_an_error_of_a_device_is_raised_after_the_second_try() -> None:
    @dask.delayed
    def broken(n):
        note("broken")
        raise error_of("numba.cuda.cudadrv.driver", "CudaAPIError", "CUDA_ERROR_ILLEGAL_ADDRESS")

    with pytest.raises(RuntimeError, match="ILLEGAL_ADDRESS") as raised:
        compute([broken(1)])
    assert ran("broken") == {"cpu": 1, "gpu": 1}
    assert "on executor 'gpu'" in raised.value.__notes__[0]


def test_a_full_device_is_emptied_and_the_task_run_again() -> None:
    tries = []

    @dask.delayed
    def greedy(n):
        tries.append(n)
        if len(tries) < 2:
            raise error_of("cupy.cuda.memory", "OutOfMemoryError", "Out of memory allocating 8 bytes")
        return n

    with hetsched.annotate(gpu=True):
        task = greedy(3)
    assert task.compute(scheduler=hetsched.get) == 3
    assert tries == [3, 3]
    tries[:] = []

    @dask.delayed
    def insatiable(n):
        tries.append(n)
        raise error_of("torch", "OutOfMemoryError", "CUDA out of memory")

    with hetsched.annotate(gpu=True):
        task = insatiable(4)
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        task.compute(scheduler=hetsched.get)
    assert tries == [4, 4]


# P16: kernels that go on after the call


def test_p16_the_time_of_a_task_includes_its_kernels() -> None:
    kernels: list[threading.Timer] = []

    def launch(seconds):
        kernel = threading.Timer(seconds, lambda: None)
        kernel.start()
        kernels.append(kernel)

    def synchronise():
        while kernels:
            kernels.pop().join()

    @dask.delayed
    def kernel(n):
        launch(0.05)
        return n

    @dask.delayed
    def after(n):
        return n

    streams.register(synchronise)
    try:
        with hetsched.annotate(gpu=True):
            tasks = [after(kernel(n)) for n in range(3)]
        compute(tasks)
    finally:
        streams.unregister(synchronise)
    took = {"kernel": [], "after": []}
    for row in hetsched.last_report().tasks:
        took[row.prefix].append(row.stop - row.start)
    assert all(0.045 < seconds < 0.045 + 0.065 for seconds in took["kernel"])
    assert all(seconds < 0.02 for seconds in took["after"])


# From one start to the next


def test_what_was_found_is_known_at_the_next_start(tmp_path, monkeypatch) -> None:
    from hetsched import computing

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with dask.config.set({"hetsched.gpu.learn": True}):
        compute(pipeline(10), num_workers=2)
        computing._close()
        lanes.clear()
        compute(pipeline(10), num_workers=2)
        assert ran("put") == ran("double") == {"gpu": 10}
        rows = {row.name: row.verdict for row in Learned(tmp_path / "hetsched" / "gpu.sqlite").rows()}
        assert rows["put"] == "gpu"
        computing._close()
    lanes.clear()
    compute(pipeline(10), num_workers=2)
    assert ran("put")["cpu"] >= 1  # with `learn` off nothing is recalled


def test_what_a_person_has_forgotten_a_running_program_forgets_with_its_next_graph(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = Learned(tmp_path / "hetsched" / "gpu.sqlite")
    with dask.config.set({"hetsched.gpu.learn": True}):
        compute(pipeline(10), num_workers=2)
        lanes.clear()
        assert file.forget("put") == 1
        compute(pipeline(10), num_workers=2)
        assert ran("put")["cpu"] >= 1  # it is new again
        assert {row.prefix: row.verdict for row in hetsched.last_report().gpu}["put"] == "gpu"
        assert "put" in {row.name for row in file.rows()}  # and what it has learned since, it writes down
        lanes.clear()
        compute(pipeline(10), num_workers=2)
        assert ran("put") == {"gpu": 10}


def test_what_was_forgotten_meanwhile_is_not_written_at_the_end(tmp_path, monkeypatch) -> None:
    from hetsched import computing

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = Learned(tmp_path / "hetsched" / "gpu.sqlite")
    with dask.config.set({"hetsched.gpu.learn": True}):
        compute(pipeline(10), num_workers=2)
        assert "put" in {row.name for row in file.rows()}
        assert file.forget("put") == 1
        computing._close()
        assert "put" not in {row.name for row in file.rows()}
