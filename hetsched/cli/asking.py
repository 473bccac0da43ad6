"""``hetsched explain`` and ``hetsched status``: ask a scheduler that runs."""

from __future__ import annotations

import ast
import json
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import trio

from hetsched.comm.auth import client_tls
from hetsched.errors import HetschedError, ProtocolError

from .options import Command, secret_options, secrets_of, time

__all__ = ["explain", "read_key", "status", "told"]

_F = TypeVar("_F", bound=Callable[..., Any])


def _where_options(command: _F) -> _F:
    """The options for which scheduler to ask."""
    for option in (
        click.option("--timeout", type=time, default="5s", help="How long to wait for the scheduler."),
        secret_options,
        click.option("--scheduler-file", type=click.Path(dir_okay=False), help="File that the scheduler wrote."),
        click.argument("address", required=False),
    ):
        command = option(command)
    return command


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("key")
@_where_options
def explain(key: str, **options: Any) -> None:
    """Tell what has become of a task, and of one that waits, what it waits for.

    KEY is the task's, as it is shown: sum-1 or "('x', 0)". The scheduler is the one at ADDRESS, or in
    --scheduler-file, or the one configured.
    """
    for found in _ask(options, "find", read_key(key)):
        click.echo(found["text"])


@click.command(cls=Command, context_settings={"show_default": True})
@_where_options
def status(**options: Any) -> None:
    """Tell what a scheduler has and does: workers, jobs, tasks that no worker can run, plugins.

    The scheduler is the one at ADDRESS, or in --scheduler-file, or the one configured.
    """
    for line in told(_ask(options, "info", None)):
        click.echo(line)


def read_key(text: str) -> Any:
    """A key out of what is written of it: a tuple, else the text as it is."""
    if text.lstrip().startswith("("):
        try:
            found = ast.literal_eval(text.strip())
        except (SyntaxError, ValueError):
            return text
        return found if isinstance(found, tuple) else text
    return text


def told(info: Mapping[str, Any]) -> Iterator[str]:
    """What a scheduler says of itself, in lines for a person."""
    workers, clients = info["workers"], info["clients"]
    yield (
        f"{_count(len(workers), 'worker')}, {_count(len(clients), 'client')}, {_count(info['tasks'], 'task')} in "
        f"{_count(info['graphs'], 'graph')}; up for {info['seconds']:.0f} s"
    )
    if workers:
        yield "workers:"
    for name, about in workers.items():
        lanes = ", ".join(f"{executor} {slots}" for executor, slots in about["executors"].items())
        resources = "".join(f", {resource}={amount:g}" for resource, amount in about["resources"].items())
        pool = f", pool {about['pool']}" if about["pool"] is not None else ""
        given = _count(sum(about["assigned"].values()), "task")
        held = f"{_count(about['held'], 'result')} of {about['nbytes']} bytes"
        yield f"  {name}{pool}: {lanes}{resources}; was given {given}, holds {held}"
    if info["jobs"]:
        yield "jobs:"
    for name, job in info["jobs"].items():
        yield f"  {name}: {_job(job)}"
    if info["stranded"]:
        yield "no worker can run:"
    for sentence in info["stranded"]:
        yield f"  {sentence}"
    if info["plugins"]:
        yield "plugins:"
    for name, about in info["plugins"].items():
        last = f", the last of them {about['last']}" if about["errors"] else ""
        yield f"  {name}: {_count(about['errors'], 'error')}{last}"


def _job(job: Mapping[str, Any]) -> str:
    parts = [f"{job['done']} of {job['tasks']} done"]
    parts += [f"{job[word]} {word}" for word in ("assigned", "waiting", "failed") if job[word]]
    runs = f"{_count(job['runs'], 'run')} of {job['seconds']:.3f} s, {job['nbytes']} bytes"
    return f"{', '.join(parts)}; {runs}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _ask(options: dict[str, Any], question: str, about: Any) -> Any:
    try:
        return trio.run(_answer, options, question, about)
    except (OSError, ValueError, TimeoutError, HetschedError) as error:
        told = str(error) if isinstance(error, ProtocolError) else f"cannot ask the scheduler: {error}"
        sys.exit(f"hetsched: {told}")


async def _answer(options: dict[str, Any], question: str, about: Any) -> Any:
    from hetsched.client.reaching import find_way
    from hetsched.client.session import open_session

    address, file = options["address"], options["scheduler_file"]
    if address is None and file is not None:
        address = json.loads(Path(file).read_text(encoding="utf-8"))["address"]  # noqa: ASYNC240 - nothing else runs here
    secrets = secrets_of(options)
    tls: ssl.SSLContext | None = None
    if secrets["tls_ca"] or secrets["tls_cert"]:
        tls = client_tls(secrets["tls_cert"], secrets["tls_key"], secrets["tls_ca"])
    way = find_way(address, secrets["token_file"], tls, "hetsched-cli")
    session = await open_session(way.address, way.hello, way.token, way.tls, options["timeout"])
    try:
        return await session.ask(question, about)
    finally:
        await session.aclose()
