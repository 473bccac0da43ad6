"""``hetsched gpu``: what is thought of GPU tasks, here or by a scheduler, and how to forget it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from hetsched.core.evidence import Evidence
from hetsched.core.verdicts import GpuRow, write
from hetsched.errors import HetschedError
from hetsched.gpu.learned import Learned, Row, default_path

from .options import Command, secret_options, secrets_of

__all__ = ["gpu"]


@click.group()
def gpu() -> None:
    """See what was found out about GPU tasks, or forget it."""


@gpu.command(cls=Command)
@click.argument("address", required=False)
@secret_options
def report(address: str | None, **options: Any) -> None:
    """Tell what is thought of kinds of tasks, why, and how many ran in the wrong place.

    With ADDRESS, by the scheduler there since it was started; else what is remembered on this machine from one start to
    the next. "first" are those of the wrong ones that ran before anything was known.
    """
    if address is None:
        rows = [_row(row) for row in Learned().rows()]
        click.echo(f"{default_path()}: {len(rows)} functions")
    else:
        try:
            rows = _ask(address, secrets_of(options))
        except (HetschedError, OSError, TimeoutError, ValueError) as error:
            sys.exit(f"hetsched gpu report: {error}")
    click.echo(write(rows) if rows else "nothing was seen of a device")


@gpu.command(cls=Command)
@click.argument("pattern", required=False)
@click.option("--all", "everything", is_flag=True, help="Forget everything, whatever state the file is in.")
def forget(pattern: str | None, everything: bool) -> None:
    """Forget what is remembered on this machine of the functions whose name fits PATTERN, such as "resize*".

    Programs and schedulers that run meanwhile on this machine forget it too, programs with their next graph. What the
    code of a function says of the GPU is read anew each time, and not forgotten.
    """
    if not everything and pattern is None:
        raise click.UsageError("say of which functions, by a PATTERN, or --all")
    try:
        if everything:
            Learned().forget_all()
            click.echo(f"forgot everything in {default_path()}")
        else:
            click.echo(f"forgot {Learned().forget(pattern or '')} functions")
    except OSError as error:
        sys.exit(f"hetsched gpu forget: {error}")


def _ask(address: str, secrets: dict[str, Any]) -> list[GpuRow]:
    from hetsched.client.client import Client
    from hetsched.comm.auth import client_tls

    tls = None
    if secrets.get("tls_ca"):
        tls = client_tls(secrets.get("tls_cert"), secrets.get("tls_key"), secrets["tls_ca"])
    with Client(address, token_file=secrets.get("token_file"), tls=tls, timeout=5, name="gpu report") as client:
        return client.gpu_report()


def _row(row: Row) -> GpuRow:
    evidence = tuple((one.kind, one.weight, one.detail, 1) for one in _strongest(row.evidence))
    by_input = row.verdict == "gpu" and not evidence
    return GpuRow(
        row.name, row.function, row.verdict, by_input, float(bool(evidence)), evidence, row.ran - row.wrong, row.wrong,
        row.first, (),
    )  # fmt: skip


def _strongest(evidence: Iterable[Evidence]) -> Sequence[Evidence]:
    return sorted(evidence, key=lambda one: -abs(one.weight))
