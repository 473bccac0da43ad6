"""``validate``: compare with reference cases."""

from __future__ import annotations

import json
import sys

import click

from hetsched.errors import HetschedError
from hetsched.sims.validate import validate as run_cases

__all__ = ["validate"]


@click.command()
@click.argument("references", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--verbose", is_flag=True, help="Print every case, not only those that are wrong.")
def validate(references: tuple[str, ...], as_json: bool, verbose: bool) -> None:
    """Run the cases of reference files and compare what comes of them. The exit status is 1 if a case is wrong."""
    verdicts = []
    for reference in references:
        try:
            found = list(run_cases(reference))
        except (HetschedError, OSError) as error:
            raise click.ClickException(str(error)) from error
        verdicts += found
        right = sum(verdict.is_right for verdict in found)
        if not as_json:
            for v in found:
                if verbose or not v.is_right:
                    click.echo(
                        f"{'right' if v.is_right else 'WRONG'} {v.case}: {v.found:.6f}, expected {v.expected:.6f}; "
                        f"largest difference {v.difference:.2g}"
                    )
            click.echo(f"{reference}: {right} of {len(found)} cases are right")
    if as_json:
        click.echo(json.dumps([verdict._asdict() for verdict in verdicts]))
    sys.exit(not all(verdict.is_right for verdict in verdicts))
