"""A cluster on this machine: a scheduler and workers in processes of their own, on loopback."""

from __future__ import annotations

import atexit
import math
import os
import shutil
import signal
import socket
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from hetsched import config
from hetsched.cli.children import Child, with_path
from hetsched.cli.cores import count_cores
from hetsched.cli.forked import Forked, start_together
from hetsched.cli.settings import SchedulerSettings, WorkerSettings
from hetsched.comm.auth import new_token_file
from hetsched.gpu.devices import deal_devices

__all__ = ["START_SECONDS", "LocalCluster"]

START_SECONDS = 30.0
"""What has not started by then will not."""

_CLOSE_SECONDS = 5.0

_open: weakref.WeakSet[LocalCluster] = weakref.WeakSet()


class LocalCluster:
    """A scheduler and workers on this machine. They end with the ``with`` block, :meth:`close`, or the program.

    Args:
        n_workers: how many workers; default: by the cores, or one for each of ``pools``.
        threads_per_worker: how many CPU tasks each runs at a time; default: the cores, dealt out.
        gpus: GPU lanes of each worker, devices or not; default: the machine's devices, dealt out.
        pools: the workers' pools, used in turn.
        memory_limit: of each worker: ``"4GB"``, ``"50%"``, ``"auto"`` for its part of the machine, 0 for none.
        resources: what each worker has that tasks may demand.
        worker_python: the interpreters to run workers with, used in turn; default: this one.
        silence: a worker that was not heard for so long is lost (seconds); default: ``scheduler.worker-silence``.
        policy: how a worker is chosen for a task.
        record: a file to record all events in.
        plugins: what has a say in where tasks run: subclasses of :class:`hetsched.Plugin` that a module has, or their
            names, ``"module:Class"``. Clients can register more.

    A worker that dies is started anew. Raises ValueError, and RuntimeError with the end of the log where something does
    not start.
    """

    def __init__(
        self,
        n_workers: int | None = None,
        threads_per_worker: int | None = None,
        *,
        gpus: int | None = None,
        pools: Sequence[str | None] | None = None,
        memory_limit: str | float | None = "auto",
        resources: Mapping[str, float] | None = None,
        worker_python: Sequence[str] | None = None,
        silence: float | None = None,
        policy: str | None = None,
        record: str | os.PathLike[str] | None = None,
        plugins: Sequence[Any] = (),
    ) -> None:
        count, threads = _shares(n_workers, threads_per_worker, pools)
        self._pools = list(pools or [None])
        self._pythons: Sequence[str | None] = list(worker_python) if worker_python else [None]
        self._threads, self._gpus, self._resources = threads, gpus, dict(resources or {})
        self._memory = _memory(memory_limit, count)
        self._serial = 0
        self._pid = os.getpid()
        self._workers: dict[str, Child] = {}
        self._ended: list[Child] = []
        changes = {} if silence is None else {"scheduler.worker-silence": silence, "worker.beat": min(1.0, silence / 4)}
        self._environment = with_path(config.child_environment(changes))
        self._folder = Path(tempfile.mkdtemp(prefix="hetsched-"))
        self.token_file = str(self._folder / "token")
        """The file with the cluster's token, which whoever connects needs."""
        self.address = ""
        """The scheduler's address."""
        self._scheduler: Child | None = None
        self._forks: threading.Thread | None = None
        try:
            names = [*config.get("scheduler.plugins"), *map(_named, plugins)]
            self._start(policy or config.get("scheduler.policy"), record, count, names)
        except BaseException:
            self.close()
            raise
        _open.add(self)

    def _start(
        self, policy: str, record: str | os.PathLike[str] | None, count: int, plugins: Sequence[str] = ()
    ) -> None:
        until = monotonic() + START_SECONDS
        new_token_file(self.token_file)
        settings = SchedulerSettings(
            token_file=self.token_file,
            scheduler_file=self._scheduler_file,
            policy=policy,
            record=None if record is None else os.path.abspath(record),
            plugins=plugins,
            client_plugins=True,
        )
        dealt = deal_devices(count) if self._gpus is None else [(self._gpus, None)] * count
        plans = [self._plan(gpus, devices) for gpus, devices in dealt]
        forks = [worker for worker, python in plans if python is None]
        # All start at the same time: workers wait for the scheduler's file. It is no fork like them, since it must not
        # load what they need; so it loads its own meanwhile, on another core.
        self._scheduler = Child(settings, self._environment, log=self._log("scheduler"), restart=False)
        rest: list[tuple[Forked, socket.socket]] = []
        if forks:
            texts = [(worker, self._log(worker.name)) for worker in forks]
            rest, self._forks = start_together(texts, self._environment)
        started = dict(zip((worker.name for worker in forks), rest, strict=True))
        for worker, python in plans:
            self._run(worker, python, started.get(worker.name))
        import hetsched.client.client  # noqa: F401 - meanwhile: nobody starts a cluster for nothing

        self.address = self._scheduler.wait_ready(until)
        for worker, _ in plans:
            self._workers[worker.name].wait_ready(until)

    def _log(self, name: str) -> str:
        return str(self._folder / f"{name}.log")

    @property
    def _scheduler_file(self) -> str:
        return str(self._folder / "scheduler.json")

    @property
    def workers(self) -> dict[str, int]:
        """The workers' names, with the processes that they run in now."""
        return {name: child.pid for name, child in self._workers.items() if not child.ended.is_set()}

    @property
    def scheduler_pid(self) -> int:
        """The scheduler's process."""
        assert self._scheduler is not None
        return self._scheduler.pid

    def log(self, name: str = "scheduler") -> str:
        """What a worker, or the scheduler, has written to its log. Raises OSError where there is none."""
        return Path(self._log(name)).read_text(encoding="utf-8", errors="replace")

    def add_worker(
        self,
        name: str | None = None,
        *,
        nthreads: int | None = None,
        gpus: int | None = None,
        pool: str | None = None,
        resources: Mapping[str, float] | None = None,
        memory_limit: int | None = None,
        python: str | None = None,
    ) -> str:
        """Start one more worker, like the others where nothing else is said; return its name once it works.

        ``memory_limit`` is in bytes. Raises ValueError for a name in use, and RuntimeError where it does not start.
        """
        changes = {"nthreads": nthreads, "pool": pool, "resources": resources, "memory_limit": memory_limit}
        given = {field: value for field, value in changes.items() if value is not None}
        worker, python = self._plan((self._gpus or 0) if gpus is None else gpus, None, name, python, **given)
        name = worker.name
        self._run(worker, python)
        try:
            self._workers[name].wait_ready(monotonic() + START_SECONDS)
        except RuntimeError:
            self._workers.pop(name).kill()
            raise
        return name

    def _plan(
        self, gpus: int, devices: str | None, name: str | None = None, python: str | None = None, **changes: Any
    ) -> tuple[WorkerSettings, str | None]:
        """The next worker, and its interpreter where that is not this one."""
        number, self._serial = self._serial, self._serial + 1
        name = name or f"worker-{number}"
        if name in self.workers:
            raise ValueError(f"there is a worker {name!r} already")
        settings = WorkerSettings(
            name,
            scheduler_file=self._scheduler_file,
            nthreads=self._threads,
            gpus=gpus,
            devices=devices,
            pool=self._pools[number % len(self._pools)],
            resources=self._resources,
            memory_limit=self._memory,
            local_directory=str(self._folder),
            death_timeout=START_SECONDS,
            token_file=self.token_file,
        )
        return settings._replace(**changes), python or self._pythons[number % len(self._pythons)]

    def _run(
        self, worker: WorkerSettings, python: str | None, started: tuple[Forked, socket.socket] | None = None
    ) -> None:
        self._workers[worker.name] = Child(
            worker, self._environment, python=python, log=self._log(worker.name), started=started
        )

    def scale(self, n: int) -> None:
        """Have ``n`` workers: start some, or let those go that came last, once they have finished what they do."""
        while len(self.workers) < n:
            self.add_worker()
        for name in list(self.workers)[n:]:
            child = self._workers.pop(name)
            child.leave()
            self._ended.append(child)

    def kill_worker(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a worker a signal. One that ends it ends it for good: it is not started anew. Raises KeyError."""
        child = self._workers[name]
        child.signal(number)
        if number == signal.SIGKILL:
            child.ended.wait()

    def close(self) -> None:
        """End all processes and remove all files. Does nothing the second time."""
        if self._pid != os.getpid():  # a fork of the program: they are not its
            return
        _open.discard(self)
        children = [*self._workers.values(), *self._ended, *([self._scheduler] if self._scheduler else [])]
        for child in children:
            child.hang_up()
        until = monotonic() + _CLOSE_SECONDS
        for child in children:
            if not child.ended.wait(max(until - monotonic(), 0)):
                child.kill()
        if self._forks is not None:
            self._forks.join(_CLOSE_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LocalCluster {self.address}, {len(self.workers)} workers>"


def _shares(n_workers: int | None, threads: int | None, pools: Sequence[Any] | None) -> tuple[int, int]:
    """How many workers, and how many threads each."""
    cores = count_cores()
    if n_workers is None:
        if pools:
            n_workers = len(pools)
        elif threads:
            n_workers = max(1, cores // threads)
        else:
            n_workers = cores if cores <= 4 else math.isqrt(cores - 1) + 1
    if n_workers < 0 or (threads is not None and threads < 1):
        raise ValueError(f"{n_workers} workers of {threads} threads: there must be 1 thread each, or more")
    return n_workers, threads or max(1, cores // max(n_workers, 1))


def _named(plugin: Any) -> str:
    """What a plugin's class is called where it can be imported from."""
    if isinstance(plugin, str):
        return plugin
    if not isinstance(plugin, type) or plugin.__module__ == "__main__" or "<locals>" in plugin.__qualname__:
        raise ValueError(
            f"the plugin {plugin!r:.200} cannot be imported by the scheduler, which is a process of its own: put the "
            "class into a module and name it, as in plugins=['module:Class']"
        )
    return f"{plugin.__module__}:{plugin.__qualname__}"


def _memory(limit: str | float | None, count: int) -> int:
    from hetsched.worker.memory import memory_limit

    return memory_limit(limit, max(count, 1))


def _close_all() -> None:
    for cluster in list(_open):
        cluster.close()


atexit.register(_close_all)
