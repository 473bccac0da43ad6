"""The Client of threads, on a scheduler and two workers behind real sockets."""

from __future__ import annotations

import asyncio
import copy
import gc
import operator
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from threaded_cluster import threaded_cluster

import hetsched
from hetsched.client.broadcasting import _is_meant, _lacking
from hetsched.errors import AnnotationError, ConnectionLost, MissingKeyError, RemoteError, TaskCancelled


def add(*numbers, plus=0):
    return sum(numbers) + plus


def total(nested):
    if isinstance(nested, dict):
        nested = list(nested.values())
    return sum(map(total, nested)) if isinstance(nested, list | tuple | set) else nested


def fail(what):
    raise ValueError(f"no {what}")


class Awkward(Exception):
    """Cannot be made from what it was made of."""

    def __init__(self, one, two):
        super().__init__(one)
        self.lock = threading.Lock()


def fail_awkwardly():
    raise Awkward(1, 2)


def hold(seconds):
    time.sleep(seconds)
    return seconds


# Graphs


def test_get_gives_values_in_the_shape_of_the_keys(client):
    dsk = {"a": 1, "b": (add, "a", 10), "c": (add, "b", "b"), "d": [1, "b"]}
    assert client.get(dsk, "c") == 22
    assert client.get(dsk, ["a", ["b", "c"], "d"]) == (1, (11, 22), [1, 11])
    assert client.get(dsk, []) == ()


def test_get_takes_a_cache_and_annotations(client):
    cache = {"a": 5}
    assert client.get({"a": (fail, "a"), "b": (add, "a", 1)}, "b", cache=cache, annotations={"b": {"priority": 3}}) == 6
    assert cache == {"a": 5, "b": 6}
    with pytest.raises(AnnotationError):
        client.get({"b": (add, 1)}, "b", annotations={"b": {"retries": -1}})


def test_a_large_graph_goes_out_in_parts(client):
    count = 9000
    dsk = {("x", i): (operator.neg, i) for i in range(count)}
    dsk["sum"] = (sum, list(dsk))
    assert client.get(dsk, "sum") == -sum(range(count))
    assert client.get(dsk, [("x", i) for i in range(count)]) == tuple(-i for i in range(count))


def test_dask_collections(client):
    x = da.arange(1000, chunks=100)
    bag = db.from_sequence(range(10), npartitions=3).map(lambda n: n + 1)
    d = dask.delayed(add)(1, dask.delayed(add)(2))
    got = dask.compute(x.sum(), bag, d, [d], scheduler=client)
    assert got == (499500, list(range(1, 11)), 3, [3])
    with dask.annotate(retries=2):
        assert x.mean().compute(scheduler=client.get) == 499.5


def test_data_frames(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"g": [1, 2] * 50, "v": range(100)})
    lazy = dd.from_pandas(frame, npartitions=4)
    held = client.persist(lazy)
    for d in (lazy, held):
        got = d.groupby("g").v.sum().compute(scheduler=client)
        assert got.to_dict() == {1: 2450, 2: 2500}


def test_persisted_collections_stay_on_workers_and_are_read_there(client):
    x = da.ones((100, 100), chunks=25) + 1
    held = client.persist(x)
    (same,) = dask.persist(x, scheduler=client)
    assert all(isinstance(value, hetsched.Future) for value in held.dask.values())
    assert (held * 2).sum().compute(scheduler=client) == 40000
    np.testing.assert_array_equal(same.compute(scheduler=client), np.full((100, 100), 2.0))
    again = client.persist([held[:50] + same[50:], same])
    assert [c.sum().compute(scheduler=client) for c in again] == [20000, 20000]
    delayed = client.persist(dask.delayed(add)(1, 2))
    assert delayed.compute(scheduler=client) == 3
    assert dask.delayed(add)(delayed, 1).compute(scheduler=client) == 4


def test_compute_gives_futures_or_values(client):
    x = da.arange(10, chunks=5)
    future = client.compute(x.sum())
    assert isinstance(future, hetsched.Future)
    assert future.result() == 45
    assert client.gather(client.compute([x.sum(), {"max": x.max()}])) == [45, {"max": 9}]
    assert client.compute(x.sum(), x.max(), sync=True, priority=2) == [45, 9]
    assert client.compute(x.sum(), sync=True) == 45
    assert client.compute(7) == 7


# Futures


def test_submit_with_futures_everywhere(client):
    one, two = client.submit(add, 1), client.submit(add, 1, plus=1)
    assert client.submit(add, one, two, one, plus=two).result() == 6
    assert client.submit(total, [one, (two, {"k": one}), 5, {two}]).result() == 11
    assert client.submit(total, nested={"a": [one], "b": 3}).result() == 4
    assert client.submit(partial(add, one, plus=two), 1).result() == 4
    assert dask.delayed(total)([one, two, [one]]).compute(scheduler=client) == 4
    assert dask.delayed(add)(one, plus=two).compute(scheduler=client) == 3
    assert dask.delayed(one).compute(scheduler=client) == 1
    assert client.get({"a": one, "b": (add, "a", two), "c": [two, [one]]}, ["a", "b", "c"]) == (1, 3, [2, [1]])
    assert da.from_delayed(client.submit(np.arange, 5), (5,), dtype=int).sum().compute(scheduler=client) == 10


def test_what_a_lambda_needs_comes_along(client):
    offset = 5
    assert client.submit(lambda n: n + offset, client.submit(lambda: 1)).result() == 6
    assert client.gather(client.map(lambda a, b: a * b, range(4), range(4))) == [0, 1, 4, 9]


@pytest.mark.parametrize(("given", "holders"), [(True, 2), (2, 2), (5, 2), (1, 1), (False, 1)])
def test_scatter_to_several_workers(client, given, holders):
    data = client.scatter({"array": np.arange(1000), "text": "t"}, broadcast=given)
    hetsched.wait(list(data.values()))
    while any(len(who) < holders for who in client.who_has(data).values()):
        pass
    assert all(len(who) == holders for who in client.who_has(data).values())
    assert client.gather(data)["text"] == "t"


def test_what_scatter_cannot_do_is_said(client):
    for bad in (0, -1, "all", 1.5, None):
        with pytest.raises(ValueError, match="broadcast is True for a copy on each worker, or how many"):
            client.scatter([1], broadcast=bad)
    assert client.scatter([], broadcast=True) == []


def test_copies_are_dealt_out_among_workers_that_are_meant():
    names = ["a", "b", "c"]
    assert [list(_lacking(names, ["b"], 2, n)) for n in range(3)] == [["a"], ["c"], ["c"]]
    assert list(_lacking(names, ["c"], None, 1)) == ["b", "a"]
    assert list(_lacking([], ["c"], None, 1)) == []
    about = {"executors": {"cpu": 1}, "pool": "A"}
    for note, meant in (({}, True), ({"pool": "A"}, True), ({"pool": ("B",)}, False), ({"workers": ("b",)}, False)):
        assert _is_meant("a", about, note) is meant


def test_futures_of_collections(client):
    x = da.ones(6, chunks=2)
    y, z = client.persist([x + 1, x * 2])
    futures = hetsched.futures_of([y, {"z": z}, y])
    assert len(futures) == 6
    hetsched.wait(futures)
    assert [float(future.result().sum()) for future in futures] == [4.0] * 6
    one = client.submit(int, 1)
    assert hetsched.futures_of((one, [one], 3, x)) == [one]
    assert len(hetsched.futures_of(y + 1)) == 3
    bag = client.persist(db.from_sequence(range(4), npartitions=2))
    assert [future.result() for future in hetsched.futures_of(bag)] == [[0, 1], [2, 3]]


def test_map_gather_scatter(client):
    numbers = client.map(add, range(300), plus=1)
    assert [f.key for f in numbers[:2]] == [(numbers[0].key[0], 0), (numbers[0].key[0], 1)]
    assert client.gather(numbers) == list(range(1, 301))
    assert client.gather({"x": numbers[:2], "y": (numbers[2], 7)}) == {"x": [1, 2], "y": (3, 7)}
    array = np.arange(100_000)
    data = client.scatter({"array": array, "text": "t"})
    assert client.submit(np.sum, data["array"]).result() == array.sum()
    got = client.gather(data)
    np.testing.assert_array_equal(got.pop("array"), array)
    assert got == {"text": "t"}
    assert client.gather(client.scatter((1, [2, 3]))) == (1, [2, 3])
    assert client.gather([]) == []
    assert client.map(add, []) == []


def test_errors_come_as_they_were_raised_with_a_note(client):
    bad = client.submit(fail, "luck")
    after = client.submit(add, bad, 1)
    with pytest.raises(ValueError, match="no luck") as caught:
        bad.result()
    frames = [frame.name for frame in caught.traceback]
    assert frames[-1] == "fail"
    (note,) = caught.value.__notes__
    assert note.startswith(f"raised by the task {bad.key!r} (function fail at {__file__}:")
    assert "on executor 'cpu' of '" in note
    depth = len(caught.traceback)
    with pytest.raises(ValueError, match="no luck") as caught:
        bad.result()
    assert len(caught.traceback) == depth
    assert isinstance(after.exception(), ValueError)
    assert (bad.status, after.status, bad.done(), bad.cancelled()) == ("error", "error", True, False)
    assert bad.traceback() is not None
    assert client.submit(add, 1).exception() is None
    assert client.submit(add, 1).traceback() is None
    with pytest.raises(ValueError, match="no luck"):
        client.gather([client.submit(add, 1), bad])
    assert client.gather([client.submit(add, 1), bad, [bad]], errors="skip") == [1, []]
    assert client.gather(bad, errors="skip") is None
    with pytest.raises(ValueError, match="no way"):
        client.get({"a": (fail, "way"), "b": (add, "a"), "c": 1}, ["c", "b"])


def test_errors_that_cannot_cross(client):
    with pytest.raises((Awkward, RemoteError), match="1"):
        client.submit(fail_awkwardly).result()
    made = client.submit(threading.Lock)
    with pytest.raises(TypeError, match=r"cannot pickle '_thread.lock' object") as caught:
        made.result()
    assert "was brought here from tcp://" in caught.value.__notes__[-1]
    with pytest.raises(TypeError, match=r"cannot pickle '_thread.lock' object") as caught:
        client.submit(add, threading.Lock(), key="locked")
    assert caught.value.__notes__[-1] == "the arguments of the task 'locked' cannot be sent"


def test_graphs_that_cannot_be_run(client):
    with pytest.raises(MissingKeyError):
        client.get({"a": 1}, "z")
    with pytest.raises(AnnotationError):
        client.submit(add, 1, executor="moon")


def test_futures_release_their_results(client, cluster):
    futures = client.map(add, range(10))
    kept = futures[3]
    client.gather(futures)
    del futures
    gc.collect()
    state = cluster.cluster.server.scheduler.state
    end = time.monotonic() + 5
    while sum(len(g.wanted) for g in state.graphs.values()) > 1 and time.monotonic() < end:
        client.scheduler_info()  # a round trip
    assert [list(g.wanted) for g in state.graphs.values()] == [[3]]
    assert kept.result() == 3
    kept.release()
    assert cluster.settled() == (0, 0)
    with pytest.raises(TaskCancelled, match="was cancelled, or released"):
        kept.result()


def test_an_input_stays_as_long_as_its_reader_needs_it(client):
    result = client.submit(add, 1)
    for _ in range(50):
        result = client.submit(add, result, 1)  # the one before is dropped at once
    assert result.result() == 51


def test_cancel(client, cluster):
    slow = client.map(hold, [0.05] * 200)
    client.cancel([slow[:100], (slow[100:],)])
    with pytest.raises(TaskCancelled):
        slow[150].result()
    assert slow[0].cancelled()
    assert cluster.settled() == (0, 0)
    with pytest.raises(TaskCancelled, match="is needed, and it was cancelled"):
        client.submit(add, slow[0]).result()


def test_timeouts_leave_the_future_as_it_was(client):
    slow = client.submit(hold, 0.3)
    with pytest.raises(TimeoutError, match=r"was not there within 0.01 s"):
        slow.result(timeout=0.01)
    with pytest.raises(TimeoutError, match=r"1 of 1 Futures were not done within 0.01 s"):
        hetsched.wait([slow], timeout=0.01)
    with pytest.raises(TimeoutError):
        slow.exception(0.01)
    assert slow.result(timeout=10) == 0.3


def test_as_completed_and_wait(client):
    futures = client.map(add, range(20))
    bad = client.submit(fail, "end")
    done = hetsched.as_completed([*futures, bad])
    seen = [next(done)]
    done.add(client.submit(add, 100))
    seen += done
    assert len(seen) == 22
    assert set(futures) < set(seen)
    pairs = dict(client.as_completed([*futures, bad], with_results=True))
    assert isinstance(pairs.pop(bad), ValueError)
    assert pairs == {future: n for n, future in enumerate(futures)}
    assert hetsched.wait(futures) == (set(futures), set())
    assert client.wait([bad, futures[0]], return_when="FIRST_COMPLETED").done
    slow = client.submit(hold, 0.5)
    done, left = client.wait([slow, client.submit(fail, "x")], return_when="FIRST_EXCEPTION")
    assert left == {slow}
    assert hetsched.wait([]) == (set(), set())


def test_callbacks_are_called_in_a_thread(client):
    heard = threading.Event()
    names = []

    def note(future):
        names.append((threading.current_thread() is threading.main_thread(), future.result()))
        heard.set()

    future = client.submit(add, 1)
    future.add_done_callback(note)
    assert heard.wait(10)
    heard.clear()
    future.add_done_callback(note)
    assert heard.wait(10)
    assert names == [(False, 1), (False, 1)]


def test_futures_elsewhere_say_what_to_do(client, cluster):
    future = client.submit(add, 1)
    with pytest.raises(TypeError, match="cannot be pickled: give it to tasks of its own Client"):
        pickle.dumps(future)
    assert copy.copy(future) is future is copy.deepcopy(future)
    with hetsched.Client(cluster) as other, pytest.raises(ValueError, match="belongs to another Client"):
        other.submit(add, future)
    assert repr(future) in (f"<Future {future.key!r}: pending>", f"<Future {future.key!r}: finished>")


# Questions


def test_questions(client):
    futures = client.map(add, [1, 2])
    client.gather(futures)
    held = client.who_has(futures)
    assert list(held) == [f.key for f in futures]
    assert all(names in (["a"], ["b"]) for names in held.values())
    info = client.scheduler_info()
    assert sorted(info["workers"]) == ["a", "b"]
    assert info["workers"]["a"]["terms"]["pickle"] == 5
    explained = client.explain(futures[0])
    assert explained["phase"] == "MEMORY"
    assert "MEMORY" in explained["text"]


# Threads, interrupts, ends


def test_many_threads_at_once(client):
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda n: client.submit(add, client.submit(add, n), 1).result(), range(64)))
    assert got == list(range(1, 65))


def test_within_a_running_asyncio_loop(client):
    async def main():
        return client.submit(add, 1).result(), client.get({"a": (add, 2)}, "a")

    assert asyncio.run(main()) == (1, 2)


@pytest.mark.parametrize("wait", ["get", "result", "gather"])
def test_an_interrupt_cancels_the_computation_and_leaves_the_client_usable(client, cluster, wait):
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    futures = client.map(hold, [0.02] * 400) if wait != "get" else []
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        match wait:
            case "get":
                client.get({("h", n): (hold, 0.02 + n * 1e-9) for n in range(400)}, [("h", n) for n in range(400)])
            case "result":
                futures[-1].result()
            case "gather":
                client.gather(futures)
    timer.join()
    client.cancel(futures)
    assert cluster.settled() == (0, 0)
    assert client.submit(add, 1).result() == 1


def test_a_client_that_is_closed(cluster):
    client = hetsched.Client(cluster.scheduler_address)
    future = client.submit(add, 1)
    assert future.result() == 1
    slow = client.submit(hold, 0.2)
    client.close()
    client.close()
    for call in (future.result, slow.result, lambda: client.submit(add, 1), client.scheduler_info):
        with pytest.raises(ConnectionLost, match="the Client is closed"):
            call()
    assert slow.status == "lost"
    assert cluster.settled() == (0, 0)


def test_the_scheduler_goes_away():
    with threaded_cluster("a") as cluster, hetsched.Client(cluster) as client:
        slow = client.map(hold, [5, 5, 5])
        errors = []

        def wait(call):
            with pytest.raises(ConnectionLost) as caught:
                call()
            errors.append(str(caught.value))

        threads = [
            threading.Thread(target=wait, args=(call,))
            for call in (slow[0].result, lambda: client.gather(slow), lambda: client.get({"x": (hold, 5)}, "x"))
        ]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        cluster.call(cluster.cluster.server.stop)
        for thread in threads:
            thread.join()
        assert time.monotonic() - began < 5
        (error,) = set(errors)
        assert error.startswith(f"the scheduler at {client.address} is gone: ")
        assert error.endswith("; what was under way is lost, make a new Client")
        wait(lambda: client.submit(add, 1))


def test_nobody_is_there():
    with pytest.raises(ConnectionLost, match=r"there is no scheduler at tcp://127.0.0.1:1"):
        hetsched.Client("127.0.0.1:1", timeout=0.1)
    with pytest.raises(ValueError, match="no scheduler is named"):
        hetsched.Client()
    with pytest.raises(ValueError, match="neither an address nor a cluster"):
        hetsched.Client(5)
