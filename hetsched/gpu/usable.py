"""Where no device was found: tell code that could use one all the same from code that falls back to the host."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec

from hetsched.core.evidence import CODE, DOWNLOAD, Evidence

from .libraries import DEVICE, libraries_in, meaning

__all__ = ["credible"]


def credible(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Keep what may be true in this process, in which no device was found.

    What code says goes if each library that it names can use no device here: the code imports it and it is not
    installed, or it is torch, which says so itself. Such code has another way, for machines like this one, and is no
    GPU task. Imports nothing.
    """
    found = tuple(evidence)
    said = [one for one in found if one.kind in (CODE, DOWNLOAD)]
    named = {name for one in said for name in libraries_in(one.detail)}
    imported = {one.detail.removeprefix("uses ") for one in said if one.detail.startswith("uses ")}
    if not named or not all(_is_useless(name, name in imported) for name in sorted(named)):
        return found
    return tuple(one for one in found if one.kind not in (CODE, DOWNLOAD))


def _is_useless(name: str, imported: bool) -> bool:
    if name == "torch":
        with suppress(Exception):  # not loaded, or a module that is no more than called so
            return sys.modules[name].cuda.is_available() is False
    # Of other libraries that may use a device, "uses" tells no more than that there is a name of theirs.
    return imported and meaning(f"{name}.x") == DEVICE and not _is_installed(name)


def _is_installed(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
