"""``hetsched.get`` wherever a program may call it: threads, tasks, loops, forks, at the end, and under Ctrl-C."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import trio
from dask.system import CPU_COUNT

import hetsched
from hetsched import computing

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.filterwarnings("ignore:no GPU was found:UserWarning")


def inc(x):
    return x + 1


def lane():
    return threading.current_thread().name.split("-")[1].partition(":")[0]


# Threads


def test_many_callers_at_once():
    gate = threading.Barrier(12)
    wrong = []

    def run(i):
        gate.wait(30)
        for r in range(5):
            dsk = {("x", j): (inc, i * j) for j in range(5)}
            dsk["sum"] = (sum, [("x", j) for j in range(5)])
            got = hetsched.get(dsk, ["sum", ("x", 4)], num_workers=None if i % 3 else 1 + i % 2)
            if got != (10 * i + 5, 4 * i + 1):
                wrong.append((i, r, got))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_do_not_pile_up():
    def call():
        dsk = {("x", i): (inc, i) for i in range(20)}
        hetsched.get(dsk, list(dsk))

    def burst():
        threads = [threading.Thread(target=call) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return threading.active_count()

    burst()
    before = burst()
    assert max(burst() for _ in range(5)) <= before + 2 * CPU_COUNT


# Tasks that call get


def nested(depth, executor):
    if depth == 0:
        return 1
    dsk = {("n", i): (nested, depth - 1, executor) for i in range(3)}
    return sum(hetsched.get(dsk, list(dsk), annotations={"n": {"executor": executor}}))


@pytest.mark.parametrize("executor", ["cpu", "gpu", "io"])
def test_get_inside_of_tasks(executor):
    dsk = {("n", i): (nested, 3, executor) for i in range(6)}
    assert hetsched.get(dsk, list(dsk), annotations={"n": {"executor": executor}}) == (27,) * 6
    assert hetsched.get(dsk, list(dsk), num_workers=1) == (27,) * 6


def test_get_inside_of_gpu_tasks_stays_on_the_lanes_thread():
    threads = set()

    def leaf(x):
        threads.add(threading.get_ident())
        return x

    def outer(x):
        threads.add(threading.get_ident())
        return hetsched.get({"leaf": (leaf, x)}, "leaf", annotations={"leaf": {"executor": "gpu"}})

    dsk = {("o", i): (outer, i) for i in range(8)}
    assert hetsched.get(dsk, list(dsk), annotations={"o": {"executor": "gpu"}}) == tuple(range(8))
    assert len(threads) == 1


def test_many_gpu_tasks_that_call_get_do_not_stack_up():
    def outer(x):
        return hetsched.get({"leaf": (inc, x)}, "leaf", annotations={"leaf": {"executor": "gpu"}})

    dsk = {("o", i): (outer, i) for i in range(300)}
    assert hetsched.get(dsk, list(dsk), annotations={"o": {"executor": "gpu"}}) == tuple(range(1, 301))


def test_lazy_objects_computed_inside_of_tasks():
    lazy = [da.full(8, i, chunks=2) for i in range(6)]
    with dask.config.set(scheduler=hetsched.get):
        tasks = [dask.delayed(lambda i: float(np.asarray(lazy[i]).sum()) + float(lazy[i].sum()))(i) for i in range(6)]
        assert dask.compute(*tasks) == tuple(16.0 * i for i in range(6))


def test_an_error_inside_of_an_inner_get():
    def outer():
        return hetsched.get({"a": (int, "x")}, "a")

    with pytest.raises(ValueError, match="invalid literal") as caught:
        hetsched.get({"outer": (outer,)}, "outer")
    assert [note.split()[4] for note in caught.value.__notes__] == ["'a'", "'outer'"]


def test_get_in_a_finalizer():
    done = threading.Event()

    class Last:
        def __del__(self):
            if hetsched.get({"a": (inc, 1)}, "a") == 2:
                done.set()

    assert hetsched.get({"a": (Last,), "b": (lambda x: 1, "a")}, "b") == 1
    gc.collect()
    assert done.wait(20)


# Loops


def test_in_a_running_asyncio_loop():
    async def cell():
        first = hetsched.get({"a": (inc, 1)}, "a")
        second = await asyncio.to_thread(hetsched.get, {"a": (inc, first)}, "a")
        return first, second

    assert asyncio.run(cell()) == (2, 3)


async def test_in_a_trio_program():
    assert hetsched.get({"a": (inc, 1)}, "a") == 2
    assert await trio.to_thread.run_sync(lambda: hetsched.get({"a": (inc, 2)}, "a")) == 3


def test_tasks_that_run_loops():
    async def main(sleep, x):
        await sleep(0)
        return x

    dsk = {("a", i): (lambda i: asyncio.run(main(asyncio.sleep, i)), i) for i in range(3)}
    dsk |= {("t", i): (lambda i: trio.run(main, trio.sleep, i), i) for i in range(3)}
    assert hetsched.get(dsk, list(dsk)) == (0, 1, 2) * 2


def test_signals_are_left_alone():
    names = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD]
    before = [signal.getsignal(name) for name in names]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    assert hetsched.get({"a": (inc, 1)}, "a") == 2
    assert [signal.getsignal(name) for name in names] == before
    again = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(again)
    assert again == wakeup


# Forks


def in_a_fork(work):
    """Run something in a forked child; what it returns is the child's exit status."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = int(work())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


fork_in_threads = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def computes():
    dsk = {("x", i): (inc, i) for i in range(10)}
    return hetsched.get({**dsk, "sum": (sum, list(dsk))}, "sum", num_workers=2)


@fork_in_threads
def test_a_forked_child_computes():
    assert computes() == 55
    assert in_a_fork(computes) == 55
    assert in_a_fork(lambda: in_a_fork(computes)) == 55
    assert computes() == 55


@fork_in_threads
def test_a_task_forks():
    assert hetsched.get({"a": (in_a_fork, computes)}, "a") == 55


@fork_in_threads
def test_a_fork_while_another_thread_builds_a_graph():
    """The collector is paused while a graph is built; the child does not inherit that."""
    building, go_on = threading.Event(), threading.Event()

    class Slow(dict):
        def __getitem__(self, key):
            building.set()
            go_on.wait(30)
            return super().__getitem__(key)

        def get(self, key, default=None):
            building.set()
            go_on.wait(30)
            return super().get(key, default)

    thread = threading.Thread(target=hetsched.get, args=(Slow(a=(inc, 1)), "a"))
    thread.start()
    building.wait(30)
    try:
        assert in_a_fork(lambda: computes() if gc.isenabled() else 98) == 55
    finally:
        go_on.set()
        thread.join()
    assert gc.isenabled()


# Lanes


def test_executors_are_apart():
    names = {}

    def note(key):
        names[key] = lane()

    keys = ["cpu", "gpu", "io"]
    notes = {key: {"executor": key} for key in keys}
    hetsched.get({key: (note, f"on {key}") for key in keys}, keys, annotations=notes)
    assert names == {"on cpu": "cpu", "on gpu": "gpu", "on io": "io"}


@pytest.mark.parametrize("note", [{"executor": "gpu"}, {"gpu": True}, {"resources": {"GPU": 1}}])
def test_gpu_tasks_run_one_at_a_time_on_one_thread(note):
    lock = threading.Lock()
    threads = set()

    def work(_):
        threads.add(threading.get_ident())
        free = lock.acquire(blocking=False)
        if free:
            lock.release()
        return free and lane() == "gpu"

    dsk = {("g", i): (work, i) for i in range(30)}
    assert all(hetsched.get(dsk, list(dsk), annotations={"g": note}))
    assert len(threads) <= max(1, computing.count_devices())


def test_cpu_tasks_do_not_wait_behind_gpu_tasks():
    cpu_done = threading.Event()
    dsk = {("g", i): (lambda _: cpu_done.wait(20), i) for i in range(4)}
    dsk |= {("c", i): (inc, i) for i in range(20)}
    dsk["all"] = (lambda *xs: cpu_done.set(), *[("c", i) for i in range(20)])
    notes = {"g": {"executor": "gpu", "priority": 9}}
    got = hetsched.get(dsk, [("g", i) for i in range(4)] + ["all"], annotations=notes)
    assert got == (True,) * 4 + (None,)


def test_gpu_tasks_do_not_wait_behind_cpu_tasks():
    gpu_done = threading.Event()
    dsk = {("c", i): (lambda _: gpu_done.wait(20), i) for i in range(4 * CPU_COUNT)}
    dsk["g"] = (gpu_done.set,)
    assert all(hetsched.get(dsk, list(dsk), annotations={"g": {"executor": "gpu"}})[:-1])


def test_io_is_wide():
    together = threading.Barrier(16)
    dsk = {("io", i): (lambda _: together.wait(20) >= 0, i) for i in range(16)}
    assert all(hetsched.get(dsk, list(dsk), annotations={"io": {"executor": "io"}}))


def test_the_pretended_gpu_is_told_once():
    code = """
    import warnings, hetsched
    from hetsched import computing
    computing.count_devices = lambda: 0
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            hetsched.get({"a": (int, 1)}, "a", annotations={"a": {"executor": "gpu"}})
    print([str(w.message) for w in seen], [w.filename == __file__ for w in seen] if "__file__" in globals() else "")
    print(hetsched.last_report().pretended_gpu)
    """
    out = run_script(code)
    assert out.stdout.count("no GPU was found") == 1
    assert out.stdout.endswith("True\n")


# Programs: their end, and Ctrl-C


def run_script(code, *options, **env):
    """Run a program; it ends by itself, with status 0 and nothing on the error stream."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=110, env={**os.environ, "PYTHONPATH": path, **env}, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == 0
    return done


BEGIN = """
import atexit, os, signal, sys, threading, time
import hetsched
get = hetsched.get
get({"a": (len, "warm")}, "a")
started = threading.Event()
release = threading.Event()
def nap(*args):
    started.set()
    release.wait(30)
    return 1
def nap_long(*args):
    started.set()
    time.sleep(20)
def interrupt():
    started.wait(30)
    os.kill(os.getpid(), signal.SIGINT)
def in_thread(call):
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
"""


def test_a_program_ends_while_idle():
    assert run_script(BEGIN + "print('end')").stdout == "end\n"


@pytest.mark.parametrize("executor", ["cpu", "gpu", "io"])
def test_a_program_ends_while_tasks_run(executor):
    code = (
        BEGIN
        + f"""
graph = {{("x", i): (nap_long, i) for i in range(20)}}
in_thread(lambda: get(graph, list(graph), annotations={{"x": {{"executor": "{executor}"}}}}))
started.wait(30)
print("end")
"""
    )
    assert run_script(code, "-W", "ignore:no GPU").stdout == "end\n"


def test_a_program_ends_while_a_child_process_runs_a_task():
    code = (
        BEGIN
        + """
def mark_and_nap(path):
    import time
    open(path, "w").close()
    time.sleep(20)
import tempfile
folder = tempfile.mkdtemp()
os.mkfifo(folder + "/f")
def run():
    get({"a": (mark_and_nap, folder + "/f")}, "a", annotations={"a": {"executor": "process"}})
in_thread(run)
open(folder + "/f").close()  # waits until the task has opened it too
print("end")
"""
    )
    assert run_script(code).stdout == "end\n"


def test_a_task_that_ends_after_the_cluster_was_closed_says_nothing():
    code = (
        BEGIN
        + """
import hetsched.computing as computing
in_thread(lambda: get({"a": (nap,), "b": (len, ["a"])}, "b"))
started.wait(30)
computing._close()
release.set()
for thread in threading.enumerate():
    if thread.name.startswith("hetsched-cpu"):
        thread.join(5)
print("end")
"""
    )
    assert run_script(code).stdout == "end\n"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="no thread can be started then")
def test_get_at_exit():
    code = "import atexit\n@atexit.register\ndef last(): print(hetsched.get({'a': (len, 'xyz')}, 'a'))\n" + BEGIN
    assert run_script(code).stdout == "3\n"


CTRL_C = """
in_thread(interrupt)
try:
    get({graph}, {keys}, **{options})
except KeyboardInterrupt:
    print("interrupted", end=" ")
"""


@pytest.mark.parametrize(
    "options",
    ["{}", "{'num_workers': 3}", "{'callbacks': [(None,) * 5]}", "{'annotations': {'x': {'executor': 'gpu'}}}"],
)
def test_ctrl_c(options):
    code = (
        BEGIN
        + """
count = []
def work(i):
    count.append(i)
    nap()
graph = {("x", i): (work, i) for i in range(500)}
"""
        + CTRL_C.format(graph="graph", keys="list(graph)", options=options)
        + f"""
assert get({{"a": (len, "io")}}, "a", annotations={{"a": {{"executor": "io"}}}}) == 2
before = len(count)
release.set()
options = {options}
options.pop("annotations", None)
print(get({{("y", i): (len, "after") for i in range(50)}}, ("y", 9), **options), len(count) == before < 500)
"""
    )
    assert run_script(code, "-W", "ignore:no GPU").stdout == "interrupted 5 True\n"


def test_ctrl_c_while_fused_tasks_run():
    code = (
        BEGIN
        + """
from dask._task_spec import Task, TaskRef
ran = []
gone = threading.Event()
class Value:
    def __del__(self):
        gone.set()
def first():
    nap()
    return Value()
fused = Task.fuse(Task("a", first), Task("b", ran.append, TaskRef("a")))
"""
        + CTRL_C.format(graph='{"b": fused}', keys='"b"', options="{}")
        + """
assert get({"a": (len, "io")}, "a", annotations={"a": {"executor": "io"}}) == 2
release.set()
assert gone.wait(30)
print(ran)
"""
    )
    assert run_script(code).stdout == "interrupted []\n"


CHILD = (
    BEGIN
    + """
import tempfile
fifo = tempfile.mkdtemp() + "/fifo"
os.mkfifo(fifo)
process = {"annotations": {"x": {"executor": "process"}}}
def opens_and_naps(path):
    import time
    held = open(path, "w")  # waits until the parent reads
    time.sleep(20)
def interrupt():
    global reader
    reader = open(fifo)
    INTERRUPT
os.setpgrp()
"""
)


@pytest.mark.parametrize("how", ["os.killpg(0, signal.SIGINT)", "os.kill(os.getpid(), signal.SIGINT)"])
def test_ctrl_c_ends_a_task_in_a_child_process(how):
    """It can be stopped, so it is; a terminal's Ctrl-C reaches the child too, which says nothing about it."""
    interrupted = CTRL_C.format(graph='{"x": (opens_and_naps, fifo)}', keys='"x"', options="process")
    code = (
        CHILD.replace("INTERRUPT", how)
        + interrupted
        + """
began = time.monotonic()
reader.read()  # ends when the child has
print("gone", get({"x": (len, "after")}, "x", **process), time.monotonic() - began < 15)
"""
    )
    assert run_script(code).stdout == "interrupted gone 5 True\n"


def test_ctrl_c_while_a_child_process_is_idle():
    code = (
        CHILD
        + """
print(get({"x": (len, "first")}, "x", **process))
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(1)
except KeyboardInterrupt:
    print("interrupted")
print(get({"x": (len, "after")}, "x", **process))
"""
    )
    assert run_script(code).stdout == "5\ninterrupted\n5\n"


EVERY_POINT = """
import gc, sys, threading
import hetsched, hetsched.computing
get = hetsched.get
get({"a": (len, "xy")}, "a")
get({"a": (len, "xy")}, "a", num_workers=3)
def attempt(n, call):
    \"\"\"Interrupt a call at the n-th function it calls; tell where that was, None where it ended before.\"\"\"
    count, where = 0, None
    def interrupt(frame, event, arg):
        nonlocal count, where
        if event in ("call", "c_return"):
            count += 1
            if count == n:
                sys.setprofile(None)
                where = frame.f_code.co_filename, frame.f_lineno, event
                raise KeyboardInterrupt
    sys.setprofile(interrupt)
    try:
        call(n)
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return where
def works(call):
    got = []
    def run():
        try:
            got.append(call())
        except BaseException as error:
            got.append(repr(error))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(15)
    return got
for n in range(1, 3000):
    where = attempt(n, lambda n: CALL)
    if where is None:
        break
    got = works(lambda: CALL), works(lambda: get({"x": (len, "xyz")}, "x"))
    if got != ([WANT], [3]) or not gc.isenabled():
        print("after an interrupt at", where, "get gave", got, "collector on:", gc.isenabled())
        break
print("done")
"""


@pytest.mark.parametrize(
    ("call", "want"),
    [
        ('get({"a": (len, "xy"), "b": (abs, "a")}, "b")', 2),
        ('get({"a": (len, "xy")}, "a", num_workers=3)', 2),
        ('get({"a": (len, "xy")}, "a", num_workers=3 + n)', 2),
        ('get({"a": (len, "xy")}, "a", callbacks=[(None,) * 5])', 2),
    ],
)
def test_an_interrupt_at_any_point_leaves_nothing_broken(call, want):
    """KeyboardInterrupt in the calling thread at every call of a function: where Python looks for signals."""
    code = EVERY_POINT.replace("CALL", call).replace("WANT", str(want))
    assert run_script(code, PYTHONWARNINGS="ignore").stdout == "done\n"
