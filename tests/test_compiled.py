"""Compiled code runs only while it is of the very sources that are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import source_hash
from pathlib import Path

import pytest
from package_source import PACKAGE, ROOT

TAG = EXTENSION_SUFFIXES[0].strip(".").rpartition(".")[0]
CHANGED = "pure: sources changed since they were compiled"
UNLOADABLE = "pure: the compiled code cannot be loaded: "
PROGRAM = """
import hetsched.compiled, sys
print(hetsched.compiled.state())
import hetsched.core.scheduler
print(hetsched.compiled.state())
print(hetsched.core.scheduler.__file__)
"""


@pytest.fixture
def copy(tmp_path):
    """A copy of the package without anything compiled."""
    shutil.copytree(PACKAGE, tmp_path / "hetsched", ignore=shutil.ignore_patterns("_compiled", "__pycache__"))
    return tmp_path / "hetsched"


def states(package: Path, **environment: str) -> list[str]:
    """What a fresh interpreter says of a copy: before and after it imports the mind, and where that was found."""
    variables = {name: value for name, value in os.environ.items() if name != "HETSCHED_PURE"}
    variables |= {"PYTHONPATH": str(package.parent), **environment}
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        program, cwd=package.parent, env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    assert not done.stderr
    return done.stdout.splitlines()


def pretend(package: Path) -> None:
    """Leave what compiling would leave, with libraries that are none."""
    folder = package / "_compiled" / TAG
    folder.mkdir(parents=True)
    lines = ["# made by hand"]
    for name in ("core/scheduler.py", "core/state.py", "errors.py"):
        source = package / name
        content, stat = source_hash(source.read_bytes()).hex(), source.stat()
        lines.append(f"{name} {content} {stat.st_size} {stat.st_mtime_ns} {int(name != 'errors.py')}")
    (folder / "manifest.txt").write_text("\n".join(lines))
    for name in ("hetsched__mypyc", "hetsched.core.scheduler", "hetsched.core.state"):
        (folder / f"{name}{EXTENSION_SUFFIXES[0]}").write_text("not a library")


def test_nothing_compiled(copy):
    assert states(copy) == ["pure", "pure", str(copy / "core" / "scheduler.py")]


def test_what_cannot_be_loaded_is_not_used(copy):
    pretend(copy)
    before, after, place = states(copy)
    assert before == after
    assert after.startswith(UNLOADABLE)
    assert place == str(copy / "core" / "scheduler.py")


def test_a_changed_source(copy):
    pretend(copy)
    source = copy / "errors.py"
    source.write_text(source.read_text().replace("hetsched", "HETSCHED", 1))
    assert states(copy) == [CHANGED, CHANGED, str(copy / "core" / "scheduler.py")]


def test_a_source_of_another_length_and_the_same_time(copy):
    pretend(copy)
    source = copy / "core" / "state.py"
    times = source.stat()
    source.write_text(source.read_text() + "#")
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert states(copy)[0] == CHANGED


def test_a_source_that_is_gone(copy):
    pretend(copy)
    (copy / "_compiled" / TAG / "manifest.txt").write_text("core/gone.py 0 0 0 1\n")
    assert states(copy)[0] == CHANGED


def test_a_source_written_anew_with_the_same_content(copy):
    pretend(copy)
    os.utime(copy / "core" / "state.py", ns=(0, 0))
    assert states(copy)[0].startswith(UNLOADABLE)


def test_a_manifest_cut_short(copy):
    pretend(copy)
    file = copy / "_compiled" / TAG / "manifest.txt"
    file.write_text(file.read_text()[:-10])
    assert states(copy)[0] == CHANGED


def test_libraries_without_a_manifest(copy):
    pretend(copy)
    (copy / "_compiled" / TAG / "manifest.txt").unlink()
    assert states(copy)[1:] == ["pure", str(copy / "core" / "scheduler.py")]


@pytest.mark.parametrize(("value", "tried"), [("1", False), ("0", True), ("", True)])
def test_the_environment_has_a_say(copy, value, tried):
    pretend(copy)
    state = states(copy, HETSCHED_PURE=value)[0]
    assert state.startswith(UNLOADABLE) if tried else state == "pure"


@pytest.mark.skipif(not (PACKAGE / "_compiled" / TAG).exists(), reason="nothing is compiled here")
def test_what_was_really_compiled(copy):
    shutil.copytree(PACKAGE / "_compiled", copy / "_compiled")
    before, after, place = states(copy)
    if before != CHANGED:
        assert (before, after, Path(place).parent) == ("compiled", "compiled", copy / "_compiled" / TAG)


def test_without_a_compiler_one_line_says_so(tmp_path):
    pytest.importorskip("mypyc", reason="mypyc is not installed")
    program = [sys.executable, str(ROOT / "tools" / "compile.py"), "--into", str(tmp_path)]
    done = subprocess.run(program, env={**os.environ, "CC": "none"}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "compiled: no (no C compiler)\n", "")
    assert not list(tmp_path.iterdir())
