"""Where no device was found: tell code that could use one all the same from code that falls back to the host."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec

from hetsched.core.evidence import CODE, DOWNLOAD, Evidence

from .libraries import libraries_in

__all__ = ["credible"]


def credible(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Keep what may be true in this process, in which no device was found.

    What code says goes where no library that it names can use a device here: it is not installed, or says so itself.
    Such code has another way, for machines like this one, and is no GPU task. Imports nothing.
    """
    found = tuple(evidence)
    named = {name for one in found if one.kind in (CODE, DOWNLOAD) for name in libraries_in(one.detail)}
    if not named or any(_is_usable(name) for name in sorted(named)):
        return found
    return tuple(one for one in found if one.kind not in (CODE, DOWNLOAD))


def _is_usable(name: str) -> bool:
    if name not in sys.modules:
        try:
            return find_spec(name) is not None
        except (ImportError, ValueError):
            return False
    module = sys.modules[name]
    if module is not None and name == "torch":
        with suppress(Exception):
            return module.cuda.is_available() is not False
    return module is not None
