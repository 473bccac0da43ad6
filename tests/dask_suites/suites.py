"""Which of dask's own test files are run, and how they are cut into units of one pytest process each."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

SUITES: dict[str, tuple[str, ...]] = {
    "array": ("array/tests",),
    "bag": ("bag/tests",),
    "dataframe": ("dataframe/tests", "dataframe/io/tests", "dataframe/tseries/tests"),
    "expr": ("dataframe/dask_expr/tests", "dataframe/dask_expr/io/tests"),
    "base": (
        "tests/test_base.py",
        "tests/test_callbacks.py",
        "tests/test_delayed.py",
        "tests/test_local.py",
        "tests/test_threaded.py",
    ),
    "diagnostics": ("diagnostics/tests/test_profiler.py", "diagnostics/tests/test_progress.py"),
    "more": (
        "tests/test_cache.py",
        "tests/test_composite_expr.py",
        "tests/test_context.py",
        "tests/test_graph_manipulation.py",
        "tests/test_hlgexpr.py",
        "tests/test_layers.py",
        "tests/test_multiprocessing.py",
        "tests/test_task_spec.py",
        "tests/test_traceback.py",
        "tests/test_typing.py",
    ),
}
"""Suite to the folders and files it consists of, relative to the installed dask; one that a dask lacks is empty."""

NOT_OURS = ("test_distributed.py", "test_cupy")
"""Beginnings of file names that are left out: they need a distributed cluster or a GPU and ignore named schedulers."""

UNIT_BYTES = 150_000
"""About how much test source one process gets: a few seconds of imports against up to three minutes of tests."""


SAMPLE: dict[str, tuple[tuple[int, str, str], ...]] = {
    "array": (
        (1, "array/tests", "array_function atop gufunc optimization overlap"),
        (12, "array/tests", "array_core rechunk reductions routines slicing"),
    ),
    "bag": ((6, "bag/tests", "bag"),),
    "dataframe": (
        (24, "dataframe/tests", "dataframe groupby multi shuffle categorical"),
        (8, "dataframe/io/tests", "csv io parquet"),
    ),
    "expr": ((12, "dataframe/dask_expr/tests", "concat groupby merge rolling"),),
    "base": ((1, "tests", "base callbacks delayed local threaded"),),
    "diagnostics": ((1, "diagnostics/tests", "profiler progress"),),
    "more": ((1, "tests", "cache context graph_manipulation hlgexpr traceback"),),
}
"""Suite to what CI runs of it: one test in how many, a folder and which of its files."""


class Unit(NamedTuple):
    """Test files that one pytest process runs, in this order, in both runs."""

    suite: str
    number: int
    files: tuple[str, ...]
    share: int = 1
    """Of the tests one in how many is run."""

    @property
    def name(self) -> str:
        return f"{self.suite}-{self.number}"


def dask_root() -> Path:
    """The folder of the installed dask, found without importing it."""
    spec = importlib.util.find_spec("dask")
    if spec is None or spec.origin is None:
        raise SystemExit("dask is not installed in this environment")
    return Path(spec.origin).parent


def files_of(suite: str, root: Path) -> list[Path]:
    """The test files of `suite` that this dask has, sorted."""
    found: list[Path] = []
    for part in SUITES[suite]:
        path = root / part
        found += [path] if path.is_file() else path.glob("test_*.py")
    return sorted(path for path in found if not path.name.startswith(NOT_OURS))


def units_of(suite: str, root: Path) -> list[Unit]:
    """`suite` cut into units, the same for every run of one dask version."""
    packs: list[list[str]] = []
    size = UNIT_BYTES
    for path in files_of(suite, root):
        here = path.stat().st_size
        if size + here > UNIT_BYTES:
            packs.append([])
            size = 0
        packs[-1].append(path.relative_to(root).as_posix())
        size += here
    return [Unit(suite, number, tuple(pack)) for number, pack in enumerate(packs)]


def sample_of(suite: str, root: Path) -> list[Unit]:
    """The part of `suite` that CI runs: some files whole or in part, as `SAMPLE` says."""
    units = []
    for number, (share, folder, names) in enumerate(SAMPLE[suite]):
        files = [f"{folder}/test_{name}.py" for name in names.split()]
        units.append(Unit(suite, 100 + number, tuple(file for file in files if (root / file).exists()), share))
    return units


def size_of(unit: Unit, root: Path) -> int:
    """Bytes of test source, the guess at how long the unit takes."""
    return sum((root / file).stat().st_size for file in unit.files)
