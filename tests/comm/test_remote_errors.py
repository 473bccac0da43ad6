"""Exceptions arrive as they were raised, or as a stand-in that tells as much as can be told; carrying never raises."""

from __future__ import annotations

import copyreg
import sys
import threading
import traceback
from types import ModuleType

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import PEERS, ask

from hetsched.comm import remote_errors as room
from hetsched.comm.remote_errors import dump_error, load_error
from hetsched.errors import CycleError, MissingKeyError, RemoteError


def trip(exc, protocol=5):
    return load_error(dump_error(exc, protocol))


def raised(func, *args):
    try:
        func(*args)
    except BaseException as exc:
        return exc
    raise AssertionError("nothing was raised")


def names(exc):
    return [frame.name for frame in traceback.extract_tb(exc.__traceback__)]


def deep(n):
    if n:
        return deep(n - 1)
    raise ValueError("at the bottom", n)


@pytest.mark.parametrize("protocol", [4, 5])
def test_an_error_keeps_its_traceback(protocol):
    exc = raised(deep, 3)
    got = trip(exc, protocol)
    assert type(got) is ValueError
    assert got.args == ("at the bottom", 0)
    assert names(got) == ["raised", "deep", "deep", "deep", "deep"]
    assert [f.lineno for f in traceback.extract_tb(got.__traceback__)] == [
        f.lineno for f in traceback.extract_tb(exc.__traceback__)
    ]


def chained():
    try:
        try:
            deep(0)
        except ValueError as error:
            raise KeyError("key") from error
    except KeyError as error:
        error.add_note("a note")
        raise OSError(2, "no such thing", "name")  # noqa: B904


def test_causes_contexts_and_notes():
    got = trip(raised(chained))
    assert (type(got), got.errno, got.filename) == (FileNotFoundError, 2, "name")
    assert (got.__cause__, got.__suppress_context__) == (None, False)
    key = got.__context__
    assert type(key) is KeyError
    assert key.__notes__ == ["a note"]
    assert key.__suppress_context__
    assert type(key.__cause__) is ValueError
    assert key.__context__ is key.__cause__
    assert names(key.__cause__) == ["chained", "deep"]


def test_suppressed_context_and_no_traceback():
    exc = ValueError("never raised")
    exc.__suppress_context__ = True
    got = trip(exc)
    assert got.__suppress_context__
    assert got.__traceback__ is None


def test_a_ring_of_contexts():
    one, two = ValueError(1), ValueError(2)
    one.__context__, two.__cause__ = two, one
    got = trip(one)
    assert got.__context__.__cause__ is got


class OwnInit(Exception):
    def __init__(self, code, *, text):
        super().__init__(text)
        self.code = code


class OwnInitOfBuiltin(UnicodeDecodeError):
    def __init__(self, data):
        super().__init__("utf-8", data, 0, 1, "bad")


class OwnReduce(Exception):
    def __init__(self, rule, *, severity):
        super().__init__(f"{rule} broken")
        self.rule, self.severity = rule, severity

    def __reduce__(self):
        return _rebuild, (self.rule, self.severity)


def _rebuild(rule, severity):
    return OwnReduce(rule, severity=severity)


class Falsy(Exception):
    def __bool__(self):
        return False


@pytest.mark.parametrize(
    "exc",
    [
        OwnInit(404, text="no page"),
        OwnInitOfBuiltin(b"\xff"),
        OwnReduce("positive", severity=3),
        Falsy("no"),
        CycleError([1, 2]),
        MissingKeyError("k"),
        KeyError("k"),
        StopIteration(5),
        SystemExit(3),
        KeyboardInterrupt(),
        MemoryError(),
        SyntaxError("bad", ("file", 1, 2, "text")),
        ImportError("no", name="n", path="p"),
        UnicodeEncodeError("utf-8", "x", 0, 1, "bad"),
        RemoteError("E: m", type_name="E", message="m", remote_traceback="t"),
        AttributeError("no"),
    ],
    ids=repr,
)
def test_kinds_of_errors(exc):
    got = trip(exc)
    assert type(got) is type(exc)
    assert (str(got), got.args) == (str(exc), exc.args)
    assert vars(got) == vars(exc)
    for name in ("name", "path", "value", "code", "lineno", "rule", "severity", "cycle", "encoding"):
        assert getattr(got, name, None) == getattr(exc, name, None)


def test_errors_defined_by_value():
    kind = type("Local", (ValueError,), {"__module__": "__main__", "twice": lambda self: self.args * 2})
    got = trip(kind("x"))
    assert type(got).__name__ == "Local"
    assert got.twice() == ("x", "x")


def test_device_data_and_arrays_in_arguments():
    got = trip(ValueError(np.arange(3)))
    assert got.args[0].tolist() == [0, 1, 2]


def groups():
    errors = [raised(deep, 0), raised(lambda: int([]))]
    inner = ExceptionGroup("inner", [OwnInit(1, text="x")])
    inner.add_note("inside")
    raise ExceptionGroup("outer", [*errors, inner]) from errors[0]


def test_groups():
    got = trip(raised(groups))
    assert (type(got), got.message) == (ExceptionGroup, "outer")
    first, second, inner = got.exceptions
    assert [type(e) for e in got.exceptions] == [ValueError, TypeError, ExceptionGroup]
    assert names(first) == ["raised", "deep"]
    assert got.__cause__ is first
    assert second.__traceback__ is not None
    assert inner.__notes__ == ["inside"]
    assert inner.exceptions[0].code == 1
    assert type(trip(BaseExceptionGroup("g", [KeyboardInterrupt()]))) is BaseExceptionGroup


class OwnGroup(ExceptionGroup):
    extra = None


def test_groups_of_a_persons_own():
    group = OwnGroup("mine", [ValueError(1)])
    group.extra = 5
    got = trip(group)
    assert (type(got), got.extra, got.exceptions[0].args) == (OwnGroup, 5, (1,))
    mixed = ExceptionGroup("g", [ValueError(threading.Lock()), KeyError(1)])
    mixed.lock = threading.Lock()
    got = trip(mixed)
    assert [type(e) for e in got.exceptions] == [RemoteError, KeyError]


class Landmine(Exception):
    def __reduce__(self):
        return _explode, ("x",)


def _explode(*args):
    raise SystemExit("loading this error failed")


class NotAnError(Exception):
    def __reduce__(self):
        return str, ("text",)


def with_lock():
    exc = ValueError("sensor nine is silent")
    exc.lock = threading.Lock()
    return exc


def fail(exc):
    raise exc


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Landmine("sensor nine is silent"), f"{__name__}.Landmine"),
        (lambda: NotAnError("sensor nine is silent"), f"{__name__}.NotAnError"),
        (with_lock, "ValueError"),
    ],
    ids=["landmine", "no error", "lock"],
)
def test_a_stand_in(make, name):
    exc = make()
    exc.add_note("a note")
    got = trip(raised(fail, exc))
    assert type(got) is RemoteError
    assert str(got) == f"{name}: sensor nine is silent"
    assert (got.type_name, got.message) == (name, "sensor nine is silent")
    assert got.remote_traceback.startswith("Traceback (most recent call last):\n")
    assert "in fail\n" in got.remote_traceback
    assert got.remote_traceback.endswith(f"{name}: sensor nine is silent\na note\n")
    assert got.__notes__ == ["a note"]
    assert names(got) == ["raised", "fail"]


def test_only_the_one_that_cannot_cross_is_replaced():
    def chain():
        try:
            fail(with_lock())
        except ValueError as error:
            raise KeyError("key") from error

    got = trip(raised(chain))
    assert type(got) is KeyError
    assert type(got.__cause__) is RemoteError
    assert names(got.__cause__) == ["chain", "fail"]


def test_a_class_that_is_not_there(monkeypatch):
    module = ModuleType("only_there")
    module.Gone = type("Gone", (Exception,), {"__module__": "only_there"})
    monkeypatch.setitem(sys.modules, "only_there", module)
    data = dump_error(module.Gone("text"), 5)
    monkeypatch.delitem(sys.modules, "only_there")
    got = load_error(data)
    assert (type(got), str(got)) == (RemoteError, "only_there.Gone: text")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text for you")

    __repr__ = __str__


class MuteReduce(Mute):
    def __reduce__(self):
        raise SystemExit


class OddNotes(Exception):
    @property
    def __notes__(self):
        raise SystemExit


class Stubborn(Exception):
    def __setattr__(self, name, value):
        raise TypeError(name)


def test_errors_that_fight_back():
    assert type(trip(Mute(1))) is Mute
    got = trip(MuteReduce())
    assert (type(got), str(got)) == (RemoteError, f"{__name__}.MuteReduce: (its text cannot be shown)")
    assert str(trip(OddNotes("text"))) == "OddNotes"
    assert type(trip(raised(fail, Stubborn()))) is Stubborn
    odd = ValueError("x")
    odd.__notes__ = 5
    assert type(trip(odd)) is ValueError


def test_what_is_carried_is_bounded():
    big = trip(ValueError("x" * (room.MOST_BYTES + 1)))
    assert type(big) is RemoteError
    assert len(dump_error(ValueError("x" * (room.MOST_BYTES + 1)), 5)) < 3 * room.MOST_TEXT
    first = last = ValueError(0)
    for i in range(1, 3000):
        last.__context__ = last = ValueError(i)
    got, count = trip(first), 0
    while got is not None:
        assert got.args == (count,)
        got, count = got.__context__, count + 1
    assert count == room.MOST_ERRORS
    got = trip(raised(deep, 500))
    assert names(got) == ["raised"] + ["deep"] * 99


def forever():
    return forever()


def test_an_error_of_recursion():
    got = trip(raised(forever))
    assert type(got) is RecursionError
    assert len(names(got)) == room.MOST_FRAMES


def test_the_errors_own_are_not_changed():
    exc = raised(chained)
    before = (exc.__traceback__, exc.__context__, exc.__cause__, dict(vars(exc)))
    dump_error(exc, 5)
    assert (exc.__traceback__, exc.__context__, exc.__cause__, dict(vars(exc))) == before


@given(st.binary(max_size=50))
def test_garbage_becomes_an_error(data):
    got = load_error(data)
    assert type(got) is RemoteError
    assert str(got).startswith("an error came that cannot be read: ")


def test_a_group_inside_itself_becomes_an_error():
    entry = (b"", None, "G", "m", "", (), (), None, None, False, (0,))
    assert str(load_error(msgpack.packb([entry]))) == (
        "an error came that cannot be read: ValueError: a group of exceptions that is its own member"
    )


PEER = """
import sys, msgpack
from hetsched.comm.remote_errors import dump_error, load_error
out = [dump_error(load_error(data), 5) for data in msgpack.unpackb(sys.stdin.buffer.read())]
sys.stdout.buffer.write(msgpack.packb(out))
"""


@pytest.mark.parametrize("python", PEERS)
def test_other_versions(python):
    local = type("Local", (ValueError,), {"__module__": "__main__", "twice": lambda self: self.args * 2})
    sent = [raised(chained), CycleError([1, 2]), ValueError(np.arange(3)), raised(fail, local("x"))]
    version, answers = ask(python, PEER, [dump_error(exc, 5) for exc in sent])
    chain, cycle, arrayed, by_value = map(load_error, answers)
    assert type(chain) is FileNotFoundError
    assert chain.__context__.__notes__ == ["a note"]
    assert names(chain.__context__.__cause__) == ["chained", "deep"]
    assert cycle.cycle == [1, 2]
    assert arrayed.args[0].tolist() == [0, 1, 2]
    assert names(by_value) == ["raised", "fail"]
    if version == sys.version_info[:2]:
        assert by_value.args == ("x",)
    else:
        assert (type(by_value), str(by_value)) == (RemoteError, "__main__.Local: x")


def test_dask_may_have_exceptions_pickled_its_own_way(monkeypatch):
    """dask.multiprocessing has tblib do it for all types of a process, and tblib keeps arguments alone."""
    pickling_support = pytest.importorskip("tblib.pickling_support")
    for kind in (ValueError, StopIteration, UnicodeEncodeError):
        monkeypatch.setitem(copyreg.dispatch_table, kind, pickling_support.pickle_exception)
    for exc in (StopIteration(5), UnicodeEncodeError("utf-8", "x", 0, 1, "bad"), ValueError(1, 2)):
        got = trip(exc)
        assert (type(got), str(got), got.args) == (type(exc), str(exc), exc.args)
