"""``hetsched.get``: what is asked for is what comes back, and nothing is left behind."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from dask.system import CPU_COUNT
from named import named

import hetsched
from hetsched.computing import embedded


def inc(x):
    return x + 1


def add(*xs):
    return sum(xs)


DSK = {"a": 1, "b": (inc, "a"), ("b", 1): (inc, "b")}


@pytest.mark.parametrize(
    ("keys", "want"),
    [
        ("b", 2),
        (("b", 1), 3),
        (["b"], (2,)),
        (["b", "a", "b", "b"], (2, 1, 2, 2)),
        ([["a", "b"], [["b"], ("b", 1)], "a"], ((1, 2), ((2,), 3), 1)),
        ([], ()),
        ([[], [[]]], ((), ((),))),
    ],
)
def test_the_answer_has_the_shape_of_the_request(keys, want):
    assert hetsched.get(DSK, keys) == want
    assert dask.get(DSK, keys) == want


def test_a_list_of_a_class_of_its_own_is_a_list_of_keys():
    class Keys(list):
        pass

    assert hetsched.get(DSK, Keys(["b", Keys(["a"])])) == dask.get(DSK, Keys(["b", Keys(["a"])])) == (2, (1,))


def test_nothing_to_do():
    assert hetsched.get({}, []) == ()
    assert dask.compute(scheduler=hetsched.get) == ()
    assert dask.compute([], {}, 1, scheduler=hetsched.get) == ([], {}, 1)


@pytest.mark.parametrize(
    "key",
    ["", b"bytes", 0, -1, 2.5, float("inf"), (), ("a",), ("a", None), ("n", ("m", 1)), "ünï\n", 10**40, int, len,
     frozenset([1]), np.int64(4), ("x", np.int64(4)), complex(1, 2), object(), True],
    ids=named,
)  # fmt: skip
def test_keys_of_any_kind(key):
    assert hetsched.get({key: (inc, 41), "b": (add, "c", 8), "c": (inc, 5)}, [key, "b"]) == (42, 14)


def test_keys_that_are_equal_are_one():
    assert hetsched.get({1: (inc, 5), "b": (inc, 1.0)}, [1, 1.0, True, "b"]) == (6, 6, 6, 7)


def test_results_of_any_kind_come_back_as_they_are():
    made = [None, ValueError("not raised"), KeyboardInterrupt, len, threading.Lock(), [], float("nan"), NotImplemented]
    dsk = {i: (made.__getitem__, (int, i)) for i in range(100, 108)}
    dsk = {key: (lambda i: made[i - 100], (int, str(key))) for key in dsk}
    got = hetsched.get(dsk, list(dsk))
    assert all(one is other for one, other in zip(got, made, strict=True))


def test_only_what_is_needed_runs_and_once():
    ran = []

    def note(name, *args):
        ran.append(name)
        return name

    dsk = {
        "a": (note, "a!"),
        "b": (note, "b!", "a"),
        "c": (note, "c!", "a", "b", "b"),
        "d": (note, "d!", "c"),
        "e": ((1).__truediv__, 0),
    }
    assert hetsched.get(dsk, ["c", "b", "c"]) == ("c!", "b!", "c!")
    assert sorted(ran) == ["a!", "b!", "c!"]


# The configuration and options


def test_set_in_the_configuration():
    with dask.config.set(scheduler=hetsched.get):
        assert int(da.arange(6, chunks=2).sum()) == 15
        assert db.range(4, 2).map(inc).compute() == [1, 2, 3, 4]
        assert next(iter(hetsched.last_report())).worker == "embedded"
        assert da.arange(6, chunks=2).persist().sum().compute() == 15


class Crowd:
    """Counts how many are inside at once; ``full`` is set when that reaches ``size``, and lets all go on."""

    def __init__(self, size):
        self.size = size
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.full = threading.Event()

    def __call__(self, _):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now >= self.size:
                self.full.set()
        reached = self.full.wait(10)
        with self.lock:
            self.now -= 1
        return reached


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("by", ["option", "configuration"])
def test_num_workers_is_how_many_run_at_once(workers, by):
    crowd = Crowd(workers)
    dsk = {("x", i): (crowd, i) for i in range(20)}
    if by == "option":
        got = hetsched.get(dsk, list(dsk), num_workers=workers)
    else:
        with dask.config.set(num_workers=workers):
            got = hetsched.get(dsk, list(dsk))
    assert all(got)
    assert crowd.most == workers


def test_by_default_as_many_as_there_are_cores():
    crowd = Crowd(CPU_COUNT)
    dsk = {("x", i): (crowd, i) for i in range(4 * CPU_COUNT)}
    assert all(hetsched.get(dsk, list(dsk)))
    assert crowd.most == CPU_COUNT


@pytest.mark.parametrize("workers", [0, -1])
def test_num_workers_that_cannot_be(workers):
    with pytest.raises(ValueError, match=f"num_workers must be 1 or more, not {workers}"):
        hetsched.get(DSK, "b", num_workers=workers)


def test_num_workers_of_many_sizes_do_not_pile_up_threads():
    for workers in range(1, 21):
        dsk = {("x", i): (inc, i) for i in range(40)}
        hetsched.get(dsk, list(dsk), num_workers=workers)
        crowd = Crowd(workers)
        dsk = {("x", i): (crowd, i) for i in range(workers)}
        assert all(hetsched.get(dsk, list(dsk), num_workers=workers))
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("hetsched-cpu")]
    assert len(ours) <= 20 + 2 * CPU_COUNT


def test_unknown_options_are_warned_about():
    with pytest.warns(UserWarning, match="does not know these options, they have no effect: colour, speed"):
        assert hetsched.get(DSK, "b", speed=3, colour="red") == 2


def test_options_of_other_schedulers_are_taken():
    d = dask.delayed(inc)(1)
    options = {"optimize_graph": False, "traverse": False, "chunksize": 1, "pool": None}
    assert dask.compute(d, scheduler=hetsched.get, **options) == (2,)


def test_collections_of_mixed_kinds_by_the_remedies_of_the_howto():
    x, b, y = da.arange(3, chunks=3), db.from_sequence(["p", "q"], npartitions=1), da.arange(5, chunks=5)

    def right(rx, rb, ry):
        return rx.tolist() == [0, 1, 2] and rb == ["p", "q"] and ry.tolist() == [0, 1, 2, 3, 4]

    assert right(*dask.compute(x, b, y, scheduler=hetsched.get, optimize_graph=False))
    with dask.config.set({"optimization.tune.active": False}):
        assert right(*dask.compute(x, b, y, scheduler=hetsched.get))
    rx, ry, rb = dask.compute(x, y, b, scheduler=hetsched.get)
    assert right(rx, rb, ry)


# cache=


def test_a_cache_is_read_and_filled():
    ran = []

    def note(x):
        ran.append(x)
        return x + 1

    cache = {"b": 10}
    dsk = {"a": (note, 1), "b": (note, "a"), "c": (note, "b"), "d": (note, "c")}
    assert hetsched.get(dsk, ["d", "b"], cache=cache) == (12, 10)
    assert ran == [10, 11]
    assert cache["d"] == 12
    assert hetsched.get(dsk, "d", cache=cache) == 12
    assert ran == [10, 11]
    with dask.config.set(cache={"c": 100}):
        assert hetsched.get(dsk, "d") == 101


def test_with_a_cache_annotations_are_kept():
    with dask.annotate(retries=2, job="j"):
        d = dask.delayed(inc)(1)
    assert dask.compute(d, scheduler=hetsched.get, cache={}) == (2,)
    assert [dict(row.annotations) for row in hetsched.last_report()] == [{"retries": 2, "job": "j"}]


# Every call has its own names


def test_equal_keys_in_turn():
    for i in range(10):
        assert hetsched.get({"k": (inc, i), "out": (inc, "k")}, "out") == i + 2
        assert hetsched.get({"k": i}, "k") == i


def test_equal_keys_at_once():
    together = threading.Barrier(4)

    def work(i):
        together.wait(10)  # all four graphs are under way
        return i

    got = {}

    def call(i):
        dsk = {"k": (work, i), ("k", 0): (inc, "k"), "out": (add, "k", ("k", 0))}
        got[i] = hetsched.get(dsk, ["k", "out"], annotations={"k": {"executor": "io"}})

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {i: (i, 2 * i + 1) for i in range(4)}


# Values and memory


class Big:
    alive: list[weakref.ref] = []

    def __init__(self, *args):
        self.alive.append(weakref.ref(self))


@pytest.fixture
def alive():
    """How many values there are; the ends of a call reach the loop by themselves, so a call after it is waited for."""
    Big.alive.clear()

    def count():
        hetsched.get({"x": (inc, 1)}, "x")
        gc.collect()
        return sum(ref() is not None for ref in Big.alive)

    return count


def test_values_pass_by_identity():
    value = object()
    box = [value]
    got = hetsched.get({"a": (lambda: value,), "b": (lambda x: [x], "a"), "c": (lambda xs: xs[0], "b")}, ["a", "c"])
    assert got[0] is got[1] is box[0]


def test_memory_is_freed_after_success(alive):
    dsk = {("m", i): (Big,) for i in range(6)}
    dsk["out"] = (lambda *args: len(args), *[("m", i) for i in range(6)])
    assert hetsched.get(dsk, "out") == 6
    assert len(Big.alive) == 6
    assert alive() == 0
    kept = hetsched.get(dsk, [("m", 0), "out"])
    assert alive() == 1
    del kept
    assert alive() == 0


@pytest.mark.parametrize(
    "options", [{}, {"callbacks": [(None,) * 5]}, {"rerun_exceptions_locally": True}, {"num_workers": 1}]
)
def test_memory_is_freed_after_an_error(alive, options):
    def fail(*args):
        raise ValueError(len(args))

    dsk = {("m", i): (Big,) for i in range(6)}
    dsk["bad"] = (fail, *[("m", i) for i in range(6)])
    with pytest.raises(ValueError, match="6") as caught:
        hetsched.get(dsk, ["bad", ("m", 0)], **options)
    assert len(Big.alive) == 6
    del caught
    assert alive() == 0


def test_intermediate_results_go_while_the_graph_runs(alive):
    counts = []

    def count(_):
        counts.append(sum(ref() is not None for ref in Big.alive))
        return len(counts)

    dsk: dict[object, object] = {"x0": (Big,)}
    for i in range(30):
        dsk[f"n{i}"] = (count, f"x{i}")
        dsk[f"x{i + 1}"] = (Big, f"n{i}", f"x{i}")
    hetsched.get(dsk, "n29", num_workers=1)
    assert len(counts) == 30
    assert max(counts) <= 2


def test_nothing_is_left_in_the_cluster():
    cluster = embedded()
    hetsched.get(DSK, ["b", ("b", 1)])
    with pytest.raises(ZeroDivisionError):
        hetsched.get({"a": (inc, 1), "b": (lambda x: 1 / 0, "a")}, "b")
    assert hetsched.get({"x": (inc, 1)}, "x") == 2
    gc.collect()
    assert not cluster._feeder.calls
    assert len(cluster._engine.store) <= 1


def test_the_random_state_of_the_program_is_left_alone():
    random.seed(7)
    np.random.seed(7)
    want = random.random(), np.random.rand()
    random.seed(7)
    np.random.seed(7)
    objects = np.array(["x", None] * 500, dtype=object)
    dsk = {("l", i): (list, range(100)) for i in range(3)} | {
        "d": (lambda: {i: i for i in range(99)},),
        "o": (objects.copy,),
    }
    hetsched.get(dsk, list(dsk))
    assert (random.random(), np.random.rand()) == want


# Retries


def flaky(failures, error=OSError):
    tries = []

    def work(*args):
        tries.append(args)
        if len(tries) <= failures:
            raise error(f"attempt {len(tries)}")
        return len(tries)

    return work, tries


@pytest.mark.parametrize("executor", ["cpu", "io"])
def test_retries(executor):
    work, tries = flaky(2)
    dsk = {"a": (inc, 1), "b": (work, "a"), "c": (inc, "b")}
    assert hetsched.get(dsk, "c", annotations={"b": {"retries": 2, "executor": executor}}) == 4
    assert tries == [(2,)] * 3


def test_retries_run_out():
    work, tries = flaky(9)
    with pytest.raises(OSError, match="attempt 3"):
        hetsched.get({"a": (work,)}, "a", annotations={"a": {"retries": 2}})
    assert len(tries) == 3


def test_what_is_no_error_of_the_task_is_not_retried():
    work, tries = flaky(9, SystemExit)
    with pytest.raises(SystemExit):
        hetsched.get({"a": (work,)}, "a", annotations={"a": {"retries": 2}})
    assert len(tries) == 1


def test_priorities_go_first():
    ran = []
    dsk = {("low", i): (ran.append, "low") for i in range(5)}
    dsk |= {("high", i): (ran.append, "high") for i in range(5)}
    notes = {"low": {"priority": -1}, "high": {"priority": 1}}
    hetsched.get(dsk, list(dsk), num_workers=1, annotations=notes)
    assert ran == ["high"] * 5 + ["low"] * 5
