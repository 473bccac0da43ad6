"""Why a task is where it is: its phase, its story, what it demands and who could meet it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .needs import Needs
from .state import LIVE, Phase, State, TaskState
from .types import Capacity, WorkerId
from .verdicts import tell, verdict_on

__all__ = ["MOST_FOUND", "evidence_of", "explain", "find", "what_there_is"]

MOST_FOUND: Final = 10
"""The most tasks of one key that are told of."""

_MOST_INPUTS: Final = 10
_MOST_EVIDENCE: Final = 5


def find(state: State, key: Any, first: str | None = None) -> list[TaskState]:
    """The tasks of this key, or whose key looks like this text, newest first and those of the client ``first`` before
    all others; :data:`MOST_FOUND` at most. Every task is looked at.
    """
    text = key if isinstance(key, str) else None
    found = [ts for ts in state.tasks.values() if ts.key == key or (text is not None and str(ts.key) == text)]
    found.sort(key=lambda ts: (ts.graph.client != first, -ts.id))
    return found[:MOST_FOUND]


def explain(state: State, ts: TaskState) -> dict[str, Any]:
    """Describe a task for a person: plain values, and under ``text`` all of it in words."""
    workers = state.capacities()
    needs = _needs(state, ts)
    met = needs.met(workers)
    del met["together"]
    inputs = [
        {"key": _name(d), "phase": d.phase.name, "on": [w.id for w in d.who_has], "nbytes": d.nbytes}
        for d in ts.dependencies
    ]
    found: dict[str, Any] = {
        "key": _name(ts),
        "phase": ts.phase.name,
        "prefix": ts.prefix.name,
        "executor": ts.executor,
        "evidence": [list(piece) for piece in evidence_of(ts)],
        "annotations": {str(name): str(value) for name, value in ts.annotations.items()},
        "story": [[now, phase.name, cause] for now, phase, cause in ts.story],
        "restrictions": {word: [count, len(workers)] for word, count in met.items()} if workers else {},
        "workers": [name for name, capacity in workers.items() if needs.met_by(name, capacity)],
        "processing_on": ts.processing_on.id if ts.processing_on is not None else None,
        "who_has": [w.id for w in ts.who_has],
        "inputs": inputs,
        "attempts": ts.attempt + 1,
        "gpu": verdict_on(state, ts),
    }
    found["text"] = _tell(ts, needs, workers, found)
    return found


def evidence_of(ts: TaskState) -> list[tuple[str, str]]:
    """Why a task is on its executor: kinds of evidence, each with the detail, the strongest first."""
    said = ts.annotations
    words = [f"{name}={said[name]!r}" for name in ("executor", "gpu") if name in said]
    resources = said.get("resources")
    if isinstance(resources, Mapping) and resources.get("GPU"):
        words.append(f"resources GPU={resources['GPU']:g}")
    if words:
        return [("annotation", word) for word in words]
    case = ts.prefix.case
    seen = case.evidence()[:_MOST_EVIDENCE] if case is not None else []
    return [(kind, detail) for kind, _, detail, _ in seen] or [("default", "nothing says otherwise")]


def what_there_is(workers: Mapping[WorkerId, Capacity]) -> str:
    """In a few words, what the workers together have that a task may demand."""
    if not workers:
        return "there are no workers"
    capacities = workers.values()
    executors = sorted({name for c in capacities for name, slots in c.executors.items() if slots})
    parts = ["executors " + ", ".join(executors)] if executors else ["no executor that takes tasks now"]
    names = sorted({name for c in capacities for name in c.resources})
    most = [f"{name}={max(c.resources.get(name, 0.0) for c in capacities):g}" for name in names]
    parts.append("of resources at most " + ", ".join(most) + " on a worker" if most else "no resources")
    pools = sorted({c.pool for c in capacities if c.pool is not None})
    parts.append("pools " + ", ".join(pools) if pools else "no pools")
    return "the cluster has " + "; ".join(parts)


def _needs(state: State, ts: TaskState) -> Needs:
    """What it demands, plugins asked where that is still to come."""
    if ts.phase is Phase.WAITING and state.steering is not None and state.steering.narrows:
        return state.steering.narrow(ts)
    return ts.needs


def _tell(ts: TaskState, needs: Needs, workers: Mapping[WorkerId, Capacity], found: dict[str, Any]) -> str:
    lines = [f"{found['key']}: {_phase(ts, found)}"]
    if ts.phase in LIVE:
        lines.append(f"  who could run it: {needs.why_nobody(workers)}")
        if workers and not found["workers"]:
            lines.append(f"  {what_there_is(workers)}")
    lines.extend(f"  executor {ts.executor!r}: {detail} ({kind})" for kind, detail in found["evidence"])
    if ts.provenance:
        lines.append(f"  built at {ts.provenance}")
    lines.extend(tell(found["gpu"]))
    waits = [i for i in found["inputs"] if i["phase"] not in ("MEMORY", "RELEASED")]
    there = [i for i in found["inputs"] if i["phase"] == "MEMORY"]
    lines.extend(f"  waits for {i['key']} ({i['phase']})" for i in waits[:_MOST_INPUTS])
    if len(waits) > _MOST_INPUTS:
        lines.append(f"  and for {len(waits) - _MOST_INPUTS} more")
    lines.extend(f"  input {i['key']}: {i['nbytes']} bytes on {', '.join(i['on'])}" for i in there[:_MOST_INPUTS])
    if len(there) > _MOST_INPUTS:
        lines.append(f"  and {len(there) - _MOST_INPUTS} more that are there")
    lines.extend(f"  {now:.6f} {phase} ({cause})" for now, phase, cause in found["story"])
    return "\n".join(lines)


def _phase(ts: TaskState, found: dict[str, Any]) -> str:
    match ts.phase:
        case Phase.ASSIGNED:
            ahead = f", ahead of {ts.waiting_on} of its inputs" if ts.waiting_on else ""
            return f"ASSIGNED to {found['processing_on']} for the executor {ts.executor!r}{ahead}"
        case Phase.MEMORY:
            return f"MEMORY, {ts.nbytes} bytes on {', '.join(found['who_has'])}"
        case Phase.READY if not found["workers"]:
            return f"READY, and no worker can run it on the executor {ts.executor!r}"
        case Phase.READY:
            return "READY, and waits for a worker that has room"
        case Phase.WAITING:
            return f"WAITING for {ts.waiting_on} of its inputs"
        case _:
            return ts.phase.name


def _name(ts: TaskState) -> str:
    return str(ts.key)
