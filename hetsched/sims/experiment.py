"""Experiments: a question, and the scenarios that answer it, as a TOML file that ``docs/sims.md`` describes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hetsched.errors import HetschedError

from .expectation import Expectation
from .faults.plan import Fault
from .model import Machine, Noise, ServerCost, Submission, Workload
from .network.spec import NetworkSpec, Wire
from .scenario import Scenario
from .workloads import SOURCES

__all__ = ["Experiment", "read_experiment"]

_PLAIN = ("knowledge", "delay", "jitter", "overhead", "silence", "leaving", "allowed_losses")


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

    Raises HetschedError for one that says what is unknown or not right, OSError where it cannot be read.
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
    except (HetschedError, TypeError, ValueError) as error:
        raise HetschedError(f"{path}: {error}") from error


def _experiment(path: Path, said: dict[str, Any]) -> Experiment:
    name, question, notes = said.pop("name", path.stem), said.pop("question", ""), said.pop("notes", "")
    policies, seeds = said.pop("policies", ["earliest_finish"]), said.pop("seeds", 1)
    shown = said.pop("measures", ["makespan", "ratio", "transferred"])
    expectations = [_made(Expectation, table) for table in said.pop("expect", [])]
    variants = {}
    for table in said.pop("variants", [{"name": name}]):
        table = dict(table)
        variant = table.pop("name")
        variants[variant] = _scenario(path.parent, _merged(said, table))
    found = Experiment(name, question, policies, seeds, variants, expectations, shown, notes)
    cells = [cell for cell, _ in found.cells()]
    for expectation in expectations:
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
    submissions = [_submission(folder, table) for table in _tables(said.pop("workload"))]
    machines = [machine for table in _tables(said.pop("machines")) for machine in _machines(table)]
    words = {word: said.pop(word) for word in _PLAIN if word in said}
    scenario = Scenario(
        submissions,
        machines,
        network=_network(said.pop("network", {})),
        server=_made(ServerCost, said.pop("server", {})),
        noise=_made(Noise, said.pop("noise", {})),
        faults=[Fault(**table) for table in said.pop("faults", [])],
        **words,
    )
    if said:
        raise HetschedError(f"an experiment has no {', '.join(sorted(said))}")
    return scenario


def _tables(said: Any) -> list[dict[str, Any]]:
    """One table, or several."""
    return [dict(table) for table in said] if isinstance(said, list) else [dict(said)]


def _made(kind: Callable[..., Any], table: Mapping[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(table) - known)
    if unknown:
        raise HetschedError(f"{kind.__name__} has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
    return kind(**table)


def _submission(folder: Path, table: dict[str, Any]) -> Submission:
    at, ordered = table.pop("at", 0.0), table.pop("ordered", False)
    source = table.pop("source")
    if source not in SOURCES:
        raise HetschedError(f"there is no workload {source!r}; there are {', '.join(sorted(SOURCES))}")
    if "path" in table:
        table["path"] = folder / table["path"]
    workload: Workload = SOURCES[source](**table)
    return Submission(workload, at, ordered)


def _machines(table: dict[str, Any]) -> list[Machine]:
    """``count`` machines that are alike, their names numbered."""
    count = table.pop("count", 1)
    name = table.pop("name", "w")
    names = [name] if count == 1 and name != "w" else [f"{name}{n}" for n in range(count)]
    return [_made(Machine, {**table, "name": each}) for each in names]


def _network(table: dict[str, Any]) -> NetworkSpec:
    table = dict(table)
    between = {(wire.pop("from"), wire.pop("to")): _made(Wire, wire) for wire in _tables(table.pop("between", []))}
    uplinks = {wire.pop("pool"): _made(Wire, wire) for wire in _tables(table.pop("uplinks", []))}
    found: NetworkSpec = _made(NetworkSpec, {**table, "between": between, "uplinks": uplinks})
    return found
