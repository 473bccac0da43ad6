"""The life of a worker's process: one scheduler after the other, until it is asked to end or nobody wants it."""

from __future__ import annotations

import logging
import math
import sys

import trio

from hetsched import config
from hetsched.comm.handshake import Hello
from hetsched.comm.introduction import introduce
from hetsched.comm.scheduler_file import read_scheduler_file
from hetsched.comm.transports import parse_address
from hetsched.core.types import Capacity
from hetsched.errors import HetschedError, Rejected
from hetsched.gpu.devices import lanes_for
from hetsched.worker.device_memory import DeviceLimit
from hetsched.worker.peers import Secrets
from hetsched.worker.process import Offer, OutOfMemory, WorkerProcess
from hetsched.worker.thresholds import Thresholds

from .ending import OUT_OF_MEMORY, watch_signals
from .parent import Parent
from .security import Credentials, own_host, url
from .settings import WorkerSettings

__all__ = ["work"]

log = logging.getLogger("hetsched.worker")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0  # seconds between two tries
_FILE_PAUSE = 0.05  # to look for a file again costs little
_UNSAID = 1.0  # seconds; those who are started together need not all be there at once


async def work(settings: WorkerSettings, parent: Parent | None = None) -> int:
    """Be a worker; return the exit code. Cancelled, tasks that run are left to themselves.

    Raises OSError, ValueError and HetschedError, with a sentence for a person, where it cannot start, nobody takes it,
    or there is no scheduler for as long as ``death_timeout``.
    """
    life = _Life(settings, parent)
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_signals, life.end_soon)
        if parent is not None:
            nursery.start_soon(parent.listen, life.leave, life.end)
        code = await life.run()
        nursery.cancel_scope.cancel()
    return code


class _Life:
    def __init__(self, settings: WorkerSettings, parent: Parent | None) -> None:
        self._settings = settings
        self._parent = parent
        self._credentials = Credentials.read(settings)
        self._scope = trio.CancelScope()
        self._worker: WorkerProcess | None = None
        """While it serves a scheduler."""
        self._leaving = False
        self._found = False
        """It is known where the scheduler is, or was."""

    def end_soon(self, why: str) -> None:
        """End in order, and before a person or a service manager loses patience."""
        limits = [config.seconds("worker.signal-timeout"), config.seconds("worker.leave-timeout")]
        self.leave(why, min((seconds for seconds in limits if seconds is not None), default=None))

    def leave(self, why: str, limit: float | None = None) -> None:
        """End in order: at once where there is nothing to finish, else within ``limit`` or the setting for it."""
        log.info("%s: %s leaves", why, self._settings.name)
        self._leaving = True
        if self._worker is None:
            self._scope.cancel()
        else:
            limit = config.seconds("worker.leave-timeout") if limit is None else limit
            self._scope.deadline = trio.current_time() + (math.inf if limit is None else limit)
            self._worker.leave(why)

    def end(self) -> None:
        """End now."""
        self._leaving = True
        self._scope.cancel()

    async def run(self) -> int:
        with self._scope:
            try:
                await self._serve()
            except OutOfMemory as error:
                log.error("%s ends: %s", self._settings.name, error)
                return OUT_OF_MEMORY
        log.info("%s has ended", self._settings.name)
        return 0

    async def _serve(self) -> None:
        limit = self._settings.death_timeout
        pause, began = _FIRST_PAUSE, trio.current_time()
        said: str | None = None
        while True:
            why = await self._try()
            if self._leaving:
                return
            now = trio.current_time()
            if why is not None and why != said and now - began > _UNSAID:
                said = why
                log.warning("%s goes on trying to serve a scheduler: %s", self._settings.name, why)
            if why is None:  # it had a scheduler
                pause, began, said = _FIRST_PAUSE, now, None
            elif limit is not None and now - began >= limit:
                raise HetschedError(f"no scheduler could be served for {limit:g} s: {why}")
            await trio.sleep(pause if limit is None else min(pause, began + limit - now))
            pause = min(pause * 1.5, _LONGEST_PAUSE if self._found else _FILE_PAUSE)

    async def _try(self) -> str | None:
        """Find the scheduler and serve it; return why there was none, or None once it is gone."""
        began = trio.current_time()
        try:
            self._found = False
            address = self._find()
            self._found = True
            worker = WorkerProcess(self._offer(address), self._hello(), self._secrets())
        except OSError as error:  # the file is not there yet, or a name is not known yet
            return str(error)

        def started(own: str) -> None:
            self._worker = worker
            if self._parent is not None:
                self._parent.ready(own)
            log.info("%s at %s serves the scheduler at %s", self._settings.name, own, address)

        try:
            why = await worker.run(address, started=started)
        except Rejected as error:
            raise Rejected(f"the scheduler at {address} does not take this worker: {error}") from error
        except (HetschedError, OSError) as error:
            why = str(error)
        served = self._worker is not None
        self._worker = None
        if served:
            log.info("%s: %s", self._settings.name, why)
        # A scheduler that takes a worker and drops it at once is none.
        return None if served and trio.current_time() - began > _LONGEST_PAUSE else why

    def _find(self) -> str:
        """The scheduler's address. Raises FileNotFoundError while it is not known."""
        settings = self._settings
        if settings.address is not None:
            return str(parse_address(settings.address))
        assert settings.scheduler_file is not None
        return read_scheduler_file(settings.scheduler_file)

    def _offer(self, scheduler: str) -> Offer:
        settings = self._settings
        n = settings.nthreads
        executors = {"cpu": n, "io": max(16, 4 * n), "process": n}
        resources = dict(settings.resources)
        if settings.gpus:
            executors["gpu"] = len(lanes_for(settings.gpus, settings.gpus_per_task))
            resources.setdefault("GPU", float(settings.gpus))  # which tasks for the GPU take one of
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        capacity = Capacity(executors, resources, settings.pool, window=2, ahead=0.05, python=python)
        return Offer(
            settings.name,
            capacity,
            self._listen(scheduler),
            settings.memory_limit,
            settings.local_directory,
            settings.gpus,
            Thresholds(**{name: config.get(f"worker.memory.{name}") for name in _THRESHOLDS}),
            config.seconds("worker.beat") or 1.0,
            self._device_limit() if settings.gpus else None,
            config.seconds("comm.scheduler-silence"),
        )

    def _device_limit(self) -> str | float | None:
        given = self._settings.device_memory_limit
        limit: str | float | None = config.get("worker.device-memory-limit") if given is None else given
        try:
            DeviceLimit(limit, self._settings.gpus)
        except ValueError:
            raise ValueError(
                f'hetsched.worker.device-memory-limit is {limit!r}: write a size as "4GB", a part as "80%" or 0.8, or 0'
            ) from None
        return limit

    def _listen(self, scheduler: str) -> str:
        host, where = self._settings.host, parse_address(scheduler)
        if host in (None, "0.0.0.0", "::"):  # it listens at one address, the one that others are told
            host = own_host(where.place) if where.scheme in ("tcp", "tls") else "127.0.0.1"
        tls = self._credentials.server_tls is not None
        if where.scheme == "tls" and not tls:
            raise ValueError(f"a worker of {scheduler} needs a certificate of its own: give --tls-cert and --tls-key")
        address = url(host, self._settings.port, tls)
        self._credentials.check(address)
        return address

    def _secrets(self) -> Secrets:
        return Secrets(self._credentials.token, self._credentials.server_tls, self._credentials.client_tls)

    def _hello(self) -> Hello:
        devices = {"cuda": self._settings.gpus} if self._settings.gpus else {}
        return introduce(
            "worker", self._settings.name, devices=devices, pins=config.pins(), max_frame=config.size("comm.max-frame")
        )


_THRESHOLDS = ("target", "spill", "pause", "terminate")
