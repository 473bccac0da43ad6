"""``hetsched-worker`` as a process: how it finds its scheduler, what it offers, how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading

import psutil
import pytest
from click.testing import CliRunner
from package_source import ROOT
from programs import SCHEDULER, WORKER, finish, ready_address, running, until

from hetsched import Client
from hetsched.cli.worker import worker as command
from hetsched.worker.spill_folders import prefix_of

HETSCHED = (sys.executable, "-m", "hetsched.cli.group")


@pytest.fixture
def scheduler():
    with running(*SCHEDULER, "--port", "0") as process:
        process.address = ready_address(process)
        yield process


def test_without_a_scheduler_it_ends_in_time():
    code, said = finish(*WORKER, "127.0.0.1:1", "--death-timeout", "100ms", "--no-nanny")
    assert code == 1
    assert re.fullmatch(
        r"hetsched-worker: no scheduler could be served for 0.1 s: cannot connect to tcp://127.0.0.1:1: .*refused\n",
        said,
    )


def test_it_waits_for_the_scheduler_file(tmp_path):
    file = str(tmp_path / "scheduler.json")
    with (
        running(*WORKER, "--scheduler-file", file, "--no-nanny", "--name", "early") as worker,
        running(*SCHEDULER, "--port", "0", "--scheduler-file", file) as scheduler,
        Client(scheduler_file=file, timeout=20) as client,  # it waits too
    ):
        address = ready_address(scheduler)
        assert f"serves the scheduler at {address}" in until(worker, "early at")
        assert client.address == address
        assert client.submit(int, 3).result() == 3
    with pytest.raises(FileNotFoundError, match=r"the scheduler file .*none is not there"):
        Client(scheduler_file=tmp_path / "none", timeout=0.1)
    with pytest.raises(ValueError, match="give an address or cluster, 'tcp://x:1', or scheduler_file, not both"):
        Client("tcp://x:1", scheduler_file=file)
    code, said = finish(*WORKER, "--scheduler-file", str(tmp_path / "none"), "--death-timeout", "50ms")
    assert code == 1
    assert f"no scheduler could be served for 0.05 s: the scheduler file {tmp_path / 'none'} is not there\n" in said


def test_it_listens_at_the_port_that_was_chosen(scheduler):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running(*WORKER, scheduler.address, "--no-nanny", "--name", "w", "--port", str(port)) as worker:
        assert f"w at tcp://127.0.0.1:{port} serves" in until(worker, "serves the scheduler")
        code, said = finish(*WORKER, scheduler.address, "--port", str(port), "--death-timeout", "1500ms", "--no-nanny")
        assert code == 1
        goes_on, gives_up = said.splitlines()
        taken = rf"\[Errno \d+\] cannot listen at tcp://127.0.0.1:{port}: Address already in use"
        assert re.search(rf" goes on trying to serve a scheduler: {taken}$", goes_on)
        assert re.fullmatch(rf"hetsched-worker: no scheduler could be served for 1.5 s: {taken}", gives_up)
    code, said = finish(*WORKER, scheduler.address, "--nworkers", "2", "--port", str(port))
    assert code == 2
    assert f"cannot all listen at --port {port}" in " ".join(said.split())


def test_it_says_what_it_waits_for(tmp_path):
    with running(*WORKER, "--scheduler-file", str(tmp_path / "none"), "--no-nanny", "--name", "w") as worker:
        said = until(worker, "w goes on trying")
    assert f"w goes on trying to serve a scheduler: the scheduler file {tmp_path / 'none'} is not there" in said


@pytest.mark.parametrize("program", [WORKER, SCHEDULER, HETSCHED])
def test_both_tell_their_version(program):
    code, said = finish(*program, "--version")
    assert code == 0
    python = ".".join(map(str, sys.version_info[:3]))
    assert re.fullmatch(rf"hetsched (\d+\.\d+\.\d+\S*|\(from its sources\)), Python {re.escape(python)}\n", said)


def test_what_is_no_scheduler_file_is_said(tmp_path):
    (tmp_path / "file").write_text("[]")
    code, said = finish(*WORKER, "--scheduler-file", str(tmp_path / "file"), "--no-nanny")
    assert (code, said) == (1, f"hetsched-worker: {tmp_path / 'file'} is no scheduler file\n")
    code, said = finish(*HETSCHED, "status", "--scheduler-file", str(tmp_path / "file"))
    assert (code, said) == (1, f"hetsched: cannot ask the scheduler: {tmp_path / 'file'} is no scheduler file\n")


def test_a_worker_that_is_not_taken_ends_at_once(tmp_path):
    mine, theirs = str(tmp_path / "mine"), str(tmp_path / "theirs")
    for token in (mine, theirs):
        finish(*SCHEDULER, "--new-token", token)
    with running(*SCHEDULER, "--port", "0", "--token-file", theirs) as scheduler:
        address = ready_address(scheduler)
        code, said = finish(*WORKER, address, "--token-file", mine)
    assert code == 2
    assert f"hetsched-worker: the scheduler at {address} does not take this worker: " in said


def test_what_it_offers(scheduler):
    options = "--name w --nthreads 3 --memory-limit 512MB --gpus 2 --resources GB=4,pool-A=1 --death-timeout 30"
    options += " --gpus-per-task 0.5"
    with running(*WORKER, scheduler.address, *options.split(), "--no-nanny") as worker:
        until(worker, "serves the scheduler")
        with Client(scheduler.address) as client:
            offered = client.scheduler_info()["workers"]["w"]
    assert offered["executors"] == {"cpu": 3, "gpu": 4, "io": 16, "process": 3}
    assert offered["devices"] == {"cuda": 2}
    assert (offered["pool"], offered["resources"]) == ("A", {"GB": 4.0, "GPU": 2.0})
    assert offered["facts"]["memory_limit"] == 512_000_000
    assert offered["facts"]["pid"] == worker.pid
    assert offered["address"].startswith("tcp://127.0.0.1:")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "give the scheduler's ADDRESS or --scheduler-file, one of them"),
        (["tcp://x:1", "--scheduler-file", "x"], "give the scheduler's ADDRESS or --scheduler-file, one of them"),
        (["ftp://x"], "no such transport"),
        (["x:1", "--resources", "GB"], "'GB' is not like GB=4"),
        (["x:1", "--resources", "pool-A=1", "--pool", "B"], "--pool says B and this says A"),
        (["x:1", "--gpus", "some"], "'some' is neither a number nor auto nor none"),
        (["x:1", "--memory-limit", "much"], "'much' is not a size"),
    ],
)
def test_options_that_are_wrong(options, says):
    ended = CliRunner().invoke(command, options)
    assert ended.exit_code == 2
    assert says in " ".join(ended.output.split())


def test_a_signal_lets_it_finish_what_it_does(scheduler, tmp_path):
    go, done = tmp_path / "go", tmp_path / "done"

    def wait_for_it(go, done):
        with open(go) as pipe:
            pipe.read()
        done.write_text("done")

    os.mkfifo(go)
    with running(*WORKER, scheduler.address, "--no-nanny", "--name", "w") as worker:
        until(worker, "serves the scheduler")
        with Client(scheduler.address) as client:
            future = client.submit(wait_for_it, go, done)
            with go.open("w"):  # returns once the task reads
                worker.terminate()
                until(worker, "SIGTERM: w leaves")
                until(scheduler, "worker w wants to leave")
            assert "w has ended" in worker.stdout.read()
            assert worker.wait() == 0
            assert done.read_text() == "done"
            del future


@pytest.mark.parametrize("nanny", ["--nanny", "--no-nanny"])
def test_a_second_signal_ends_it_at_once(scheduler, tmp_path, nanny):
    go = tmp_path / "go"
    os.mkfifo(go)
    spilled = tmp_path / "spilled"
    with running(*WORKER, scheduler.address, "--name", "w", nanny, "--local-directory", str(spilled)) as worker:
        until(worker, "serves the scheduler")
        for child in psutil.Process(worker.pid).children():
            (spilled / f"{prefix_of(child.pid)}of").mkdir(parents=True)
        with Client(scheduler.address) as client:
            future = client.submit(lambda path: path.read_text(), go)
            with go.open("w"):
                worker.terminate()
                until(worker, "w leaves")
                worker.terminate()
                assert worker.wait() == 128 + signal.SIGTERM
                worker.stdout.read()  # to its end: the child is gone too
                assert [*spilled.glob("*")] == []
            del future


def test_it_finds_a_scheduler_that_came_back(scheduler):
    port = scheduler.address.rpartition(":")[2]
    with running(*WORKER, scheduler.address, "--no-nanny", "--name", "w") as worker:
        until(worker, "serves the scheduler")
        scheduler.kill()
        until(worker, "hetsched.worker: w: ")
        with running(*SCHEDULER, "--port", port) as another:
            ready_address(another)
            until(worker, "serves the scheduler")


def test_a_nanny_starts_a_worker_that_died_anew(scheduler, tmp_path):
    options = ("--nworkers", "2", "--nthreads", "1", "--local-directory", str(tmp_path))
    with running(*WORKER, scheduler.address, "--name", "w", *options) as nanny:
        first = {until(nanny, "serves the scheduler").split()[3] for _ in range(2)}
        assert first == {"w-0", "w-1"}
        child = psutil.Process(nanny.pid).children()[0]
        for pid in (child.pid, nanny.pid):
            (tmp_path / f"{prefix_of(pid)}of").mkdir()
            (tmp_path / f"{prefix_of(pid)}of" / "0").write_text("a result")
        child.kill()
        assert "died with exit status -9: it is started anew" in until(nanny, "died")
        until(nanny, "serves the scheduler")
        children = psutil.Process(nanny.pid).children()
        assert len(children) == 2
        assert child not in children
        assert os.listdir(tmp_path) == [f"{prefix_of(nanny.pid)}of"]  # what the dead one left is gone
        nanny.terminate()
        nanny.stdout.read()
        assert nanny.wait() == 0


def test_workers_end_with_their_nanny(scheduler):
    with running(*WORKER, scheduler.address, "--name", "w") as nanny:
        until(nanny, "serves the scheduler")
        nanny.kill()
        assert "w has ended" in nanny.stdout.read()  # to its end: nobody is left to write


def test_a_worker_out_of_memory_is_started_anew(scheduler, tmp_path):
    mark = tmp_path / "mark"

    def greedy(mark):
        if mark.exists():
            return 7
        mark.touch()
        held = bytearray(300_000_000)
        with open("/dev/zero", "rb") as zeros:
            zeros.readinto(held)
        return threading.Event().wait()

    settings = {"DASK_HETSCHED__WORKER__BEAT": "50ms"}
    with running(*WORKER, scheduler.address, "--name", "w", "--memory-limit", "300MB", **settings) as nanny:
        until(nanny, "serves the scheduler")
        with Client(scheduler.address) as client:
            assert client.submit(greedy, mark).result() == 7
        assert "w ends: " in until(nanny, "of memory are in use")


def test_dask_knows_it(tmp_path):
    folder = tmp_path / "hetsched-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: hetsched\nVersion: 0\n")
    (folder / "entry_points.txt").write_text("[dask_cli]\nhetsched = hetsched.cli.group:hetsched\n")
    for program, word in (("scheduler", "--scheduler-file"), ("worker", "--death-timeout")):
        code, said = finish(
            sys.executable, "-m", "dask", "hetsched", program, "--help", PYTHONPATH=f"{ROOT}:{tmp_path}"
        )
        assert code == 0, said
        assert word in said
