"""Runs one unit of tests in pytest processes of its own until every test has an outcome, whatever the tests do."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from plugin import Plan
from suites import Unit, dask_root

HERE = Path(__file__).parent
WORK = HERE / ".baseline" / "logs"
"""Where pytest's output and the stacks of hung tests stay for reading."""

RUNNING: set[subprocess.Popen[bytes]] = set()
"""The pytest processes of now, each the leader of a session of its own."""

STOPPED = threading.Event()
"""Set when the person has had enough."""

FINISHED = (0, 1, 5)
"""pytest's exit statuses for: all passed, some failed, none selected."""


class Outcome(NamedTuple):
    """What became of one test."""

    outcome: str
    """passed, skipped, xfailed, xpassed; failed, error, hung, crashed."""
    seconds: float = 0.0
    error: str = ""
    graphs: int = 0
    """How many graphs dask's own engine ran meanwhile."""

    @property
    def bad(self) -> bool:
        return self.outcome not in {"passed", "skipped", "xfailed", "xpassed"}


class Request(NamedTuple):
    """What to run of each unit, and on which get."""

    target: str = ""
    """`module:function`, or "" for dask as it is."""
    limit: float = 60.0
    slow: dict[str, float] = {}
    only: tuple[str, ...] | None = None
    keyword: str = ""
    label: str = ""
    """Part of the names of the output files."""


class Log(NamedTuple):
    """What one pytest process wrote down before it ended."""

    outcomes: dict[str, Outcome]
    pending: str | None
    """The test that had begun and not ended."""
    status: int | None
    """pytest's exit status, None if it never got there."""


def read_log(path: Path) -> Log:
    """Read the lines of the plugin; the last may be cut off."""
    outcomes: dict[str, Outcome] = {}
    pending: str | None = None
    status: int | None = None
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            entry = json.loads(line)
            if "start" in entry:
                pending = entry["start"]
            elif "end" in entry:
                status = entry["end"]
            else:
                test = entry.pop("id")
                outcomes[test] = Outcome(**entry)
                pending = None
    return Log(outcomes, pending, status)


def environment(target: str) -> dict[str, str]:
    """The environment of the tests: one hash seed, no user's config, no plugins but ours."""
    path = [str(HERE)]
    if target and importlib.util.find_spec(target.split(":")[0]) is None:
        path.append(str(HERE.parents[1]))
    if old := os.environ.get("PYTHONPATH"):
        path.append(old)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DASK_", "PYTEST_"))}
    return kept | {"PYTHONHASHSEED": "0", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(path)}


def start(unit: Unit, plan: Plan, keyword: str, folder: Path, output: Path) -> int:
    """Run one pytest process and what it leaves behind to its end; return its return code."""
    root = dask_root()
    (folder / "plan.json").write_text(json.dumps(plan._asdict()), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "plugin", "-p", "no:cacheprovider"]
    command += [
        "-p",
        "no:faulthandler",
        "--continue-on-collection-errors",
        "-c",
        str(HERE / "suite.ini"),
        f"--rootdir={root}",
    ]
    command += [f"--suite-plan={folder / 'plan.json'}", f"--basetemp={folder / 'tmp'}"]
    command += ["-k", keyword] if keyword else []
    command += [str(root / file) for file in unit.files]
    with output.open("a", encoding="utf-8") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment(plan.target) | {"DASK_CONFIG": str(folder / "config"), "TMPDIR": str(folder)},
        )
        RUNNING.add(process)
        code = process.wait()
    kill(process)
    RUNNING.discard(process)
    return code


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a pytest process, if it still runs, and the processes it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def kill_all() -> None:
    """End all that runs, and start nothing more."""
    STOPPED.set()
    for process in tuple(RUNNING):
        kill(process)


def run_unit(unit: Unit, request: Request) -> dict[str, Outcome]:
    """Every test of `unit` that `request` asks for, with its outcome.

    A test that hangs or crashes ends its process; the tests after it run in a new one. What goes wrong outside of
    tests is told under the name of a file that cannot be imported, or as `<unit> start`, `<unit> between` (two tests)
    or `<unit> exit`.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    kind = request.label or request.target.replace(":", ".") or "unmodified"
    output, stacks = WORK / f"{unit.name}.{kind}.out", WORK / f"{unit.name}.{kind}.stacks"
    output.write_bytes(b"")
    outcomes: dict[str, Outcome] = {}
    while not STOPPED.is_set():
        stacks.write_bytes(b"")
        with tempfile.TemporaryDirectory(prefix="dask-suites-", ignore_cleanup_errors=True) as folder:
            path = Path(folder, "log")
            plan = Plan(request.target, str(path), str(stacks), request.limit, request.slow, request.only)
            plan = plan._replace(done=tuple(outcomes), share=unit.share)
            code = start(unit, plan, request.keyword, Path(folder), output)
            log = read_log(path)
        progress = log.pending is not None or not outcomes.keys() >= log.outcomes.keys()
        outcomes |= log.outcomes
        trouble = trouble_of(unit, log, code)
        if trouble is None or STOPPED.is_set():
            return outcomes
        text = stacks.read_text("utf-8", "replace")
        kept = WORK / f"{unit.name}.{kind}.{len(outcomes)}.stacks"
        kept.write_text(text, "utf-8")
        limit = request.slow.get(trouble, request.limit)
        what = f"no end within {limit:.0f} s, stacks in {kept}" if text else f"exit status {code}, see {output}"
        outcomes[trouble] = Outcome("hung" if text else "crashed", limit if text else 0.0, what)
        if trouble == f"{unit.name} exit" or not progress:
            break
    return outcomes


def trouble_of(unit: Unit, log: Log, code: int) -> str | None:
    """The id of what ended a pytest process before its time, None if all went well."""
    if log.pending is not None:
        return log.pending
    if log.status in FINISHED:
        return None if code in FINISHED else f"{unit.name} exit"
    return f"{unit.name} between" if log.outcomes else f"{unit.name} start"
