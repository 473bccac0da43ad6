"""``hetsched-worker``, also as ``python -m hetsched.cli.worker``."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import click

from hetsched import config

from .options import Command, read_gpus, read_resources, secret_options, secrets_of, size, time, version_option
from .settings import WorkerSettings

__all__ = ["main", "worker"]


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("address", required=False)
@click.option("--scheduler-file", type=click.Path(dir_okay=False), help="File that tells the scheduler's address.")
@click.option("--nthreads", type=click.IntRange(1), help="CPU tasks at a time.  [default: the cores / --nworkers]")
@click.option("--gpus", default="auto", metavar="N|auto|none", help="GPUs of each worker; auto deals out those here.")
@click.option(
    "--gpus-per-task", type=click.FloatRange(0, 1, min_open=True), default=1.0,
    help="The least share of a GPU that a task takes; 0.5: two lanes for each.",
)  # fmt: skip
@click.option("--pool", help="The pool it belongs to.")
@click.option("--resources", metavar="K=V,...", help="What tasks may demand; pool-NAME=1 is --pool NAME.")
@click.option("--memory-limit", type=size, default="auto", help="Memory of each worker: 4GB, 50%, auto; 0: any.")
@click.option("--device-memory-limit", type=size, help="Of results on each worker's GPUs: 4GB, 80% of them; 0: any.")
@click.option("--name", help="Its name in the cluster.  [default: host and process]")
@click.option("--local-directory", type=click.Path(file_okay=False), help="Where results go that memory cannot hold.")
@click.option("--death-timeout", type=time, help="End after so long without a scheduler.")
@click.option("--nworkers", type=click.IntRange(1), default=1, help="How many workers to start.")
@click.option("--host", help="Where to listen.  [default: this machine's address on the way to the scheduler]")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port to listen at; 0 takes a free one.")
@secret_options
@click.option("--nanny/--no-nanny", default=True, help="Start a worker that died anew.")
@version_option
def worker(name: str | None, nworkers: int, nanny: bool, **options: Any) -> None:
    """Start a worker of the cluster whose scheduler is at ADDRESS, or of which --scheduler-file tells."""
    from hetsched.comm.transports.address import parse_address

    if (options["address"] is None) == (options["scheduler_file"] is None):
        raise click.UsageError("give the scheduler's ADDRESS or --scheduler-file, one of them")
    if options["address"] is not None:
        try:
            parse_address(options["address"])
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    if nworkers > 1 and not nanny:
        raise click.UsageError(
            f"--nworkers {nworkers} needs a process that looks after them, and --no-nanny goes without: "
            "leave one of them out, or start hetsched-worker several times"
        )
    if nworkers > 1 and options["port"]:
        raise click.UsageError(
            f"--nworkers {nworkers} workers cannot all listen at --port {options['port']}: "
            "leave --port out, or start hetsched-worker several times"
        )
    base = name or f"{socket.gethostname()}-{os.getpid()}"
    names = [base] if nworkers == 1 else [f"{base}-{i}" for i in range(nworkers)]
    workers = _settings(names, options)
    if nanny:
        from .nanny import look_after

        sys.exit(look_after(workers))
    from .start import run

    if workers[0].devices is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = workers[0].devices
    sys.exit(run(workers[0]))


def _settings(names: list[str], options: dict[str, Any]) -> list[WorkerSettings]:
    from hetsched.worker.memory import memory_limit

    from .cores import count_cores

    options = {**options, **secrets_of(options)}
    options["nthreads"] = options["nthreads"] or max(1, count_cores() // len(names))
    options["memory_limit"] = memory_limit(options["memory_limit"], len(names))
    resources, pool = read_resources(options["resources"])
    if pool is not None and options["pool"] not in (None, pool):
        raise click.BadParameter(f"--pool says {options['pool']} and this says {pool}", param_hint="--resources")
    options["resources"], options["pool"] = resources, options["pool"] or pool
    if options["death_timeout"] is None:
        options["death_timeout"] = config.seconds("worker.death-timeout")
    dealt = read_gpus(options.pop("gpus"), len(names))
    return [
        WorkerSettings(name, gpus=gpus, devices=devices, **options)
        for name, (gpus, devices) in zip(names, dealt, strict=True)
    ]


def main() -> None:
    """Run with the arguments of the command line."""
    worker(prog_name="hetsched-worker")


if __name__ == "__main__":
    main()
