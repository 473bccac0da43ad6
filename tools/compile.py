"""Compile the modules that pyproject.toml names under ``[tool.hetsched.compile]``, with mypyc.

    python tools/compile.py               into hetsched/_compiled, for the Python that runs it
    python tools/compile.py --into DIR    into DIR instead, as a wheel needs it

What is made is a folder for this kind of Python with one library, a stub for each module, and ``manifest.txt``, which
says what it was made from: the modules, and those of the package that they import (types and constants of them are
built in). `hetsched.compiled` uses the folder only as long as all of that is unchanged. Nothing is done where it is
up to date. Where there is no compiler or no mypyc, a line says so and the Python sources stay what is used.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from importlib.util import source_hash
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
SUFFIX = EXTENSION_SUFFIXES[0]
TAG = SUFFIX.strip(".").rpartition(".")[0]
LIBRARY = "hetsched"
SETTINGS = f"""
[mypy]
cache_dir = {os.devnull}
ignore_missing_imports = True
follow_imports = silent
# Whether dask is here or not, where a wheel is built, the same code is made: of objects of which nothing is known.
[mypy-dask.*,toolz.*,cloudpickle.*,numpy.*,trio.*]
follow_imports = skip
"""


class CannotCompileError(Exception):
    """Something that compiling needs is not here."""


def wanted() -> list[str]:
    """The modules to compile, as paths below the root."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names: list[str] = settings["tool"]["hetsched"]["compile"]["modules"]
    return [f"hetsched/{name}.py" for name in names]


def imported(path: str) -> Iterator[str]:
    """The files of the package that a file imports, in whatever part of it."""
    package = path.split("/")[:-1]
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = "/".join([*above, *(node.module or "").split(".")]).rstrip("/")
            names = [base, *(f"{base}/{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name.replace(".", "/") for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("hetsched/"):
                yield from (file for file in (f"{name}.py", f"{name}/__init__.py") if (ROOT / file).exists())


def sources(modules: Sequence[str]) -> list[str]:
    """The modules, then all that they import, directly or not."""
    found = dict.fromkeys(modules)
    todo = list(modules)
    while todo:
        for path in imported(todo.pop()):
            if path not in found:
                found[path] = None
                todo.append(path)
    return [*modules, *sorted(found.keys() - set(modules))]


def manifest(modules: Sequence[str]) -> str:
    """What would be made now, and from what: in a line per source its path, hash, size, time and whether compiled."""
    own = source_hash(Path(__file__).read_bytes()).hex()
    lines = [f"# mypy {version('mypy')}, tools/compile.py {own}"]
    for path in sources(modules):
        stat = (ROOT / path).stat()
        content = source_hash((ROOT / path).read_bytes()).hex()
        below = path.removeprefix("hetsched/")
        lines.append(f"{below} {content} {stat.st_size} {stat.st_mtime_ns} {int(path in modules)}")
    return "\n".join(lines) + "\n"


def content(text: str) -> list[list[str]]:
    """A manifest without what may change though the sources do not."""
    return [line.split()[:3] + line.split()[4:] for line in text.splitlines()]


def compile_all(modules: Sequence[str], into: Path, temp: Path) -> None:
    """Compile the modules and put what is made into a folder; all noise goes into a file, ``temp/log``."""
    try:
        import setuptools
        from mypyc.build import mypycify
    except ImportError as error:
        raise CannotCompileError(f"no {error.name}") from None
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise CannotCompileError("no Python.h")
    probe = temp / "probe.c"
    probe.write_text("#include <Python.h>\nPyObject *PyInit_probe(void) { return 0; }\n")
    with noise_in(temp / "log"):
        try:
            link([setuptools.Extension("probe", [str(probe)])], temp)
        except Exception:
            raise CannotCompileError("no C compiler") from None
        options = {"opt_level": "3", "debug_level": "0", "target_dir": str(temp), "group_name": LIBRARY}
        settings = temp / "mypy.ini"
        settings.write_text(SETTINGS, encoding="utf-8")
        extensions = mypycify([f"--config-file={settings}", *modules], **options)
        made = link(extensions, temp)
    into.mkdir(parents=True, exist_ok=True)
    for name, file in made.items():
        # Never written over in place: a process that uses the old one would crash.
        shutil.copyfile(file, into / f"{name}.new")
        os.replace(into / f"{name}.new", into / f"{name}{SUFFIX}")


def link(extensions: Sequence[object], temp: Path) -> dict[str, str]:
    """Have setuptools compile and link extensions; returns their names and files."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"name": "hetsched", "ext_modules": list(extensions)}))
    command.build_lib = str(temp / "lib")
    command.build_temp = str(temp / "temp")
    command.parallel = True
    command.ensure_finalized()
    command.run()
    return {extension.name: command.get_ext_fullpath(extension.name) for extension in command.extensions}


@contextmanager
def noise_in(log: Path) -> Iterator[None]:
    """Send what is printed, by compilers too, into a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, saved in zip((1, 2), kept, strict=True):
            os.dup2(saved, number)
            os.close(saved)


def write(file: Path, text: str) -> None:
    """Write a file in one step: somebody may be reading it."""
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def run(into: Path) -> str:
    """Compile if need be; returns what to say."""
    modules = wanted()
    folder = into / TAG
    file = folder / "manifest.txt"
    try:
        text = manifest(modules)
    except PackageNotFoundError:
        raise CannotCompileError("no mypy") from None
    if file.exists() and content(file.read_text(encoding="utf-8")) == content(text):
        write(file, text)
        return "up to date"
    start = perf_counter()
    # Without a manifest nothing in the folder is used.
    file.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="hetsched-compile-") as temp:
        try:
            compile_all(modules, folder, Path(temp))
        except CannotCompileError:
            raise
        except (Exception, SystemExit) as error:  # mypyc leaves by SystemExit
            log = Path(temp, "log").read_text(encoding="utf-8", errors="replace")
            sys.stderr.write("".join(log.splitlines(keepends=True)[-60:]))
            raise SystemExit(f"compiled: no (mypyc or the C compiler failed: {error!r})") from error
    write(file, text)
    return f"yes, {len(modules)} modules in {perf_counter() - start:.0f} s"


def main() -> None:
    """Compile, and say in one line whether."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, default=ROOT / "hetsched" / "_compiled")
    into = parser.parse_args().into.absolute()
    os.chdir(ROOT)  # the files' names are built in, for tracebacks
    try:
        print("compiled:", run(into))
    except CannotCompileError as error:
        print(f"compiled: no ({error})")


if __name__ == "__main__":
    main()
