"""The command line, notebooks, progress, versions that differ: scenarios U01, U03, U04 and U06, with real processes.

All of them are here. U03 has no IPython kernel, but what makes a kernel hard: cells run inside of an asyncio loop that
is running, and an interrupt is a KeyboardInterrupt in the cell.
"""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import time

import dask
import dask.array as da
import pytest
from dask.diagnostics import Profiler, ProgressBar
from programs import ENVIRONMENT, SCHEDULER, WORKER, finish, ready_address, running, until

import hetsched
from hetsched import Client, LocalCluster
from hetsched.comm import introduction
from hetsched.errors import Rejected

pytestmark = pytest.mark.limit(60)


# U01


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--no-nanny --nworkers 4", "leave one of them out, or start hetsched-worker several times"),
        ("--resources GPU", "'GPU' is not like GB=4"),
        ("--resources GPU=one", "'GPU=one' is not like GB=4"),
        ("--nthreads 0", "0 is not in the range x>=1"),
        ("--nworkers 0", "0 is not in the range x>=1"),
        ("--nworkers auto", "'auto' is not a valid integer"),
        ("--nthread 4", "Did you mean '--nthreads'?"),
        ("--nprocs 4", "No such option '--nprocs': write --nworkers N."),
        ("--no-dashboard", "No such option '--no-dashboard': there is no dashboard: leave it out."),
        ("--worker-port 3000", "write --host ADDRESS and --port PORT for where to listen"),
        ("--memory-limit lots", 'write it as "500MB", "4GB" or "4GiB"'),
        ("--death-timeout soon", 'write a time as 20, "500ms", "20s", "5 min" or "1h"'),
        ("--pool A --resources pool-B=1", "--pool says A and this says B"),
        ("--scheduler-file x", "give the scheduler's ADDRESS or --scheduler-file, one of them"),
    ],
)
def test_u01_contradicting_or_old_options_of_a_worker(options, says):
    code, said = finish(*WORKER, "127.0.0.1:1", *options.split())
    assert code == 2
    assert says in " ".join(said.split())
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--port high", "'high' is not a valid integer"),
        ("--bokeh-port 8787", "there is no dashboard: leave it out"),
        ("--interface eth0", "write --host ADDRESS"),
        ("--protocol tls", "it is part of the address, as in tls://HOST:PORT"),
        ("tcp://127.0.0.1:8786", "unexpected extra argument"),
    ],
)
def test_u01_contradicting_or_old_options_of_a_scheduler(options, says):
    code, said = finish(*SCHEDULER, *options.split())
    assert code == 2
    assert says in " ".join(said.split())


@pytest.mark.parametrize("nanny", ["--nanny", "--no-nanny"])
def test_u01_two_workers_with_one_name(nanny):
    with running(*SCHEDULER, "--port", "0") as scheduler:
        address = ready_address(scheduler)
        with running(*WORKER, address, "--name", "w", "--nthreads", "3", "--no-nanny") as first:
            until(first, "serves the scheduler")
            began = time.monotonic()
            code, said = finish(*WORKER, address, "--name", "w", nanny)
            assert time.monotonic() - began < 10
            assert code == 2
            assert "there is a worker 'w' already: give this one another --name" in said
            with Client(address) as client:
                (worker,) = client.scheduler_info()["workers"].values()
                assert worker["executors"]["cpu"] == 3
                assert client.submit(abs, -1).result() == 1


def test_u01_the_name_of_one_that_died_is_free():
    with running(*SCHEDULER, "--port", "0") as scheduler:
        address = ready_address(scheduler)
        with running(*WORKER, address, "--name", "w", "--no-nanny") as first:
            until(first, "serves the scheduler")
        with running(*WORKER, address, "--name", "w", "--no-nanny") as second:
            until(second, "serves the scheduler")
            with Client(address) as client:
                assert client.submit(abs, -1).result() == 1


# U03


NOTEBOOK = """
import asyncio, os, signal, sys, threading, time
import dask
import hetsched
from hetsched.errors import ConnectionLost

def compute(n):
    return dask.delayed(sum)([dask.delayed(abs)(-i) for i in range(n)]).compute(scheduler=hetsched.get)

def interrupted(path):
    def reached():
        with open(path) as here:
            here.read()
        os.kill(os.getpid(), signal.SIGINT)
    def stay(path):
        with open(path, "w"):
            pass
        time.sleep(30)
    threading.Thread(target=reached, daemon=True).start()
    try:
        dask.delayed(stay)(path).compute(scheduler=hetsched.get)
    except KeyboardInterrupt:
        return "interrupted"

def lost():
    try:
        return compute(3)
    except ConnectionLost as error:
        return type(error).__name__

async def kernel():
    for line in sys.stdin:
        print(repr(eval(line)), flush=True)  # a cell
        await asyncio.sleep(0)

loop = asyncio.new_event_loop()
loop.run_until_complete(kernel())
loop.close()
"""


def test_u03_a_notebook(tmp_path):
    path = str(tmp_path / "here")
    os.mkfifo(path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    environment = {**ENVIRONMENT, "HETSCHED_ADDRESS": f"tcp://127.0.0.1:{port}"}
    kernel = subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        stderr=subprocess.STDOUT,
    )  # fmt: skip

    def cell(source):
        kernel.stdin.write(source + "\n")
        kernel.stdin.flush()
        return kernel.stdout.readline().strip()

    with kernel:
        try:
            with running(*SCHEDULER, "--port", port) as scheduler:
                address = ready_address(scheduler)
                with running(*WORKER, address, "--no-nanny", "--nthreads", "2") as worker:
                    until(worker, "serves the scheduler")
                    assert cell("compute(10)") == "45"
                    began = time.monotonic()
                    assert cell(f"interrupted({path!r})") == "'interrupted'"
                    assert time.monotonic() - began < 10
                    assert cell("compute(11)") == "55"
                    scheduler.kill()
                    scheduler.wait()
                    with running(*SCHEDULER, "--port", port) as second:
                        ready_address(second)
                        until(worker, "serves the scheduler")
                        assert cell("lost()") in ("'ConnectionLost'", "3")
                        assert cell("compute(12)") == "66"
            kernel.stdin.close()
            assert kernel.stdout.read() == ""
            assert kernel.wait() == 0
        finally:
            kernel.kill()


# U04


def test_u04_a_progress_bar_moves_and_reaches_the_end():
    with LocalCluster(2, 1) as cluster, Client(cluster) as client:
        slow = [dask.delayed(time.sleep)(0.05) for _ in range(30)]
        for get in (client, client.get, hetsched.get):
            out = io.StringIO()
            with ProgressBar(out=out, dt=0.05):
                dask.compute(*slow, scheduler=get)
            shown = [int(part.split("%")[0].split("|")[-1]) for part in out.getvalue().split("\r") if "%" in part]
            assert shown == sorted(shown)
            assert shown[-1] == 100
            assert len({percent for percent in shown if 0 < percent < 100}) >= 3
        with ProgressBar(out=io.StringIO()), Profiler() as profiler:
            x = da.ones((100, 100), chunks=10)
            assert x.sum().compute(scheduler=client) == 10_000
        assert len({task.key for task in profiler.results}) == len(profiler.results) > 100
        out = io.StringIO()
        with ProgressBar(out=out), pytest.raises(ZeroDivisionError):
            dask.delayed(lambda: 1 / 0)().compute(scheduler=client)
        assert "100%" not in out.getvalue()


# U06


def test_u06_releases_that_speak_the_same_protocol_work_together(monkeypatch):
    with running(*SCHEDULER, "--port", "0") as scheduler:
        address = ready_address(scheduler)
        with running(*WORKER, address, "--no-nanny") as worker:
            until(worker, "serves the scheduler")
            monkeypatch.setattr(introduction, "_versions", lambda: {"hetsched": "99.1", "numpy": "0.1"})
            monkeypatch.setattr(introduction, "PROTOCOLS", (1, 2, 3))
            with Client(address) as client:
                assert client.submit(abs, -2).result() == 2


FROM_THE_FUTURE = """
import hetsched.comm.introduction as introduction
introduction.PROTOCOLS = (7,)
introduction._versions = lambda: {"hetsched": "99.1"}
from hetsched.cli.worker import main
main()
"""


@pytest.mark.parametrize("role", ["client", "worker"])
def test_u06_releases_that_do_not_are_told_both_versions(monkeypatch, role):
    with running(*SCHEDULER, "--port", "0") as scheduler:
        address = ready_address(scheduler)
        if role == "worker":
            code, said = finish(sys.executable, "-c", FROM_THE_FUTURE, address, "--no-nanny")
            assert code == 2
        else:
            monkeypatch.setattr(introduction, "PROTOCOLS", (7,))
            monkeypatch.setattr(introduction, "_versions", lambda: {"hetsched": "99.1"})
            with pytest.raises(Rejected) as caught:
                Client(address)
            said = str(caught.value)
        assert "no protocol version in common: " in said
        assert "(hetsched 99.1) speaks 7" in said
        assert "speaks 1" in said
        assert "use releases of hetsched closer to each other" in said
        assert "no protocol version in common" in until(scheduler, "turned away")
