"""All entries of the corpus, with libraries that are installed or with stand-ins for them."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from .entries import ENTRIES, Entry
from .stand_ins import stand_ins

__all__ = ["PARTS", "corpus"]

PARTS = tuple(sorted(p.stem for p in Path(__file__).parent.glob("before_*.py"))) + tuple(
    sorted(p.stem for p in Path(__file__).parent.glob("after_*.py"))
)


@contextlib.contextmanager
def corpus(*, telling: bool = True, real: bool = False) -> Iterator[list[Entry]]:
    """Import the corpus anew and give its entries; the libraries are there until the end of the block."""
    names = [f"gpu_corpus.{part}" for part in PARTS]
    ENTRIES.clear()
    with stand_ins(telling=telling, real=real):
        for name in names:
            sys.modules.pop(name, None)
            importlib.import_module(name)
        try:
            yield list(ENTRIES)
        finally:
            for name in names:
                sys.modules.pop(name, None)
