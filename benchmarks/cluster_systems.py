"""The two clusters that ``benchmarks/cluster.py`` compares, behind one face."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

HERE = str(Path(__file__).parent)


class System:
    """A scheduler and two workers with one thread each, and a client. ``local``: by the system's own LocalCluster."""

    ours = False
    scheduler_pid = 0

    def __enter__(self) -> Self:
        return self

    def get(self, graph: dict[Any, Any], key: Any) -> Any:
        """Compute a key."""
        raise NotImplementedError

    def start(self, graph: dict[Any, Any], key: Any) -> threading.Thread:
        """Compute a key in a thread."""
        thread = threading.Thread(target=self.get, args=(graph, key))
        thread.start()
        return thread

    def submit(self, func: Callable[..., Any], *args: Any, worker: int | None = None) -> Any:
        """Submit a call, to one of the two workers if asked for."""
        raise NotImplementedError

    def wait(self, future: Any) -> None:
        """Wait for something submitted, without fetching it."""
        raise NotImplementedError

    def settle(self, n: int) -> None:
        """Wait until the scheduler has taken in ``n`` tasks."""
        raise NotImplementedError


class Hetsched(System):
    """Ours."""

    ours = True

    def __init__(self, local: bool = False) -> None:
        import hetsched

        os.environ["PYTHONPATH"] = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])
        self.cluster = hetsched.LocalCluster(n_workers=2, threads_per_worker=1)
        self.client = hetsched.Client(self.cluster)
        self.scheduler_pid = self.cluster.scheduler_pid
        self.names = sorted(self.client.scheduler_info()["workers"]) if not local else []

    def get(self, graph: dict[Any, Any], key: Any) -> Any:
        return self.client.get(graph, key)


    def submit(self, func: Callable[..., Any], *args: Any, worker: int | None = None) -> Any:
        options = {} if worker is None else {"workers": [self.names[worker]]}
        return self.client.submit(func, *args, **options)

    def wait(self, future: Any) -> None:
        import hetsched

        hetsched.wait([future])

    def settle(self, n: int) -> None:
        while self.client.scheduler_info()["tasks"] < n:
            time.sleep(0.05)
        time.sleep(0.2)

    def __exit__(self, *exc: object) -> None:
        self.client.close()
        self.cluster.close()


class Distributed(System):
    """Theirs: ``dask scheduler`` and two ``dask worker``."""

    def __init__(self, local: bool = False, saturation: str = "1.1") -> None:
        from distributed import Client, LocalCluster

        self.processes: list[subprocess.Popen[bytes]] = []
        self.cluster = None
        if local:
            self.cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
            self.client = Client(self.cluster)
            return
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])}
        env["DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION"] = saturation
        self.folder = tempfile.TemporaryDirectory()
        file = Path(self.folder.name, "scheduler.json")
        dask = [sys.executable, "-m", "dask"]
        quiet: dict[str, Any] = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
        scheduler += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        self.processes.append(subprocess.Popen(scheduler, **quiet))
        self.scheduler_pid = self.processes[0].pid
        while not file.exists():
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        for name in ("w0", "w1"):
            worker = [
                *dask,
                "worker",
                address,
                "--nthreads",
                "1",
                "--name",
                name,
                "--no-dashboard",
                "--host",
                "127.0.0.1",
            ]
            self.processes.append(subprocess.Popen([*worker, "--local-directory", self.folder.name], **quiet))
        self.client = Client(address)
        self.client.wait_for_workers(2)

    def get(self, graph: dict[Any, Any], key: Any) -> Any:
        return self.client.get(graph, key)


    def submit(self, func: Callable[..., Any], *args: Any, worker: int | None = None) -> Any:
        options = {} if worker is None else {"workers": [f"w{worker}"]}
        return self.client.submit(func, *args, pure=False, **options)

    def wait(self, future: Any) -> None:
        from distributed import wait

        wait([future])

    def settle(self, n: int) -> None:
        while self.client.run_on_scheduler(_count) < n:
            time.sleep(0.5)

    def __exit__(self, *exc: object) -> None:
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


def _count(dask_scheduler: Any = None) -> int:
    return len(dask_scheduler.tasks)


def bare_seconds(nbytes: int, runs: int) -> float:
    """Seconds to bring bytes from one process to another into fresh memory, by ``sendmsg`` and ``recv_into``."""
    listener = socket.create_server(("127.0.0.1", 0))
    sender = multiprocessing.get_context("spawn").Process(target=_send, args=(listener.getsockname(), nbytes, runs))
    sender.start()
    connection, _ = listener.accept()
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        connection.sendall(b"!")
        view = memoryview(bytearray(nbytes))
        while len(view):
            view = view[connection.recv_into(view) :]
        taken.append(time.perf_counter() - began)
    sender.join()
    connection.close()
    listener.close()
    return statistics.median(taken)


def _send(address: tuple[str, int], nbytes: int, runs: int) -> None:
    data = memoryview(b"x" * nbytes)
    with socket.create_connection(address) as connection:
        for _ in range(runs):
            connection.recv(1)
            left = data
            while len(left):
                left = left[connection.sendmsg([left]) :]
