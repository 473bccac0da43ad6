"""A child process runs tasks: what crosses, what is raised, and what happens when it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.errors import RemoteError, WorkerLostError
from hetsched.worker.child import ChildProcess
from hetsched.worker.plan import Chain

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def child():
    child = ChildProcess()
    yield child
    child.close()


def inc(x):
    return x + 1


def fails(x):
    raise ValueError(f"bad {x}")


def deep(x):
    return fails(x)


def call(child, func, *args, **kwargs):
    return child.call(TaskSpec("key", func, args, kwargs or None), [])


def test_calls(child):
    assert child.call(TaskSpec("k", inc, (1,)), []) == 2
    assert child.call(TaskSpec("k", inc, EACH), [4]) == 5
    assert child.call(TaskSpec("k", pow, (Ref(1), Ref(0))), [2, 5]) == 25
    assert child.call(TaskSpec("k", dict, (), {"a": Ref(0), "b": 2}), [1]) == {"a": 1, "b": 2}
    assert child.call(TaskSpec("k", Chain([(inc, EACH, None), (inc, EACH, None)]), EACH), [1]) == 3
    assert child.call(TaskSpec("k", os.getpid), []) == child.call(TaskSpec("k", os.getpid), []) != os.getpid()


def test_functions_without_a_name_cross(child):
    outer = 10
    assert call(child, lambda x: x + outer, 1) == 11


def test_big_values_cross(child):
    data = np.arange(1_000_000)
    assert (call(child, lambda x: x * 2, data) == data * 2).all()
    assert call(child, len, b"x" * 10_000_000) == 10_000_000


class Awkward:
    def __eq__(self, other):
        raise RuntimeError("compared")


@pytest.mark.parametrize("value", [np.arange(3), np.empty(0), Awkward(), None, (), Ref])
def test_one_argument_of_any_kind(child, value):
    assert call(child, lambda x: type(x), value) is type(value)


def test_what_is_raised_comes_with_its_remote_traceback(child):
    with pytest.raises(ValueError, match="bad 3") as caught:
        call(child, deep, 3)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["deep", "fails"]


class Landmine(Exception):
    def __reduce__(self):
        return os.fspath, (3,)  # raises when it is loaded


class Picky(Exception):
    def __init__(self, rule, *, value):
        super().__init__(rule)


def raiser(make):
    def work():
        raise make()

    return work


@pytest.mark.parametrize(
    "kind", [KeyError, StopIteration, KeyboardInterrupt, SystemExit, GeneratorExit, RecursionError]
)
def test_errors_of_any_kind(child, kind):
    with pytest.raises(kind):
        call(child, raiser(lambda: kind("x")))
    assert call(child, inc, 1) == 2


def test_errors_that_cannot_be_carried_over(child):
    with pytest.raises(RemoteError, match="Landmine: sensor nine"):
        call(child, raiser(lambda: Landmine("sensor nine")))


def test_errors_whose_constructor_takes_more_than_their_text(child):
    with pytest.raises(Picky, match="sensor nine"):
        call(child, raiser(lambda: Picky("sensor nine", value=3)))


def test_groups(child):
    with pytest.raises(ExceptionGroup, match="two") as caught:
        call(child, raiser(lambda: ExceptionGroup("two", [ValueError("a"), TypeError("b")])))
    assert [type(error) for error in caught.value.exceptions] == [ValueError, TypeError]


def test_what_cannot_cross_is_an_error_of_that_call_alone(child):
    import threading

    with pytest.raises(TypeError, match="pickle"):
        call(child, str, threading.Lock())
    with pytest.raises(Exception, match="pickle"):
        call(child, lambda: (i for i in range(3)))
    assert call(child, inc, 1) == 2


@pytest.mark.parametrize(
    ("kill", "status"),
    [(lambda: os._exit(7), "7"), (lambda: os.kill(os.getpid(), signal.SIGKILL), "-9"), (lambda: os.abort(), "-6")],
)
def test_a_child_that_dies(child, kill, status):
    with pytest.raises(WorkerLostError, match=f"'key' died with exit status {status}"):
        call(child, kill)
    assert call(child, inc, 1) == 2


def test_a_child_that_dies_between_calls(child):
    pid = call(child, os.getpid)
    os.kill(pid, signal.SIGKILL)
    child._process.wait(20)
    assert call(child, os.getpid) != pid


def test_what_a_task_prints_does_not_disturb(child, capfd):
    assert call(child, lambda: print("from the task") or sys.stdout.flush() or 5) == 5
    assert call(child, lambda: os.write(1, b"raw") and 6) == 6


def test_a_task_that_reads_its_input_finds_it_empty(child):
    """The orders come another way: a program that a task starts must not eat them."""

    def reads():
        return subprocess.run(["cat"], capture_output=True, timeout=5, check=True).stdout, sys.stdin.read()

    assert call(child, reads) == (b"", "")
    assert call(child, inc, 1) == 2


def test_the_child_ends_when_it_is_closed():
    child = ChildProcess()
    child.close()  # one that was never started
    assert call(child, inc, 1) == 2
    process = child._process
    child.close()
    assert process.wait(20) == 0


@pytest.mark.parametrize("how", ["by the path", "from its folder"])
def test_the_child_finds_hetsched_where_the_parent_did(tmp_path, how):
    """Neither installed nor on PYTHONPATH; and a program may change its folder."""
    code = f"""
import os, sys
{f"sys.path.insert(0, {str(ROOT)!r})" if how == "by the path" else ""}
import hetsched
os.chdir({str(tmp_path)!r})
def f(): return 5
print(hetsched.get({{"a": (f,)}}, "a", annotations={{"a": {{"executor": "process"}}}}))
"""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    folder = tmp_path if how == "by the path" else ROOT
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("5\n", "")


def test_functions_and_classes_of_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import hetsched
class Box:
    def __init__(self, x): self.x = x
def double(box): return Box(2 * box.x)
if __name__ == "__main__":
    got = hetsched.get({"a": (double, Box(4))}, "a", annotations={"a": {"executor": "process"}})
    print(got.x, type(got) is Box)
""")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("8 True\n", "")
