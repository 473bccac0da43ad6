"""Imports go down the floors of the house, never up. `docs/design.md` says what the floors are for.

Inside a folder imports are relative, everywhere else they name the whole path.

A new module or a new room belongs in ``FLOORS`` below, in the place that says what it may import.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from package_source import ROOT, Module, parse, read_package


class Floor(NamedTuple):
    """Rooms in the order in which they may import each other: a room may import those before it."""

    name: str
    rooms: tuple[str, ...]
    third_party: frozenset[str] = frozenset()


# A room is a module, or a folder with all that is in it. A folder's `__init__` runs whenever anything in the folder is
# imported, so those of `comm` and `worker` stand on the lowest floor that their folders reach.
FLOORS = (
    Floor(
        "0 words",
        (
            "errors",
            "core.each",
            "core.quantities",
            "core.capacity",
            "core.types",
            "core.graph_task",
            "core.rules",
            "core.annotations",
            "core.evidence",
            "core.makers",
            "core.events",
            "core.commands",
        ),
    ),
    Floor(
        "1 mind",
        (
            "core.needs",
            "core.gpu",
            "core.steering",
            "core.links",
            "core.remembered",
            "core.phases",
            "core.stories",
            "core.prefixes",
            "core.records",
            "core.state",
            "core.check",
            "core.kinds",
            "core.shares",
            "core.costs",
            "core.order",
            "core.pools",
            "core.placement",
            "core.graphs",
            "core.holding",
            "core.recovery",
            "core.wishes",
            "core.patience",
            "core.orders",
            "core.run_ahead",
            "core.dispatch",
            "core.results",
            "core.claims",
            "core.outbox",
            "core.retiring",
            "core.jobs",
            "core.plugins",
            "core.replicas",
            "core.clients",
            "core.flips",
            "core.forgetting",
            "core.failing",
            "core.verdicts",
            "core.explain",
            "core.scheduler",
            "core.__init__",
        ),
    ),
    Floor(
        "2 dialects",
        (
            "comm.__init__",
            "comm.handshake",
            "comm.packets",
            "comm.messages",
            "comm.schema",
            "comm.wire",
            "comm.digests",
            "comm.columns",
            "comm.payloads",
            "worker.__init__",
            "worker.thresholds",
            "worker.transfers",
            "worker.instructions",
            "worker.jobs",
            "worker.homes",
            "worker.batching",
            "worker.fetching",
            "worker.letting_go",
            "worker.lanes",
            "worker.admission",
            "worker.slots",
            "worker.abandoned",
            "worker.state",
            "worker.check",
        ),
        frozenset({"msgpack"}),
    ),
    Floor(
        "3 hands",
        (
            "gpu",
            "comm.to_host",
            "comm.arrays",
            "comm.pickling",
            "comm.serialize",
            "comm.functions",
            "comm.remote_errors",
            "comm.compress",
            "comm.introduction",
            "comm.scheduler_file",
            "comm.silence",
            "comm.auth",
            "comm.transports",
            "comm.reader",
            "comm.greeting",
            "comm.channel",
            "worker.memory",
            "worker.device_memory",
            "worker.usage",
            "worker.spill_folders",
            "worker.spill_files",
            "worker.spilling",
            "worker.store",
            "worker.collector",
            "worker.context",
            "worker.child",
            "worker.current",
            "worker.inside",
            "worker.plan",
            "worker.sizes",
            "worker.packing",
            "worker.child_main",
            "worker.supervised",
            "worker.running",
            "worker.executors",
            "worker.engine",
            "worker.shipped",
            "worker.standing",
            "worker.peers",
        ),
        frozenset({"cloudpickle", "lz4", "msgpack", "numpy", "psutil", "tblib", "trio", "zict"}),
    ),
    Floor("4 shells", ("server", "worker.process", "embedded"), frozenset({"msgpack", "psutil", "trio"})),
    Floor(
        "5 doors",
        (
            "config",
            "provenance",
            "annotations",
            "pool_links",
            "annotated_callable",
            "graph",
            "detection",
            "annotating",
            "report",
            "callbacks",
            "outcome",
            "client",
            "watch",
            "plugins",
            "computing",
            "pools",
            "explaining",
            "cli",
            "local_cluster",
            "dashboard",
            "bridges",
            "compiled",
            "__init__",
        ),
        frozenset({"trio"}),
    ),
)
# What single rooms may import beside what their floor may.
THIRD_PARTY = {
    "comm.compress": {"zstandard"},
    "graph": {"dask", "cloudpickle", "numpy", "toolz"},
    "annotating": {"dask"},
    "annotated_callable": {"dask"},
    "computing": {"dask"},
    "pools": {"dask", "graphviz"},
    "callbacks": {"dask"},
    "plugins": {"dask"},
    "config": {"dask", "yaml"},
    "client": {"dask", "msgpack"},
    "cli": {"click", "rich"},
    "sims": {"click", "matplotlib", "numpy", "rich", "scipy"},
    "dashboard": {"bokeh", "hypercorn", "starlette"},
    "bridges": {"dask", "distributed", "ray"},
}
# Slow to load or there on some machines only: imported by those who need them, when they need them.
LAZY = frozenset({"cudf", "cupy", "cuda", "numba", "pandas", "pyarrow", "pynvml", "rmm", "torch"})
LAZY_FLOORS = frozenset({"3 hands", "5 doors"})

# The simulator stands beside the house: it may look into floors 0-2 and take workloads from `graph`.
WING = "sims"
WING_SEES = frozenset({"0 words", "1 mind", "2 dialects"})
WING_ROOMS = frozenset({"graph", "sims"})
WING_MODULES = frozenset({"server.recording"})  # it reads what live schedulers have recorded
SEES_WING = frozenset({"cli", "sims"})

# The deciding code gets its time and its chance handed in, and touches no system, thread or pickle.
BELOW_HANDS = frozenset({"0 words", "1 mind", "2 dialects"})
NOT_BELOW_HANDS = frozenset(
    {
        "asyncio",
        "datetime",
        "logging",
        "os",
        "pickle",
        "random",
        "secrets",
        "selectors",
        "socket",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "uuid",
    }
)


class Place(NamedTuple):
    """Where a module stands: the floor's index and the room's index on that floor."""

    floor: int
    order: int
    room: str


class Import(NamedTuple):
    """One imported module. ``target`` is relative to the package for our own modules."""

    line: int
    target: str
    ours: bool
    level: int
    in_function: bool


def place(name: str) -> Place | None:
    """The most exact entry of ``FLOORS`` for a module, or None where there is none. The wing stands above all."""
    found = None
    rooms = [(f, r, room) for f, floor in enumerate(FLOORS) for r, room in enumerate(floor.rooms)]
    for floor, order, room in [*rooms, (len(FLOORS), 0, WING)]:
        exact = name == room or name == f"{room}.__init__"
        if (exact or name.startswith(f"{room}.")) and (found is None or len(room) > len(found.room)):
            found = Place(floor, order, room)
    return found


def imports(module: Module, known: frozenset[str]) -> Iterator[Import]:
    """What a module imports, anywhere in it: at the top, in functions, and for type checkers alone."""
    inner = {
        child
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(node)
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _import(node, alias.name, 0, node in inner, known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = ["hetsched", *module.name.split(".")][: -node.level]
                base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                is_module = _own(full) in known or f"{_own(full)}.__init__" in known
                yield _import(node, full if is_module else base, node.level, node in inner, known)


def _own(dotted: str) -> str:
    return dotted.removeprefix("hetsched").removeprefix(".") if dotted.split(".")[0] == "hetsched" else "?"


def _import(node: ast.stmt, dotted: str, level: int, in_function: bool, known: frozenset[str]) -> Import:
    ours = dotted.split(".")[0] == "hetsched"
    target = _own(dotted) if ours else dotted
    if ours and target not in known:
        target = f"{target}.__init__".lstrip(".")
    return Import(node.lineno, target, ours, level, in_function)


def violations(modules: list[Module]) -> list[str]:
    """Every breach of the rules, as sentences."""
    known = frozenset(module.name for module in modules)
    found = []
    for module in modules:
        here = place(module.name)
        if here is None:
            found.append(
                f"{module.name}: no floor. Add its room to FLOORS in tests/test_floors.py, after the rooms it imports"
            )
            continue
        for imp in imports(module, known):
            problem = _own_problem(module, here, imp) if imp.ours else _foreign_problem(here, imp)
            if problem:
                found.append(f"{module.name}, line {imp.line}: {problem}")
    return list(dict.fromkeys(found))


def _floor_name(at: Place) -> str:
    return "wing" if at.room == WING else FLOORS[at.floor].name


def _own_problem(module: Module, here: Place, imp: Import) -> str | None:
    there = place(imp.target)
    if there is None:
        return f"imports {imp.target}, which has no floor in tests/test_floors.py"
    seen = _floor_name(there) in WING_SEES or there.room in WING_ROOMS or imp.target in WING_MODULES
    if here.room == WING and not seen:
        return f"the simulator may not import {imp.target}"
    if here.room != WING and there.room == WING:
        return None if here.room in SEES_WING else f"only {sorted(SEES_WING)} may know {imp.target}"
    if (here.floor, here.order) < (there.floor, there.order):
        return f"imports up: {imp.target} ({_floor_name(there)}) is above {here.room} ({_floor_name(here)})"
    inside = module.folder != "" and imp.target.startswith(f"{module.folder}.")
    if inside and imp.level != 1:
        return f"imports {imp.target} of its own folder by its full name: write a relative import"
    if imp.level and not inside:
        return f"imports {imp.target} relatively from outside its folder: write hetsched.{imp.target}"
    return None


def _foreign_problem(here: Place, imp: Import) -> str | None:
    floor, name = _floor_name(here), imp.target.split(".")[0]
    if name in sys.stdlib_module_names:
        bad = floor in BELOW_HANDS and name in NOT_BELOW_HANDS
        return f"{name} is not for floor {floor!r}: hand its results in" if bad else None
    if name in LAZY and floor in LAZY_FLOORS:
        return None if imp.in_function else f"imports {name} at its top: do it where it is needed"
    allowed = THIRD_PARTY.get(here.room, set()) | (FLOORS[here.floor].third_party if here.room != WING else set())
    return None if name in allowed else f"{name} is not among what {here.room} on floor {floor!r} may import"


def rings(modules: list[Module]) -> list[str]:
    """Modules that import each other in a ring, counting what runs when they are loaded."""
    known = frozenset(module.name for module in modules)
    edges = {
        m.name: sorted({i.target for i in imports(m, known) if i.ours and not i.in_function} & known - {m.name})
        for m in modules
    }
    found, done = [], set()

    def visit(name: str, trail: list[str]) -> None:
        if name in trail:
            found.append(" -> ".join([*trail[trail.index(name) :], name]))
        elif name not in done:
            for target in edges[name]:
                visit(target, [*trail, name])
            done.add(name)

    for name in sorted(edges):
        visit(name, [])
    return found


def test_the_house_keeps_its_floors():
    found = violations(read_package())
    assert not found, "\n".join(found)


def test_no_module_imports_itself_in_a_ring():
    found = rings(read_package())
    assert not found, "\n".join(found)


# A package of which only the names matter.
NAMES = """
    __init__ cli embedded errors graph.__init__ graph.fuse graph.read sims.__init__ sims.links
    core.__init__ core.types core.events core.state core.costs core.scheduler
    core.placement.__init__ core.placement.base core.placement.random
    worker.__init__ worker.state worker.executors.__init__
"""
EMPTY = [parse(name, "") for name in NAMES.split()]


def found_in(name: str, text: str) -> list[str]:
    """The breaches of a made-up module among empty ones."""
    return violations([*(m for m in EMPTY if m.name != name), parse(name, text)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core.state", "from .types import Key\nfrom hetsched.errors import CycleError"),
        ("core.state", "from . import types"),
        ("core.scheduler", "from .placement import Random\nfrom .placement.base import Policy"),
        ("core.placement.random", "from .base import Policy\nfrom hetsched.core.state import TaskState"),
        ("core.placement.__init__", "from .random import Random"),
        ("embedded", "import os, threading, time\nimport trio\nfrom hetsched import errors"),
        ("graph.fuse", "import dask\nfrom .read import read\nfrom . import read"),
        ("cli", "def f():\n    from hetsched.sims import links"),
        ("sims.links", "import random\nfrom hetsched.graph import read\nfrom hetsched.worker.state import x"),
        ("worker.executors.__init__", "def f():\n    import cupy"),
        ("worker.state", "import msgpack"),
    ],
)
def test_made_up_imports_that_are_right(name, text):
    assert found_in(name, text) == []


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("core.types", "from .state import TaskState", "imports up: core.state"),
        ("core.state", "from .costs import Costs", "imports up: core.costs"),
        ("core.state", "from hetsched.core import costs", "imports up: core.costs"),
        ("core.state", "import hetsched.core.scheduler as s", "imports up: core.scheduler"),
        ("core.state", "from hetsched import get", "imports up: __init__"),
        ("core.state", "def f():\n    from hetsched.embedded import run", "imports up: embedded"),
        ("core.state", "if TYPE_CHECKING:\n    from hetsched.embedded import run", "imports up: embedded"),
        ("core.costs", "from . import scheduler", "imports up: core.scheduler"),
        ("core.state", "from hetsched.core.types import Key", "write a relative import"),
        ("core.state", "from ..errors import CycleError", "from outside its folder: write hetsched.errors"),
        ("core.placement.random", "from ..state import TaskState", "from outside its folder"),
        ("cli", "from . import embedded", "from outside its folder: write hetsched.embedded"),
        ("core.placement.random", "from hetsched.core.placement.base import Policy", "write a relative import"),
        ("core.scheduler", "import time", "time is not for floor '1 mind'"),
        ("worker.state", "from os import environ", "os is not for floor '2 dialects'"),
        ("core.scheduler", "import msgpack", "msgpack is not among"),
        ("embedded", "import numpy", "numpy is not among"),
        ("embedded", "import dask.base", "dask is not among"),
        ("worker.executors.__init__", "import cupy", "imports cupy at its top"),
        ("core.state", "import hetsched.sims", "may know sims.__init__"),
        ("sims.links", "import hetsched.embedded", "the simulator may not import embedded"),
        ("attic.trunk", "", "attic.trunk: no floor. Add its room to FLOORS in tests/test_floors.py"),
    ],
)
def test_made_up_imports_that_are_wrong(name, text, says):
    (sentence,) = found_in(name, text)
    assert says in sentence


def test_a_made_up_ring_is_found():
    ring = [parse("graph.read", "from . import fuse"), parse("graph.fuse", "from .read import read")]
    assert rings([*(m for m in EMPTY if m.name not in {"graph.read", "graph.fuse"}), *ring]) == [
        "graph.fuse -> graph.read -> graph.fuse"
    ]


def test_the_design_page_shows_the_rooms_that_are_there():
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    rooms = {at.room for module in read_package() if (at := place(module.name))}
    shown = {room.replace(".", "/") for room in rooms if not room.endswith("__init__")}
    missing = sorted(name for name in shown if f"`{name}`" not in page)
    assert not missing, f"docs/design.md, Floors: {missing} are not in the table"


def test_every_floor_has_rooms_and_no_room_stands_twice():
    rooms = [room for floor in FLOORS for room in floor.rooms]
    assert len(rooms) == len(set(rooms))
    assert set(THIRD_PARTY) <= {*rooms, WING}
