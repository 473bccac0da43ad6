"""What a task raises is what the caller gets: as it was raised, at once, and with a note that says whose it is."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
import threading
import traceback

import dask
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import Task, TaskRef
from dask.callbacks import Callback

import hetsched
from hetsched import computing

pytestmark = pytest.mark.filterwarnings("ignore:no GPU was found:UserWarning")


def inc(x):
    return x + 1


def soon(call, seconds=5):
    """What a call gives or raises; where it hangs, the test fails and the tests after it have another cluster."""
    out = []

    def run():
        try:
            out.append((call(), None))
        except BaseException as error:
            out.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not out:
        computing._cluster = None
        pytest.fail(f"no answer after {seconds} s: the caller would wait for ever")
    value, error = out[0]
    if error is not None:
        raise error
    return value


def raiser(error):
    def work(*args):
        raise error

    return work


class Landmine(Exception):
    def __reduce__(self):
        return pickle.loads, (b"not a pickle",)


class Picky(Exception):
    def __init__(self, rule, *, value):
        super().__init__(rule)
        self.value = value


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Empty(Exception):
    def __len__(self):
        return 0

    def __eq__(self, other):
        return other is None

    __hash__ = Exception.__hash__


class Own(BaseException):
    pass


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Sealed(Exception):
    def __setattr__(self, name, value):
        raise RuntimeError("nothing may be set")

    def with_traceback(self, traceback):
        raise RuntimeError("not even this")


class Hidden(Exception):
    __traceback__ = property(lambda self: None)


class Oddly(Exception):
    __notes__ = 3


ERRORS = [
    ValueError("v"),
    KeyError("k"),
    KeyError(),
    OSError(2, "no", "file"),
    Picky("r", value=3),
    Landmine("l"),
    Mute(),
    Empty("e"),
    StopIteration(4),
    StopAsyncIteration(),
    GeneratorExit("g"),
    KeyboardInterrupt("k"),
    SystemExit(3),
    Own("o"),
    asyncio.CancelledError("c"),
    RecursionError("r"),
    MemoryError("m"),
    AssertionError(),
    ZeroDivisionError(),
    UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
    hetsched.errors.TaskCancelled("mine"),
    Oddly("odd"),
    Frozen(3),
    Sealed("s"),
    Hidden("h"),
    ExceptionGroup("many", [ValueError("a"), TypeError("b")]),
    ExceptionGroup("one", [ValueError()]),
    BaseExceptionGroup("base", [KeyboardInterrupt()]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("lane", ["cpu", "gpu", "io"])
def test_errors_come_as_they_were_raised(error, lane):
    dsk = {"bad": (raiser(error), "a"), "a": (inc, 1), "out": (inc, "bad")}

    def call():
        return hetsched.get(dsk, ["a", "out"], annotations={"bad": {"executor": lane}})

    try:
        soon(call)
    except BaseException as caught:
        if caught is not error:
            raise
    else:
        pytest.fail("no error")
    assert soon(lambda: hetsched.get({"after": (inc, 1)}, "after", annotations={"after": {"executor": lane}})) == 2


def test_errors_are_values_where_they_are_returned():
    error = ValueError("kept")
    assert hetsched.get({"a": (lambda: error,), "b": (lambda x: [x], "a")}, "b") == [error]
    assert not hasattr(error, "__notes__")


def test_a_group_keeps_its_members():
    group = ExceptionGroup("three files failed", [ValueError("a"), TypeError("b"), OSError("c")])
    with pytest.raises(ExceptionGroup, match="three files failed") as caught:
        hetsched.get({"a": (raiser(group),)}, "a")
    assert [type(e) for e in caught.value.exceptions] == [ValueError, TypeError, OSError]


def test_causes_and_contexts_stay():
    def fails():
        try:
            return 1 / 0
        except ZeroDivisionError as error:
            raise ValueError("outer") from error

    with pytest.raises(ValueError, match="outer") as caught:
        hetsched.get({"a": (fails,)}, "a")
    assert type(caught.value.__cause__) is ZeroDivisionError
    assert [f.name for f in traceback.extract_tb(caught.value.__cause__.__traceback__)] == ["fails"]


# The note


def fails(x):
    raise ValueError("bad value")


def test_the_note_names_the_task_and_where_it_ran():
    with pytest.raises(ValueError, match="bad value") as caught:
        hetsched.get(
            {"a": (inc, 1), ("b", 0): (fails, "a")},
            [("b", 0)],
            annotations={"b": {"executor": "io", "provenance": "here.py:3"}},
        )
    (note,) = caught.value.__notes__
    line = fails.__code__.co_firstlineno
    assert note.startswith(
        f"raised by the task ('b', 0) (function fails at {__file__}:{line}), on executor 'io' of 'embedded', thread "
        "'hetsched-io-"
    )
    assert note.endswith("'; built at here.py:3")


def test_one_error_raised_by_several_tasks_has_a_note_for_each():
    error = ValueError("shared")
    for key in ("a", "b", "a"):
        with pytest.raises(ValueError, match="shared"):
            hetsched.get({key: (raiser(error),)}, key, num_workers=1)
    assert {note.split()[4] for note in error.__notes__} == {"'a'", "'b'"}


# The traceback


def frames(error):
    return [(frame.filename, frame.name) for frame in traceback.extract_tb(error.__traceback__)]


def deep(x):
    return deeper(x)


def deeper(x):
    raise ValueError("deep")


META = {"dtype": int, "meta": np.empty(0, dtype=int)}


def _array():
    return da.arange(2, chunks=2).map_blocks(deep, **META)


@pytest.mark.parametrize(
    "call",
    [
        lambda: hetsched.get({"a": (inc, 1), "b": (deep, "a")}, "b"),
        lambda: hetsched.get({"a": (inc, 1), "b": (deep, ["a"])}, "b"),
        lambda: hetsched.get({"a": (inc, 1), "b": (deep, ["a", 1])}, "b"),
        lambda: hetsched.get({"a": (inc, 1), "b": (inc, (deep, "a"))}, "b"),
        lambda: hetsched.get({"a": Task("a", inc, 1), "b": Task("b", deep, x=TaskRef("a"))}, "b"),
        lambda: hetsched.get(
            {"c": Task.fuse(Task("a", inc, 1), Task("b", deep, TaskRef("a")), Task("c", inc, TaskRef("b")))}, "c"
        ),
        lambda: hetsched.get({"b": (hetsched.task(deep, retries=0), 1)}, "b"),
        lambda: hetsched.get({"b": (deep, 1)}, "b", annotations={"b": {"retries": 1}}),
        lambda: hetsched.get({"b": (deep, 1)}, "b", annotations={"b": {"executor": "gpu"}}),
        lambda: hetsched.get({"b": (deep, 1)}, "b", callbacks=[Callback()._callback]),
        lambda: hetsched.get({"b": (deep, 1)}, "b", num_workers=1),
        lambda: (_array() + 1).sum().compute(scheduler=hetsched.get),
        lambda: dask.annotate(priority=1)(lambda: (_array() + 1).sum())().compute(scheduler=hetsched.get),
    ],
)
def test_the_traceback_leads_from_the_call_to_the_users_function(call):
    with pytest.raises(ValueError, match="deep") as caught:
        call()
    found = frames(caught.value)
    assert found[-2:] == [(__file__, "deep"), (__file__, "deeper")]
    # dask leaves our frames out where it was called, as it does its own.
    get = max((i for i, (file, name) in enumerate(found) if file == computing.__file__ and name == "get"), default=0)
    between = [file for file, _ in found[get:-2] if "/hetsched/worker/" in file]
    assert between == []


def test_the_traceback_does_not_grow_when_one_error_is_raised_again():
    error = ValueError("shared")
    work = raiser(error)
    lengths = []
    for _ in range(3):
        with pytest.raises(ValueError, match="shared"):
            hetsched.get({"a": (work,)}, "a")
        lengths.append(len(frames(error)))
        error.__traceback__ = None
    assert len(set(lengths)) == 1


# At once, and nothing left


def test_the_error_is_told_while_a_slow_task_runs():
    started, release = threading.Event(), threading.Event()
    ended = []

    def slow():
        started.set()
        release.wait(60)
        ended.append(1)

    def bad():
        started.wait(60)
        raise ValueError("now")

    try:
        with pytest.raises(ValueError, match="now"):
            hetsched.get({"slow": (slow,), "bad": (bad,)}, ["slow", "bad"], annotations={"slow": {"executor": "io"}})
        assert ended == []
    finally:
        release.set()


def test_what_has_not_started_does_not_start():
    ran = []
    dsk = {"bad": (fails, 1)} | {("x", i): (ran.append, i) for i in range(50)}
    with pytest.raises(ValueError, match="bad value"):
        hetsched.get(dsk, list(dsk), num_workers=1, annotations={"bad": {"priority": 9}})
    assert hetsched.get({"after": (inc, 1)}, "after", num_workers=1) == 2
    assert ran == []


def test_after_errors_everything_works_on():
    for _ in range(20):
        dsk = {("bad", i): (fails, i) for i in range(8)} | {("ok", i): (inc, i) for i in range(8)}
        with pytest.raises(ValueError, match="bad value"):
            hetsched.get(dsk, list(dsk))
        assert hetsched.get({("ok", i): (inc, i) for i in range(8)}, [("ok", i) for i in range(8)]) == tuple(
            range(1, 9)
        )


def test_the_stack_of_a_task_runs_out():
    def down(n):
        return down(n + 1)

    with pytest.raises(RecursionError):
        hetsched.get({"a": (down, 0)}, "a")
    assert hetsched.get({"a": (inc, 1)}, "a") == 2


# Values that fight back


class UnhashableKind(type):
    def __eq__(cls, other):
        return cls is other

    __hash__ = None  # type: ignore[assignment]


class RaisingKind(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)


class Sized:
    def __sizeof__(self):
        raise SystemExit(4)


class Endless(list):
    def __iter__(self):
        return iter(int, 1)

    def __len__(self):
        return 10**6


class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("who asks?")


class Strange:
    def __getattribute__(self, name):
        raise KeyboardInterrupt(name)


@pytest.mark.parametrize(
    "make",
    [lambda: UnhashableKind("U", (), {})(), lambda: RaisingKind("R", (), {})(), Sized, Endless, Proxy, Strange],
    ids=["unhashable type", "type that raises", "sized", "endless", "proxy", "strange"],
)
def test_values_that_fight_back(make):
    value = make()
    box = [value]
    kept = soon(lambda: [hetsched.get({"a": (box.__getitem__, 0), "b": (lambda x: 1, "a")}, ["a", "b"])])[0]
    assert kept[0] is value
    assert kept[1] == 1


def test_contexts_of_the_caller_are_seen_by_tasks():
    """As with dask's threaded scheduler: context variables, decimal contexts, numpy's error state."""
    import contextvars

    variable = contextvars.ContextVar("variable", default=0)
    token = variable.set(5)
    try:
        assert dask.threaded.get({"a": (variable.get,)}, "a") == 5
        assert hetsched.get({"a": (variable.get,), "b": (inc, "a")}, ["a", "b"]) == (5, 6)
    finally:
        variable.reset(token)


# Run again in the caller


def test_a_failed_task_is_run_again_in_the_calling_thread():
    threads = []

    def bad(x):
        threads.append(threading.current_thread())
        raise ValueError(x)

    with pytest.raises(ValueError, match="2") as caught:
        hetsched.get({"a": (inc, 1), "b": (bad, "a")}, "b", rerun_exceptions_locally=True)
    assert threads[0] is not threads[1]
    assert threads[1] is threading.current_thread()
    assert frames(caught.value)[-1] == (__file__, "bad")
    with dask.config.set(rerun_exceptions_locally=True), pytest.raises(ValueError, match="2"):
        hetsched.get({"a": (inc, 1), "b": (bad, "a")}, "b")
    assert len(threads) == 4
    with pytest.raises(ValueError, match="2"):
        hetsched.get({"a": (inc, 1), "b": (bad, "a")}, "b")
    assert len(threads) == 5


def test_it_is_the_task_that_failed_which_is_run_again():
    ran = []

    def flaky(x):
        ran.append("flaky")
        if len(ran) == 1:
            raise OSError("once")
        return x

    def bad(x):
        ran.append("bad")
        raise ValueError(x)

    with pytest.raises(ValueError, match="1"):
        hetsched.get(
            {"a": (flaky, 1), "b": (bad, "a")}, "b", rerun_exceptions_locally=True, annotations={"a": {"retries": 1}}
        )
    assert ran == ["flaky", "flaky", "bad", "bad"]


def test_no_worker_errors_name_the_task():
    with pytest.raises(hetsched.errors.NoWorkerError, match="'b'"):
        hetsched.get({"b": (inc, 1)}, "b", annotations={"b": {"resources": {"QPU": 1}}})
