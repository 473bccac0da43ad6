"""The life of a scheduler's process."""

from __future__ import annotations

import json
import logging
import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import trio

from hetsched import config, pool_links
from hetsched.comm.introduction import introduce
from hetsched.core.scheduler import Options, Scheduler
from hetsched.detection import learned
from hetsched.errors import HetschedError
from hetsched.server.limits import Limits
from hetsched.server.plugins import Door, installed_plugins, load_plugin, logged_plugins
from hetsched.server.recording import Recorder
from hetsched.server.server import Server

from .ending import watch_signals
from .parent import Parent
from .security import Credentials, shown_address, url
from .settings import SchedulerSettings

__all__ = ["serve"]

log = logging.getLogger("hetsched.scheduler")


async def serve(settings: SchedulerSettings, parent: Parent | None = None) -> int:
    """Run a scheduler until it is told to end; return the exit code. Cancelled, it tells all peers and closes.

    Raises OSError, ValueError and HetschedError, with a sentence for a person, where it cannot start.
    """
    credentials = Credentials.read(settings)
    address = url(settings.host, settings.port, credentials.server_tls is not None)
    credentials.check(address)
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(settings.record)) if settings.record else None
        server = _server(settings, recorder)
        async with trio.open_nursery() as nursery:
            await nursery.start(watch_signals, lambda name: _stop(server, name))
            if parent is not None:
                nursery.start_soon(parent.listen, lambda _: server.stop(), server.stop)
            serving = _Serving(server, address, credentials)
            addresses = await nursery.start(serving.run)
            server.addresses[:] = map(shown_address, addresses)
            if settings.scheduler_file:
                stack.callback(_remove_file, settings.scheduler_file)
                _write_file(settings.scheduler_file, server.addresses)
            if parent is not None:
                parent.ready(server.addresses[0])
            else:
                print(f"hetsched scheduler at {' '.join(server.addresses)}", flush=True)
            await serving.ended.wait()
            nursery.cancel_scope.cancel()
    log.info("the scheduler has ended")
    return 0


class _Serving:
    def __init__(self, server: Server, address: str, credentials: Credentials) -> None:
        self._server = server
        self._address = address
        self._credentials = credentials
        self.ended = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[list[str]]) -> None:
        token, tls = self._credentials.token, self._credentials.server_tls
        await self._server.serve([self._address], token, tls, task_status=task_status)
        self.ended.set()


def _server(settings: SchedulerSettings, recorder: Recorder | None) -> Server:
    options = Options(
        allowed_losses=int(config.get("scheduler.allowed-failures")),
        links=pool_links.links(),
        seconds_per_price=pool_links.seconds_per_price(),
    )
    limits = Limits(
        worker_silence=config.seconds("scheduler.worker-silence") or float("inf"),
        idle=settings.idle_timeout,
        leaving=config.seconds("scheduler.leave-timeout") or float("inf"),
        no_worker=config.seconds("scheduler.no-worker-warning"),
        no_worker_ends=config.seconds("scheduler.no-workers-timeout"),
    )
    own = f"{socket.gethostname()}-{os.getpid()}"
    hello = introduce("scheduler", own, pins=config.pins(), max_frame=config.size("comm.max-frame"))
    plugins = logged_plugins()
    for name in settings.plugins:
        plugins.add(load_plugin(name))
    if config.get("scheduler.installed-plugins"):
        for called, plugin in installed_plugins():
            plugins.add(plugin, called)
    scheduler = Scheduler(settings.policy, options, plugins)
    return Server(scheduler, hello, limits, recorder, Door(plugins, open=settings.client_plugins), learned())


def _stop(server: Server, name: str) -> None:
    log.info("%s: the scheduler ends", name)
    server.stop()


def _write_file(path: str, addresses: list[str]) -> None:
    """Write the scheduler file in one step: who waits for it finds it whole."""
    content: dict[str, Any] = {"address": addresses[0], "addresses": addresses, "pid": os.getpid()}
    where = Path(path).absolute()
    try:
        part = where.with_name(f".{where.name}.{os.getpid()}")
        part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        part.replace(where)
    except OSError as error:
        raise HetschedError(f"cannot write the scheduler file {path}: {error.strerror}") from error


def _remove_file(path: str) -> None:
    with suppress(OSError, ValueError):
        if json.loads(Path(path).read_text(encoding="utf-8"))["pid"] == os.getpid():
            Path(path).unlink()
