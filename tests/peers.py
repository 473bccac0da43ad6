"""Other Pythons on this machine that could be peers: of other versions, with another numpy.

Where ``make`` and ``.ci/run`` put them, those of pyenv, and those named by ``HETSCHED_TEST_PYTHONS`` (paths, a
colon between them). One without the libraries that comm needs is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgpack
import pytest
from package_source import ROOT

__all__ = ["PEERS", "ask"]

_SAY = "import sys, numpy, msgpack, cloudpickle, tblib; print(*sys.version_info[:2], numpy.__version__)"


def _find() -> list[str]:
    named = [path for path in os.environ.get("HETSCHED_TEST_PYTHONS", "").split(os.pathsep) if path]
    found = [*ROOT.glob(".venv*/bin/python"), *Path.home().glob(".pyenv/versions/3.1[1-9]*/bin/python")]
    return sorted({*named, *map(str, found)} - {sys.executable}) or ["none"]


PEERS = _find()


@cache
def _about(python: str) -> str:
    try:
        done = subprocess.run([python, "-c", _SAY], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def ask(python: str, program: str, message: object) -> tuple[tuple[int, int], object]:
    """Run a program in a peer, with a message as msgpack on its input; return its version and what it answers."""
    about = _about(python)
    if not about:
        pytest.skip("no other Python with numpy, msgpack, cloudpickle and tblib here")
    major, minor, _numpy = about.split()
    done = subprocess.run(
        [python, "-W", "error", "-c", program],
        input=msgpack.packb(message),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr.decode()
    return (int(major), int(minor)), msgpack.unpackb(done.stdout, use_list=False, strict_map_key=False)
