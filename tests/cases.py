"""The cases that people reported, run on a cluster of processes by the runner that comes with them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import dask
import pytest
from package_source import ROOT
from programs import ENVIRONMENT

from hetsched import LocalCluster

__all__ = ["CASES", "FILES", "CaseRuns", "scope_of"]

CASES = ROOT.parent / "shared" / "cases"
FILES = sorted(file for file in CASES.glob("*.py") if re.match(r"\d+_", file.name)) if CASES.is_dir() else []


def scope_of(file: Path) -> str:
    """Which schedulers a case is for: ``any`` or ``in-process``."""
    said = re.search(r'^SCOPE = "(.*)"', file.read_text(), re.MULTILINE)
    return said[1] if said else "any"


class CaseRuns:
    """A cluster of two workers, and runs of the cases on it, two at a time, from the first on."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._runs: dict[Path, Future[Any]] = {}
        self._stack = ExitStack()

    @classmethod
    def selected(cls, request: pytest.FixtureRequest) -> Self:
        """Those of the cases that tests of the requesting fixture's module will run."""
        items = [item for item in request.session.items if item.path == request.path]
        params = [item.callspec.params for item in items if hasattr(item, "callspec")]
        return cls([param["file"] for param in params if param.get("file") is not None])

    def __enter__(self) -> Self:
        with self._stack:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            # The runner loads a case as a module of this name, which its functions are pickled by.
            for file in self._files:
                (self._folder / f"case_{file.name}").symlink_to(file)
            sys.path.insert(0, str(self._folder))
            try:
                with dask.config.set({"hetsched.scheduler.no-workers-timeout": "2s"}):
                    cluster = self._stack.enter_context(LocalCluster(2, 2, gpus=1, memory_limit=0))
            finally:
                sys.path.remove(str(self._folder))
            self._environment = {
                **ENVIRONMENT,
                "HETSCHED_ADDRESS": cluster.address,
                "DASK_HETSCHED__COMM__TOKEN_FILE": cluster.token_file,
            }
            pool = self._stack.enter_context(ThreadPoolExecutor(2))
            self._stack.callback(pool.shutdown, cancel_futures=True)
            self._runs = {file: pool.submit(self._run, file) for file in self._files}
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self, file: Path) -> None:
        """Wait for a case; AssertionError, with what it said, where it does not pass."""
        row = self.row(file)
        assert row["verdict"] == "PASS", f"{row['verdict']}: {row['detail']}\n{row['stderr']}"

    def row(self, file: Path) -> Any:
        """Wait for a case; returns the runner's row about it."""
        return self._runs[file].result()

    def _run(self, file: Path) -> Any:
        rows = self._folder / f"{file.stem}.json"
        options = ["--cases", CASES, "-k", rf"^{file.stem}\.py$", "--json", rows]
        command = [sys.executable, CASES / "run_cases.py", "hetsched:get", *options]
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False)
        assert rows.exists(), done.stderr
        (row,) = json.loads(rows.read_text())
        return row
