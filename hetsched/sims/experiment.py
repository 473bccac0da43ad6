"""Experiments: a question, and the scenarios that answer it, as a TOML file that ``docs/sims.md`` describes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_type_hints

from hetsched.core.links import Link, PoolPair
from hetsched.errors import HetschedError

from .detection import Detection
from .expectation import Expectation
from .faults.plan import Fault
from .measures import MEASURES
from .model import Machine, Noise, ServerCost, Submission, Workload
from .network.spec import NetworkSpec, Wire
from .scenario import Scenario
from .tables import a_table, checked, made, tables
from .workloads import SOURCES

__all__ = ["Experiment", "read_experiment"]

_HEAD: Final[Mapping[str, Any]] = {
    "name": str, "question": str, "notes": str, "policies": Sequence[str], "measures": Sequence[str], "seeds": int,
}  # fmt: skip
_PLAIN: Final = (
    "knowledge", "delay", "jitter", "overhead", "silence", "leaving", "restart", "allowed_losses", "seconds_per_price",
)  # fmt: skip
_TABLES: Final = (
    "workload", "machines", "network", "links", "server", "noise", "detection", "faults", "variants", "expect",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Experiment:
    """Scenarios by the name of their variant, each to be run with each of some policies and seeds."""

    name: str
    question: str
    policies: Sequence[str]
    seeds: int
    variants: Mapping[str, Scenario]
    expectations: Sequence[Expectation] = ()
    shown: Sequence[str] = ()
    """The measures that matter here."""
    notes: str = ""

    def cells(self) -> list[tuple[str, Scenario]]:
        """A name and a scenario for each variant and policy: what differs is in the name."""
        found = []
        for variant, scenario in self.variants.items():
            for policy in self.policies:
                parts = [variant] * (len(self.variants) > 1) + [policy] * (len(self.policies) > 1)
                found.append((" / ".join(parts) or policy, replace(scenario, policy=policy)))
        return found


def read_experiment(path: str | Path) -> Experiment:
    """Read a file. Paths in it are from its own folder.

    Raises HetschedError for one that says what is unknown or not right, OSError where it cannot be read itself.
    """
    path = Path(path)
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise HetschedError(f"{path}: {error}") from error
    try:
        return _experiment(path, said)
    except KeyError as error:
        raise HetschedError(f"{path}: {error} is missing") from error
    except (HetschedError, OSError, TypeError, ValueError) as error:
        raise HetschedError(f"{path}: {error}") from error


def _experiment(path: Path, said: dict[str, Any]) -> Experiment:
    head = {word: checked(word, said.pop(word), kind) for word, kind in _HEAD.items() if word in said}
    name, seeds = head.get("name", path.stem), head.get("seeds", 1)
    policies = head.get("policies", ["earliest_finish"])
    shown = head.get("measures", ["makespan", "ratio", "transferred"])
    if seeds < 1 or not policies or not shown:
        raise HetschedError("there is nothing to run or to show: seeds, policies and measures are one at least")
    expectations = [made("[[expect]]", Expectation, t, True) for t in tables("[[expect]]", said.pop("expect", []))]
    for measure in (*shown, *(e.measure for e in expectations)):
        if measure not in MEASURES:
            raise HetschedError(f"there is no measure {measure!r}; there are {', '.join(MEASURES)}")
    variants: dict[str, Scenario] = {}
    for table in tables("[[variants]]", said.pop("variants", [{"name": name}])):
        variant = table.pop("name", None)
        if variant is None or variant in variants:
            raise HetschedError(f"each of [[variants]] needs a name of its own; one has {variant!r}")
        variants[variant] = _scenario(path.parent, _merged(said, table))
    notes, question = head.get("notes", ""), head.get("question", "")
    found = Experiment(name, question, policies, seeds, variants, expectations, shown, notes)
    cells = [cell for cell, _ in found.cells()]
    for expectation in expectations:
        if expectation.at_most is None and expectation.at_least is None:
            raise HetschedError(f"[[expect]] {expectation.claim!r} lacks 'at_most' or 'at_least': it says nothing")
        for cell in (expectation.of, expectation.to):
            if cell and cell not in cells:
                raise HetschedError(f"nothing is called {cell!r} here; there are {', '.join(map(repr, cells))}")
    return found


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables merge; everything else is replaced."""
    found = dict(below)
    for word, value in above.items():
        there = found.get(word)
        found[word] = _merged(there, value) if isinstance(there, dict) and isinstance(value, dict) else value
    return found


def _scenario(folder: Path, said: dict[str, Any]) -> Scenario:
    said = dict(said)
    for word, what in (("workload", 'source = "tree"'), ("machines", "count = 8")):
        if word not in said:
            raise HetschedError(f"[{word}] is missing; write such a table, with {what} in it")
    submissions = [_submission(folder, table) for table in tables("[workload]", said.pop("workload"))]
    machines = _machines(tables("[[machines]]", said.pop("machines")))
    network = _network(a_table("[network]", said.pop("network", {})))
    links = _links(tables("[[links]]", said.pop("links", [])))
    server = made("[server]", ServerCost, said.pop("server", {}))
    noise = made("[noise]", Noise, said.pop("noise", {}))
    detection = made("[detection]", Detection, said.pop("detection", {}))
    faults = [made("[[faults]]", Fault, table) for table in tables("[[faults]]", said.pop("faults", []))]
    types = get_type_hints(Scenario)
    words = {word: checked(word, said.pop(word), types[word]) for word in _PLAIN if word in said}
    if said:
        known = ", ".join(sorted((*_HEAD, *_PLAIN, *_TABLES)))
        raise HetschedError(f"an experiment has no {', '.join(sorted(said))}; it has {known}")
    names = [machine.name for machine in machines]
    for fault in faults:
        if fault.worker not in names:
            raise HetschedError(f"[[faults]] has one of {fault.worker!r}, and there is no such machine")
        if fault.kind == "slow" and not fault.amount:
            raise HetschedError("[[faults]] has a link with amount = 0 of its bandwidth; write more, or cut it")
    return Scenario(
        submissions, machines, network=network, server=server, noise=noise, detection=detection, faults=faults,
        links=links, **words,
    )  # fmt: skip


def _links(described: Sequence[dict[str, Any]]) -> dict[PoolPair, Link]:
    """What the scheduler is told of links between pools, which have no direction."""
    found: dict[PoolPair, Link] = {}
    for table in described:
        a, b = _named("[[links]]", table, "from"), _named("[[links]]", table, "to")
        found[a, b] = link = made("[[links]]", Link, table)
        if link.bandwidth == 0:
            raise HetschedError("bandwidth in [[links]] is 0; write bytes per second, or leave it out")
    return found


def _submission(folder: Path, table: dict[str, Any]) -> Submission:
    words = {word: table.pop(word) for word in ("at", "ordered", "urgency", "cancelled") if word in table}
    source = table.pop("source", None)
    if source not in SOURCES:
        raise HetschedError(f"there is no workload {source!r}; there are {', '.join(sorted(SOURCES))}")
    if isinstance(table.get("path"), str):
        table["path"] = folder / table["path"]
    workload: Workload = made(f"[workload] with source = {source!r}", SOURCES[source], table)
    found: Submission = made("[workload]", Submission, words, workload=workload)
    return found


def _machines(described: Sequence[dict[str, Any]]) -> list[Machine]:
    """``count`` machines of each table that are alike, their names numbered: those without a name from w0 on."""
    found: list[Machine] = []
    for table in described:
        count = checked("count in [[machines]]", table.pop("count", 1), int)
        name = table.pop("name", None)
        first = len(found) if name is None else 0
        checked("name in [[machines]]", name or "w", str)
        names = [name] if name and count == 1 else [f"{name or 'w'}{first + n}" for n in range(count)]
        found += [made("[[machines]]", Machine, table, name=each) for each in names]
    if not found:
        raise HetschedError("[[machines]] has none; write count = 1 or more")
    if any(not machine.speed for machine in found):
        raise HetschedError("speed in [[machines]] is 0; write how many times as fast as others a machine is")
    return found


def _network(table: dict[str, Any]) -> NetworkSpec:
    between = {}
    for wire in tables("[[network.between]]", table.pop("between", [])):
        pools = _named("[[network.between]]", wire, "from"), _named("[[network.between]]", wire, "to")
        between[pools] = made("[[network.between]]", Wire, wire)
    uplinks = {}
    for wire in tables("[[network.uplinks]]", table.pop("uplinks", [])):
        pool = _named("[[network.uplinks]]", wire, "pool")
        uplinks[pool] = made("[[network.uplinks]]", Wire, wire)
    found: NetworkSpec = made("[network]", NetworkSpec, table, between=between, uplinks=uplinks)
    for limit in ("downloads", "downloads_per_source"):
        if getattr(found, limit) == 0:
            raise HetschedError(f"{limit} in [network] is 0, so that nothing would ever move; write 1 or more")
    return found


def _named(what: str, table: dict[str, Any], word: str) -> str:
    """Take the name of a pool out of a table."""
    if word not in table:
        raise HetschedError(f"{what} lacks {word!r}; write the name of a pool")
    found: str = checked(f"{word} in {what}", table.pop(word), str)
    return found
