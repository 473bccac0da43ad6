"""A pytest plugin (`-p plugin`) that runs dask's own tests on another `get` and writes down every outcome.

It is told what to do by the JSON file named in the option `--suite-plan` (see `Plan`), and appends one JSON object a
line to `plan.log`: `{"start": id}` before a test, `{"id": ..., "outcome": ...}` after it, `{"end": status}` at the end.
A test that exceeds its limit ends the process (faulthandler writes every thread's stack to `plan.stacks`): `run.py`
sees which test that was and goes on with the others in a fresh process.
"""

from __future__ import annotations

import faulthandler
import functools
import importlib
import json
import sys
import warnings
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

GETS = ("dask.threaded:get", "dask.local:get_sync", "dask.multiprocessing:get")
COLLECT_LIMIT = 300.0
EXIT_LIMIT = 30.0


class Plan(NamedTuple):
    """What one pytest process is to do; `run.py` writes it, this plugin reads it."""

    target: str
    """`module:function` of the get to test, or "" to leave dask as it is."""
    log: str
    stacks: str
    limit: float
    """Seconds that one test may take."""
    slow: dict[str, float]
    """Ids of tests that may take more, and how much."""
    only: Collection[str] | None = None
    """The ids to run; None for all."""
    done: Collection[str] = ()
    """Ids not to run again."""
    share: int = 1
    """Of the tests of each file, one in how many to run, chosen by the hash of the id."""


def load(target: str) -> Callable[..., Any]:
    """The function that `module:name` stands for."""
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def replace_gets(new: Callable[..., Any]) -> None:
    """Put `new` wherever dask, as imported so far, keeps one of its own gets.

    That is `dask.base.named_schedulers` (so every name, "processes" too, now means `new`, and so do the defaults of
    collections imported later), `dask.get`, `dask.threaded.get`, `dask.local.get_sync`, `dask.multiprocessing.get`,
    the `DEFAULT_GET` of each collection and the `__dask_scheduler__` of each class. `dask.core.get`, a toy of three
    lines that tests use as the reference, stays.
    """
    import dask.base

    old = {id(load(name)) for name in GETS}
    for name in dask.base.named_schedulers:
        dask.base.named_schedulers[name] = new
    for module in dask_modules():
        for name, value in list(vars(module).items()):
            if id(value) in old:
                setattr(module, name, new)
            elif isinstance(value, type) and id(getattr(value, "__dask_scheduler__", None)) in old:
                value.__dask_scheduler__ = staticmethod(new)  # type: ignore[attr-defined]


def dask_modules() -> list[ModuleType]:
    """Every module of dask that is imported."""
    return [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "dask"]


class Engine:
    """Counts the graphs that dask's own engine runs: none should be left once the gets are replaced.

    Counted where `dask.local.get_async` takes up its callbacks, so that no frame of ours is in the tracebacks of tasks.
    """

    def __init__(self) -> None:
        self.graphs = 0
        local = importlib.import_module("dask.local")
        original = local.local_callbacks

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.graphs += 1
            return original(*args, **kwargs)

        local.local_callbacks = counted  # type: ignore[attr-defined]


class Recorder:
    """Selects the tests of the plan, limits the time of each and writes the outcomes down."""

    def __init__(self, plan: Plan, engine: Engine) -> None:
        self.plan = plan
        self.gets = [load(name) for name in GETS]
        self.engine = engine
        self.log = Path(plan.log).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self.stacks = Path(plan.stacks).open("a", encoding="utf-8")  # noqa: SIM115
        self.entry: dict[str, Any] = {}
        self.limit(COLLECT_LIMIT)

    def pytest_make_parametrize_id(self, val: object) -> str | None:
        """Call every get the same, so that the ids of tests with a get as parameter are the same in both runs."""
        return "get" if any(val is get for get in self.gets) else None

    def write(self, entry: dict[str, Any]) -> None:
        self.log.write(json.dumps(entry) + "\n")

    def limit(self, seconds: float) -> None:
        """End the process `seconds` from now unless another limit is set before."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self.stacks)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self.wanted(item)]
        for item in items:
            if item.get_closest_marker("slow"):
                self.plan.slow.setdefault(item.nodeid, 5 * self.plan.limit)

    def wanted(self, item: pytest.Item) -> bool:
        """Whether the plan has this test; none that needs the internet, and in a sample none that is slow."""
        plan, test = self.plan, item.nodeid
        if test in plan.done or (plan.only is not None and test not in plan.only) or item.get_closest_marker("network"):
            return False
        return plan.share == 1 or (zlib.crc32(test.encode()) % plan.share == 0 and not item.get_closest_marker("slow"))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.write({"id": report.nodeid, "outcome": "error", "seconds": 0.0, "error": first_line(report)})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.limit(self.plan.slow.get(nodeid, self.plan.limit))
        self.write({"start": nodeid})
        self.engine.graphs = 0
        self.entry = {"id": nodeid, "outcome": "passed", "seconds": 0.0, "error": ""}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        entry = self.entry
        entry["seconds"] = round(entry["seconds"] + report.duration, 3)
        if report.failed:
            entry["outcome"] = "failed" if report.when == "call" else "error"
            entry["error"] = first_line(report)
        elif hasattr(report, "wasxfail"):
            entry["outcome"] = "xfailed" if report.skipped else "xpassed"
        elif report.skipped:
            entry["outcome"] = "skipped"

    def pytest_runtest_logfinish(self) -> None:
        self.write({**self.entry, "graphs": self.engine.graphs})
        self.limit(EXIT_LIMIT)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.write({"end": int(exitstatus)})
        self.limit(EXIT_LIMIT)


def first_line(report: pytest.CollectReport | pytest.TestReport) -> str:
    """What went wrong, in one line: the exception's own first line if pytest kept it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash else report.longrepr).strip().splitlines() or [""]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (errors or lines)[0][:300]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite-plan", help="a JSON file with the fields of plugin.Plan")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Patch dask before its conftest, which imports dask.dataframe, is loaded."""
    path = early_config.known_args_namespace.suite_plan
    if path is None:
        return
    plan = Plan(**json.loads(Path(path).read_text("utf-8")))
    plan = plan._replace(only=None if plan.only is None else set(plan.only), done=set(plan.done))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new = load(plan.target) if plan.target else None
        engine = Engine()
    if new is not None:
        replace_gets(new)
    early_config.pluginmanager.register(Recorder(plan, engine), "suite-recorder")
