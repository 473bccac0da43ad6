"""Tables and progress for a terminal: by rich where it is installed, plainly else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

__all__ = ["progress", "show_table"]


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> None:
    """Print a table; the first so many columns are words, the others are figures."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        _show_plainly(title, columns, rows)
        return
    table = Table(title=title or None, title_justify="left", title_style="bold")
    for n, column in enumerate(columns):
        table.add_column(column, justify="right" if n >= words else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False, markup=False, emoji=False)
    console.print(table)


def _show_plainly(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[n]) for row in [columns, *rows]) for n in range(len(columns))]
    if title:
        click.echo(title)
    for row in [columns, *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        click.echo("  ".join(cells))


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show how far a run of so many things has come, on a terminal's error stream; yields what is called after each."""
    if sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import Progress
        except ImportError:
            pass
        else:
            with Progress(console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task(what, total=total)
                yield lambda: bar.advance(task)
                return
    yield lambda: None
