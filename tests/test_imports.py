"""What an import loads: the deciding code needs nothing, and ``import hetsched`` costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
from package_source import read_package
from test_floors import BELOW_HANDS, FLOORS, place

HEAVY = {"cloudpickle", "cupy", "dask", "distributed", "numpy", "pandas", "trio"}


def loads(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after a statement."""
    program = f"import sys; {statement}; print(*(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("name", ["hetsched", "hetsched.core", "hetsched.errors"])
def test_import_is_light(name):
    loaded = loads(f"import {name}")
    assert "hetsched" in loaded
    assert not loaded & HEAVY


def test_all_deciding_code_loads_without_the_rest():
    rooms = {room for floor in FLOORS if floor.name in BELOW_HANDS for room in floor.rooms}
    names = [m.dotted for m in read_package() if (at := place(m.name)) and at.room in rooms]
    assert len(names) > 5
    assert not loads("import " + ", ".join(names)) & HEAVY


def test_no_module_hides_a_public_name():
    """Importing `hetsched.x` binds the module to `x` in the package; a function of that name must come back."""
    names = [m.dotted for m in read_package() if m.dotted != "hetsched"]
    program = (
        "import importlib, types, hetsched\n"
        f"for name in {names}: importlib.import_module(name)\n"
        "print(*(n for n in hetsched.__all__ if isinstance(getattr(hetsched, n), types.ModuleType)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("annotations errors", "")
