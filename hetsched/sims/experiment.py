"""Experiments: a question, and the scenarios that answer it, as a TOML file. ``docs/sims.md`` describes the file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hetsched.errors import HetschedError

from .faults.plan import Fault
from .model import Machine, Noise, ServerCost, Submission, Workload
from .network.spec import NetworkSpec, Wire
from .scenario import Scenario
from .workloads import SOURCES

__all__ = ["Experiment", "read_experiment"]

_PLAIN = ("knowledge", "delay", "jitter", "overhead", "silence", "leaving", "allowed_losses")


@dataclass(frozen=True, slots=True)
class Experiment:
    """A scenario to be run with each of some policies and seeds. ``extra`` is whatever else the file says."""

    name: str
    question: str
    policies: Sequence[str]
    seeds: int
    scenario: Scenario
    extra: Mapping[str, Any]

    def scenarios(self) -> list[Scenario]:
        """One scenario for each policy and seed."""
        return [replace(self.scenario, policy=p, seed=seed) for p in self.policies for seed in range(self.seeds)]


def read_experiment(path: str | Path) -> Experiment:
    """Read a file.

    Raises HetschedError for one that says what is unknown or not right, OSError where it cannot be read.
    """
    path = Path(path)
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise HetschedError(f"{path}: {error}") from error
    try:
        return _experiment(path.stem, said)
    except (HetschedError, KeyError, TypeError, ValueError) as error:
        raise HetschedError(f"{path}: {error}") from error


def _experiment(name: str, said: dict[str, Any]) -> Experiment:
    submissions = [_submission(table) for table in _tables(said.pop("workload"))]
    machines = [machine for table in _tables(said.pop("machines")) for machine in _machines(table)]
    scenario = Scenario(
        submissions,
        machines,
        network=_network(said.pop("network", {})),
        server=_made(ServerCost, said.pop("server", {})),
        noise=_made(Noise, said.pop("noise", {})),
        faults=[Fault(**table) for table in said.pop("faults", [])],
        **{word: said.pop(word) for word in _PLAIN if word in said},
    )
    name, question = said.pop("name", name), said.pop("question", "")
    policies = said.pop("policies", ["earliest_finish"])
    return Experiment(name, question, policies, said.pop("seeds", 1), scenario, said)


def _tables(said: Any) -> list[dict[str, Any]]:
    """One table, or several."""
    return [dict(table) for table in said] if isinstance(said, list) else [dict(said)]


def _made(kind: Callable[..., Any], table: Mapping[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(table) - known)
    if unknown:
        raise HetschedError(f"{kind.__name__} has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
    return kind(**table)


def _submission(table: dict[str, Any]) -> Submission:
    at, ordered = table.pop("at", 0.0), table.pop("ordered", False)
    source = table.pop("source")
    if source not in SOURCES:
        raise HetschedError(f"there is no workload {source!r}; there are {', '.join(sorted(SOURCES))}")
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
