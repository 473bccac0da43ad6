"""Interpreters on this machine that have what hetsched needs, by version.

First those that ``.ci/run`` makes (``.venv``, ``.venv-3.12``, ...), then those named by ``HETSCHED_TEST_PYTHONS``, the
one that runs the tests, and those of pyenv.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from package_source import ROOT

__all__ = ["VERSIONS", "Python", "of_numpy_1", "of_version", "why_none"]

VERSIONS = ("3.11", "3.12", "3.13")

_NEEDED = "click, cloudpickle, dask, lz4, msgpack, numpy, psutil, tblib, trio, yaml, zict"
_SAY = f"import sys, {_NEEDED}; print(*sys.version_info[:2], numpy.__version__)"


class Python(NamedTuple):
    """An interpreter, its version ("3.12") and that of its numpy."""

    path: str
    version: str
    numpy: str


def _candidates() -> Iterator[str]:
    yield from map(str, sorted(ROOT.glob(".venv*/bin/python")))
    yield from (path for path in os.environ.get("HETSCHED_TEST_PYTHONS", "").split(os.pathsep) if path)
    yield sys.executable
    yield from map(str, sorted(Path.home().glob(".pyenv/versions/3.1[1-9]*/bin/python")))


@cache
def _found() -> tuple[Python, ...]:
    found = []
    for path in dict.fromkeys(_candidates()):
        try:
            done = subprocess.run([path, "-c", _SAY], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            major, minor, numpy = done.stdout.split()
            found.append(Python(path, f"{major}.{minor}", numpy))
    return tuple(found)


def of_version(version: str) -> str | None:
    """One with a numpy of our time, where there is one."""
    return next((p.path for p in _found() if p.version == version and not p.numpy.startswith("1.")), None)


def of_numpy_1() -> Python | None:
    """One with numpy 1, where there is one."""
    return next((p for p in _found() if p.numpy.startswith("1.")), None)


def why_none(what: str) -> str:
    """The reason for a skipped test."""
    return f"no {what} with {_NEEDED} here (HETSCHED_TEST_PYTHONS may name one)"
