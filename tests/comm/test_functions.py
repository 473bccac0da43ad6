"""Functions go by name where they can, are pickled and loaded once, and are never the wrong ones."""

from __future__ import annotations

import functools
import gc
import json
import operator
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest
from named import named
from peers import PEERS, ask

from hetsched.comm import functions as room
from hetsched.comm.digests import digest_of
from hetsched.comm.functions import Function, dump_function, load_function
from hetsched.errors import ProtocolError, TaskError


@pytest.fixture(autouse=True)
def caches(monkeypatch):
    monkeypatch.setattr(room, "_dumped", weakref.WeakKeyDictionary())
    monkeypatch.setattr(room, "_loaded", type(room._loaded)())
    monkeypatch.setattr(room, "_loaded_bytes", 0)


def test_a_function_that_can_be_imported():
    function = dump_function(operator.add, 4)
    assert function == Function(digest_of(function.data), b"\0\0" + pickle.dumps(operator.add, 4), False)
    assert load_function(function.digest, function.data) is operator.add
    assert dump_function(operator.add, 4) is function
    assert dump_function(operator.add, 5) != function


BY_NAME = [operator.add, json.dumps, np.sum, np.add, int, np.ndarray, functools.partial(np.sum, axis=0), "x".join]


@pytest.mark.parametrize("func", BY_NAME, ids=named)
def test_by_name(func):
    function = dump_function(func, 5)
    assert not function.by_value
    assert repr(load_function(*function[:2])).split(" at ")[0] == repr(func).split(" at ")[0]


def outer(n):
    def inner(x):
        return x + n

    return inner


@pytest.mark.parametrize(
    "func", [lambda x: x + 2, outer(2), functools.partial(lambda y, x: x + y, 2)], ids=["lambda", "closure", "partial"]
)
def test_by_value(func):
    function = dump_function(func, 5)
    assert function.by_value
    assert load_function(function.digest, function.data)(1) == 3
    assert load_function(function.digest, bytearray(function.data)) is load_function(function.digest, b"")


def test_what_a_script_defines_goes_by_value(monkeypatch):
    func = lambda x: x  # noqa: E731
    func.__module__, func.__qualname__, func.__name__ = "__main__", "mine", "mine"
    monkeypatch.setattr(sys.modules["__main__"], "mine", func, raising=False)
    assert dump_function(func, 5).by_value


def test_code_of_another_version_is_refused():
    data = dump_function(lambda: 5, 5).data
    data = bytes((3, sys.version_info[1] + 1)) + data[2:]
    with pytest.raises(
        TaskError, match=rf"code of Python 3\.{sys.version_info[1] + 1} came by value, and this is Python 3"
    ):
        load_function(digest_of(data), data)


def test_the_digest_is_the_datas():
    function = dump_function(operator.add, 5)
    for data in (b"", b"\0", function.data + b"\0"):
        with pytest.raises(ProtocolError, match="not its own"):
            load_function(function.digest, data)
    with pytest.raises(ProtocolError, match="not its own"):
        load_function(b"other", function.data)


def test_only_functions_that_do_not_change_are_remembered():
    count = 1
    changing = lambda: count  # noqa: E731
    closed = lambda x, y: x + y  # noqa: E731
    before = dump_function(changing, 5)
    count = 2
    assert load_function(*dump_function(changing, 5)[:2])() == 2
    assert load_function(*before[:2])() == 1
    first = dump_function(closed, 5)
    assert dump_function(closed, 5) is first
    closed.__code__ = (lambda x, y: x * y).__code__
    assert load_function(*dump_function(closed, 5)[:2])(3, 4) == 12
    bound = [1].append
    assert dump_function(bound, 5) is not dump_function(bound, 5)


@pytest.mark.parametrize(
    "func",
    [lambda x=1: x, lambda *, x=1: x, lambda x: len(x), lambda: lambda: len, outer(1), type("K", (), {})],
    ids=["default", "keyword", "global", "inner", "closure", "class"],
)
def test_functions_that_may_change(func):
    dump_function(func, 5)
    assert len(room._dumped) == 0


def test_what_was_dumped_is_not_kept_alive():
    def func(x):
        return x

    dump_function(func, 5)
    assert len(room._dumped) == 1
    del func
    gc.collect()
    assert len(room._dumped) == 0


def test_what_is_loaded_is_bounded(monkeypatch):
    monkeypatch.setattr(room, "MOST_FUNCTIONS", 3)
    functions = [dump_function(functools.partial(operator.add, i), 5) for i in range(5)]
    loaded = [load_function(*function[:2]) for function in functions[:3]]
    assert load_function(functions[0].digest, b"") is loaded[0]
    for function in functions[3:]:
        load_function(*function[:2])
    assert list(room._loaded) == [functions[0].digest, functions[3].digest, functions[4].digest]
    assert room._loaded_bytes == sum(len(functions[i].data) for i in (0, 3, 4))
    monkeypatch.setattr(room, "MOST_BYTES", 100)
    big = dump_function(functools.partial(operator.add, bytes(1000)), 5)
    load_function(*big[:2])
    assert list(room._loaded) == [big.digest]
    assert room._loaded_bytes == len(big.data)


class Slow:
    """Loads only once two threads are about to load it."""

    both = threading.Barrier(2, timeout=10)

    def __reduce__(self):
        return _slow, ()

    def __call__(self):
        return "slow"


def _slow():
    Slow.both.wait()
    return Slow()


def test_threads_that_load_at_once_get_the_same_function():
    function = dump_function(Slow(), 5)
    got = []
    threads = [threading.Thread(target=lambda: got.append(load_function(*function[:2]))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got[0] is got[1]
    assert got[0]() == "slow"


class NoLoad:
    def __reduce__(self):
        return operator.truediv, (1, 0)

    def __call__(self):
        pass


def test_what_cannot_be_loaded_is_tried_again():
    function = dump_function(NoLoad(), 5)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            load_function(*function[:2])


PEER = """
import sys, msgpack
from hetsched.comm.functions import dump_function, load_function
out = []
for digest, data, by_value in msgpack.unpackb(sys.stdin.buffer.read()):
    try:
        out.append(dump_function(load_function(digest, data), 5))
    except Exception as error:
        out.append(f"{type(error).__name__}: {error}")
sys.stdout.buffer.write(msgpack.packb(out))
"""


@pytest.mark.parametrize("python", PEERS)
def test_other_versions(python):
    functions = [dump_function(func, 5) for func in [*BY_NAME, lambda x: x + 1]]
    version, answers = ask(python, PEER, functions)
    *answers, by_value = answers
    for func, answer in zip(BY_NAME, answers, strict=True):
        assert type(answer) is tuple, answer
        assert repr(load_function(*answer[:2])).split(" at ")[0] == repr(func).split(" at ")[0]
    if version == sys.version_info[:2]:
        assert load_function(*by_value[:2])(1) == 2
    else:
        assert by_value.startswith("TaskError: code of Python 3.")
