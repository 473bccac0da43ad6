"""Options that a scheduler and a worker have in common, and what options of several forms mean."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from hetsched import config
from hetsched.core.quantities import read_seconds

__all__ = ["Command", "read_gpus", "read_resources", "secret_options", "secrets_of", "size", "time", "version_option"]

_F = TypeVar("_F", bound=Callable[..., Any])


_NO_DASHBOARD = "there is no dashboard: leave it out"
_PORTS = "write --host ADDRESS and --port PORT for where to listen, or leave it out"
_ELSEWHERE = {
    "--nprocs": "write --nworkers N",
    "--n-workers": "write --nworkers N",
    "--ncores": "write --nthreads N",
    "--nanny-port": "a nanny does not listen: leave it out",
    "--worker-port": _PORTS,
    "--listen-address": _PORTS,
    "--contact-address": _PORTS,
    "--interface": "write --host ADDRESS",
    "--protocol": "it is part of the address, as in tls://HOST:PORT",
    "--tls-ca-file": "write --tls-ca FILE",
    "--reconnect": "it always does: write --death-timeout TIME for how long",
    "--no-reconnect": "write --death-timeout 0",
    "--preload": "import what is needed in the tasks",
    "--lifetime": "send it SIGTERM when its time is up",
    "--bokeh": _NO_DASHBOARD,
    "--no-bokeh": _NO_DASHBOARD,
    "--bokeh-port": _NO_DASHBOARD,
    "--dashboard": _NO_DASHBOARD,
    "--no-dashboard": _NO_DASHBOARD,
}


class Command(click.Command):
    """A command that knows the options that other schedulers have for the same, and says what to write here."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line. Raises click.UsageError."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            instead = _ELSEWHERE.get(error.option_name)
            if instead is None:
                raise
            raise click.UsageError(f"No such option '{error.option_name}': {instead}.", ctx) from error


def time(text: object) -> float:
    """Read a time, ``20`` or ``"5 min"``, as seconds. Raises click.BadParameter."""
    try:
        return read_seconds(text, "this")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def size(text: object) -> str:
    """Check a limit of memory: ``4GB``, ``50%``, ``auto``, ``0`` for none. Raises click.BadParameter.

    What it comes to depends on how many share the machine.
    """
    from hetsched.worker.memory import memory_limit

    try:
        memory_limit(str(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return str(text)


def version_option(command: _F) -> _F:
    """The option that tells the release of hetsched and the version of Python, and ends."""

    def tell(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            from hetsched.comm.introduction import introduce

            hello = introduce("worker", "")
            python = ".".join(map(str, hello.python))
            click.echo(f"hetsched {hello.libraries.get('hetsched', '(from its sources)')}, Python {python}")
            ctx.exit()

    option = click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=tell, help="Tell it.")
    return option(command)


def secret_options(command: _F) -> _F:
    """The options for what keeps strangers out."""
    path = click.Path(dir_okay=False)
    for option in (
        click.option("--tls-ca", type=path, help="Certificate (PEM) of the authority that peers' are signed by."),
        click.option("--tls-key", type=path, help="Private key (PEM) of --tls-cert."),
        click.option("--tls-cert", type=path, help="Certificate (PEM) of this end, for tls:// addresses."),
        click.option("--token-file", type=path, help="File with the cluster's token."),
    ):
        command = option(command)
    return command


def secrets_of(options: dict[str, Any]) -> dict[str, str | None]:
    """Take the files of :func:`secret_options` out of the options, and from the configuration where not given."""
    found: dict[str, str | None] = {}
    for option, setting in (
        ("token_file", "comm.token-file"),
        ("tls_cert", "comm.tls.cert"),
        ("tls_key", "comm.tls.key"),
        ("tls_ca", "comm.tls.ca"),
    ):
        given = options.pop(option)
        path = config.get(setting) if given is None else given
        found[option] = path and os.path.expanduser(path)
    return found


def read_resources(text: str | None) -> tuple[dict[str, float], str | None]:
    """Read ``K=V,K=V``: the resources, and the pool that ``pool-NAME=1`` names. Raises click.BadParameter."""
    resources: dict[str, float] = {}
    pool = None
    for part in (text or "").replace(" ", ",").split(","):
        if not part:
            continue
        name, _, amount = part.partition("=")
        try:
            number = float(amount)
            if not name or not 0 <= number < float("inf"):
                raise ValueError
        except ValueError:
            raise click.BadParameter(f"{part!r} is not like GB=4", param_hint="--resources") from None
        if name.startswith("pool-") and number:
            if pool is not None:
                raise click.BadParameter("a worker is in one pool at most", param_hint="--resources")
            pool = name.removeprefix("pool-")
        else:
            resources[name] = number
    return resources, pool


def read_gpus(text: str, nworkers: int) -> list[tuple[int, str | None]]:
    """For each worker its GPU lanes and its ``CUDA_VISIBLE_DEVICES``, None to leave that. Raises click.BadParameter.

    ``auto`` deals the machine's devices out among the workers; a number is for each of them.
    """
    from hetsched.gpu.devices import deal_devices

    if text in ("auto", "none"):
        return deal_devices(nworkers) if text == "auto" else [(0, None)] * nworkers
    if not text.isascii() or not text.isdigit():
        raise click.BadParameter(f"{text!r} is neither a number nor auto nor none", param_hint="--gpus")
    return [(int(text), None)] * nworkers
