"""``hetsched-scheduler``."""

from __future__ import annotations

import sys
from typing import Any

import click

from hetsched import config
from hetsched.core.placement import POLICIES

from .options import Command, secret_options, secrets_of, time, version_option

__all__ = ["main", "scheduler"]


@click.command(cls=Command, context_settings={"show_default": True})
@click.option("--host", default="127.0.0.1", help="Where to listen: an address of this machine, or unix:///PATH.")
@click.option("--port", default=8786, type=click.IntRange(0, 65535), help="The port; 0 takes a free one.")
@secret_options
@click.option("--scheduler-file", type=click.Path(dir_okay=False), help="File to write the address to.")
@click.option(
    "--policy", metavar="NAME", help=f"How workers are chosen: {', '.join(sorted(POLICIES))}; or module:Class."
)
@click.option("--record", type=click.Path(dir_okay=False), help="File to record all events in, without any data.")
@click.option("--plugin", "plugins", multiple=True, metavar="MODULE:CLASS", help="Plugin to load; may be said again.")
@click.option(
    "--client-plugins", is_flag=True, show_default=False, help="Let clients have plugins loaded here, by their names."
)
@click.option("--idle-timeout", type=time, help="End after so long without tasks and clients.")
@click.option("--dashboard-address", help="Has no effect yet: there is no dashboard.")
@click.option(
    "--new-token", metavar="FILE", type=click.Path(dir_okay=False), help="Make a token, write it to FILE, and end."
)
@version_option
def scheduler(new_token: str | None, dashboard_address: str | None, **options: Any) -> None:
    """Start the scheduler of a cluster.

    It listens on this machine alone. To be reached from others (--host) it needs --token-file or mutual TLS.
    """
    if new_token is not None:
        from hetsched.comm.auth import new_token_file

        try:
            new_token_file(new_token)
        except OSError as error:
            sys.exit(f"hetsched-scheduler: {error}")
        click.echo(f"wrote a new token to {new_token}; give it to scheduler, workers and clients: --token-file FILE")
        return
    if dashboard_address is not None:
        click.echo("hetsched-scheduler: --dashboard-address has no effect yet: there is no dashboard", err=True)
    from .settings import SchedulerSettings
    from .start import run

    options.update(secrets_of(options))
    if options["policy"] is None:
        options["policy"] = config.get("scheduler.policy")
    options["plugins"] = [*config.get("scheduler.plugins"), *options["plugins"]]
    options["client_plugins"] = options["client_plugins"] or bool(config.get("scheduler.client-plugins"))
    if options["idle_timeout"] is None:
        options["idle_timeout"] = config.seconds("scheduler.idle-timeout")
    sys.exit(run(SchedulerSettings(**options)))


def main() -> None:
    """Run with the arguments of the command line."""
    scheduler(prog_name="hetsched-scheduler")


if __name__ == "__main__":
    main()
