"""Why a task is where it is: its phase, its story, what it demands and who could meet it."""

from __future__ import annotations

from typing import Any

from .state import LIVE, Phase, State, TaskState
from .verdicts import tell, verdict_on

__all__ = ["explain"]


def explain(state: State, ts: TaskState) -> dict[str, Any]:
    """Describe a task for a person: plain values, and under ``text`` all of it in words."""
    workers = state.capacities()
    could = [name for name, capacity in workers.items() if ts.needs.met_by(name, capacity)]
    trials = [dict(ts.needs.trial(name, capacity)) for name, capacity in workers.items()]
    words = list(trials[0]) if trials else []
    restrictions = {word: [sum(trial[word] for trial in trials), len(trials)] for word in words}
    inputs = [
        {"key": _name(d), "phase": d.phase.name, "on": [w.id for w in d.who_has], "nbytes": d.nbytes}
        for d in ts.dependencies
    ]
    found: dict[str, Any] = {
        "key": _name(ts),
        "phase": ts.phase.name,
        "prefix": ts.prefix.name,
        "executor": ts.executor,
        "annotations": {str(name): str(value) for name, value in ts.annotations.items()},
        "story": [[now, phase.name, cause] for now, phase, cause in ts.story],
        "restrictions": restrictions,
        "workers": could,
        "processing_on": ts.processing_on.id if ts.processing_on is not None else None,
        "who_has": [w.id for w in ts.who_has],
        "inputs": inputs,
        "attempts": ts.attempt + 1,
        "gpu": verdict_on(state, ts),
    }
    found["text"] = _tell(ts, found)
    return found


def _tell(ts: TaskState, found: dict[str, Any]) -> str:
    lines = [f"{found['key']}: {_phase(ts, found)}"]
    if ts.phase in LIVE:
        for word, (some, of) in found["restrictions"].items():
            lines.append(f"  {word}: {some} of {of} workers")
        together = len(found["workers"])
        lines.append(f"  together: {together or 'none'}" if found["restrictions"] else "  there are no workers")
    lines.extend(tell(found["gpu"]))
    waits = [i for i in found["inputs"] if i["phase"] not in ("MEMORY", "RELEASED")]
    lines.extend(f"  waits for {i['key']} ({i['phase']})" for i in waits[:10])
    if len(waits) > 10:
        lines.append(f"  and for {len(waits) - 10} more")
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
