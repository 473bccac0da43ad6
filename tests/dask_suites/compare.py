"""Compares the outcomes with those of unmodified dask, and the deviations with the list of the known ones."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from processes import HERE, Outcome

MATTERS = ("cachey", "numpy", "pandas", "pyarrow", "scipy", "xarray", "fsspec", "distributed", "pytest", "sqlalchemy")
"""Packages besides dask whose presence or version changes which of dask's tests pass."""

Outcomes = dict[str, Outcome]


def baseline_path() -> Path:
    """Where the outcomes of unmodified dask are kept, for exactly these versions."""
    versions = []
    for name in MATTERS:
        try:
            versions.append(f"{name}={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{name}=")
    digest = hashlib.sha256(" ".join(versions).encode()).hexdigest()[:8]
    dask = importlib.metadata.version("dask")
    return HERE / ".baseline" / f"dask-{dask}-python-{platform.python_version()}-{digest}.json"


def read_baseline(path: Path) -> Outcomes:
    """The kept outcomes, none if there are none."""
    if not path.exists():
        return {}
    return {test: Outcome(*fields) for test, fields in json.loads(path.read_text("utf-8")).items()}


def write_baseline(path: Path, outcomes: Outcomes) -> None:
    """Keep `outcomes`, replacing the file in one step."""
    text = ",\n".join(f"{json.dumps(test)}: {json.dumps(list(outcomes[test]))}" for test in sorted(outcomes))
    part = path.with_suffix(".part")
    part.write_text(f"{{\n{text}\n}}\n", "utf-8")
    part.replace(path)


def deviates(ours: Outcome, theirs: Outcome | None) -> bool:
    """Whether `ours` is worse: a test that passes unmodified does not, or one that does not fail unmodified does."""
    if theirs is None:
        return ours.bad
    return (theirs.outcome == "passed" and ours.outcome != "passed") or (ours.bad and not theirs.bad)


class Known(NamedTuple):
    """A deviation that is accepted."""

    tests: str
    """An id, or a pattern in which `*` (and nothing else) stands for any text."""
    reason: str
    sometimes: bool = False
    """Whether a run without it is fine as well."""

    def matches(self, test: str) -> bool:
        return re.fullmatch(".*".join(map(re.escape, self.tests.split("*"))), test) is not None


def read_known(path: Path) -> list[Known]:
    """The accepted deviations; each needs a reason."""
    known = [Known(**entry) for entry in tomllib.loads(path.read_text("utf-8")).get("deviation", [])]
    for entry in known:
        if not entry.reason.strip():
            raise ValueError(f"{path}: {entry.tests} has no reason")
    return known


class Verdict(NamedTuple):
    """What a run says about the list of known deviations."""

    listed: dict[str, Known]
    unlisted: list[str]
    stale: list[Known]
    """Listed and not seen: the tests ran and did not deviate, or a full run has no such test."""


def judge(deviations: Iterable[str], ran: Mapping[str, Outcome], known: list[Known], *, full: bool) -> Verdict:
    """Sort `deviations` by whether they are known, and find entries that no longer hold.

    In a partial run an entry with a `*` may have had all its deviating tests left out, so only exact ids go stale.
    """
    listed: dict[str, Known] = {}
    unlisted: list[str] = []
    for test in deviations:
        entry = next((k for k in known if k.matches(test)), None)
        if entry is None:
            unlisted.append(test)
        else:
            listed[test] = entry
    seen = set(listed.values())
    stale = [k for k in known if k not in seen and not k.sometimes and (full or k.tests in ran)]
    return Verdict(listed, unlisted, stale)
