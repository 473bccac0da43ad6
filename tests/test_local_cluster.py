"""``hetsched.LocalCluster``: real processes on this machine, of which nothing stays behind."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path

import psutil
import pytest
from programs import ENVIRONMENT, finish, running, until

from hetsched import Client, LocalCluster
from hetsched.local_cluster import _shares


def folder_of(cluster: LocalCluster) -> Path:
    return Path(cluster.token_file).parent


def test_it_starts_and_leaves_nothing_behind():
    with LocalCluster(2, 1) as cluster:
        assert list(cluster.workers) == ["worker-0", "worker-1"]
        assert cluster.address.startswith("tcp://127.0.0.1:")
        folder = folder_of(cluster)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(Path(cluster.token_file).stat().st_mode) == 0o600
        processes = [psutil.Process(pid) for pid in (cluster.scheduler_pid, *cluster.workers.values())]
        with Client(cluster) as client:
            assert client.gather(client.map(lambda x: x + 1, range(100))) == list(range(1, 101))
            pids = {client.submit(os.getpid, workers=[name]).result() for name in cluster.workers}
        assert pids == set(cluster.workers.values())
        assert repr(cluster) == f"<LocalCluster {cluster.address}, 2 workers>"
        assert "serves the scheduler" in cluster.log("worker-0")
    assert not any(process.is_running() for process in processes)
    assert not folder.exists()
    assert cluster.workers == {}
    cluster.close()


def test_workers_come_and_go():
    with LocalCluster(1, 1, pools=["a", "b"], gpus=1, resources={"GB": 2}) as cluster, Client(cluster) as client:
        cluster.scale(3)
        assert cluster.add_worker("own", nthreads=5, pool="c", gpus=0, memory_limit=0) == "own"
        with pytest.raises(ValueError, match="there is a worker 'own' already"):
            cluster.add_worker("own")
        assert client.submit(lambda: 1, workers=["own"]).result() == 1
        workers = client.scheduler_info()["workers"]
        assert {name: w["pool"] for name, w in workers.items()} == {
            "worker-0": "a", "worker-1": "b", "worker-2": "a", "own": "c"
        }  # fmt: skip
        assert {name: w["executors"]["cpu"] for name, w in workers.items()} == {
            "worker-0": 1, "worker-1": 1, "worker-2": 1, "own": 5
        }  # fmt: skip
        assert workers["worker-2"]["executors"]["gpu"] == 1
        assert "gpu" not in workers["own"]["executors"]
        assert (workers["worker-2"]["devices"], workers["own"]["devices"]) == ({"cuda": 1}, {})
        assert workers["own"]["resources"] == {"GB": 2.0}
        cluster.scale(2)
        assert list(cluster.workers) == ["worker-0", "worker-1"]
        pid = cluster.workers["worker-1"]
        cluster.kill_worker("worker-1")
        assert not psutil.pid_exists(pid)
        assert list(cluster.workers) == ["worker-0"]
        with pytest.raises(KeyError):
            cluster.kill_worker("nobody")


def test_a_frozen_worker_is_missed():
    with LocalCluster(2, 1, silence=0.5) as cluster, Client(cluster) as client:
        cluster.kill_worker("worker-0", signal.SIGSTOP)
        futures = client.map(lambda x: x + 1, range(20))
        assert client.gather(futures) == list(range(1, 21))
        assert "worker worker-0 is gone: nothing was heard of it for 0.5 s" in cluster.log()


def test_a_worker_that_died_is_started_anew():
    with LocalCluster(1, 1) as cluster, Client(cluster) as client:
        first = client.submit(os.getpid).result()
        os.kill(first, signal.SIGKILL)
        second = client.submit(os.getpid).result()
        assert second != first
        assert cluster.workers == {"worker-0": second}


def test_what_does_not_start_is_said(tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    script.chmod(0o700)
    with pytest.raises(RuntimeError, match=r"worker worker-0 ended with exit status 3; it said:\nno such thing"):
        LocalCluster(1, 1, worker_python=[str(script)])
    with pytest.raises(FileNotFoundError):
        LocalCluster(1, 1, worker_python=[str(tmp_path / "none")])
    with pytest.raises(RuntimeError, match="there is no placement policy 'best'"):
        LocalCluster(0, policy="best")


def test_shares(monkeypatch):
    monkeypatch.setattr("hetsched.local_cluster.count_cores", lambda: 10)
    assert _shares(None, None, None) == (4, 2)
    assert _shares(None, 5, None) == (2, 5)
    assert _shares(3, None, None) == (3, 3)
    assert _shares(None, None, ["a", "b"]) == (2, 5)
    assert _shares(20, None, None) == (20, 1)
    with pytest.raises(ValueError, match="1 workers of 0 threads"):
        _shares(1, 0, None)


PROGRAM = """
import os, sys
from hetsched import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(2, 1)
    print("started", cluster.token_file, cluster.scheduler_pid, *cluster.workers.values(), flush=True)
    if sys.argv[1:]:
        sys.stdin.read()
"""


def test_a_program_that_forgets_to_close_leaves_nothing_behind():
    code, said = finish(sys.executable, "-c", PROGRAM)
    _, token, *pids = said.split()
    assert code == 0
    assert len(pids) == 3
    assert not any(psutil.pid_exists(int(pid)) for pid in pids)
    assert not Path(token).parent.exists()


def test_processes_end_with_a_program_that_is_killed(tmp_path):
    with running(sys.executable, "-c", PROGRAM, "stay", TMPDIR=str(tmp_path)) as program:
        until(program, "started")
        program.kill()
        program.stdout.read()  # to its end: nobody is left who could write
    assert ENVIRONMENT["DASK_CONFIG"] == os.devnull


def test_settings_of_the_program_reach_its_processes():
    import dask

    with (
        dask.config.set({"hetsched.comm.compression": "none", "hetsched.comm.pickle-protocol": 4}),
        LocalCluster(1, 1) as cluster,
        Client(cluster) as client,
    ):
        terms = client.scheduler_info()["workers"]["worker-0"]["terms"]
        assert (terms["send_compression"], terms["receive_compression"], terms["pickle"]) == (None, None, 4)
