"""What a client may ask a scheduler about: answers for people and programs, made of what the mind knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from hetsched.core.annotations import WHOLE_LIMIT
from hetsched.core.costs import measured_sizes
from hetsched.core.explain import explain, find
from hetsched.core.state import State, TaskState
from hetsched.core.verdicts import cases_of, rows
from hetsched.errors import ProtocolError

from .links import Link, WorkerLink

__all__ = ["answer"]

_MOST_ALIKE = 5


def answer(
    question: str, about: Any, client: str, state: State, links: Sequence[Link], facts: Mapping[str, Any]
) -> Any:
    """Answer a question. Raises ProtocolError for one that is not known or not well put."""
    match question, about:
        case "info", None:
            return {**facts, **_info(state, links)}
        case "who_has", (int(number), tuple(positions)):
            return {p: [w.id for w in ts.who_has] for p, ts in _tasks(state, client, number, positions)}
        case "explain", (int(number), int(position)):
            for _, ts in _tasks(state, client, number, [position]):
                return explain(state, ts)
            raise ProtocolError(f"there is no task {position} in the graph {number}: it was released, or never came")
        case "gpu", None:
            return rows(cases_of(state))
        case "find", key:
            found = find(state, key, client)
            if not found:
                why = f"it was released, or never came{_like(state, key)}"
                raise ProtocolError(f"there is no task {key!r:.200} now: {why}")
            return [explain(state, ts) for ts in found]
        case "sizes", tuple(prefixes):
            return measured_sizes(state, [name for name in prefixes if isinstance(name, str)])
        case "phases", int(number):
            graph = state.graphs.get((client, number))
            return bytes([ts.phase for ts in graph.tasks]) if graph is not None else b""
        case _:
            raise ProtocolError(f"a question {question!r} about {about!r:.80} cannot be answered")


def _tasks(state: State, client: str, number: int, positions: Sequence[Any]) -> list[tuple[int, TaskState]]:
    graph = state.graphs.get((client, number))
    if graph is None:
        return []
    return [(p, graph.tasks[p]) for p in positions if type(p) is int and 0 <= p < len(graph.tasks)]


def _like(state: State, key: Any) -> str:
    """A few keys that somebody may have meant."""
    if not isinstance(key, str) or not key:
        return ""
    tasks = state.tasks.values()
    alike = list(islice((str(ts.key) for ts in tasks if key in (ts.prefix.name, str(ts.key)[: len(key)])), _MOST_ALIKE))
    return f"; there is {', '.join(alike)}" if alike else ""


def _info(state: State, links: Sequence[Link]) -> dict[str, Any]:
    workers: dict[str, Any] = {}
    clients: dict[str, Any] = {}
    for link in links:
        about = {
            "address": link.channel.peername,
            "python": ".".join(map(str, link.channel.peer.python)),
            "devices": {kind: link.channel.peer.device_counts.get(kind) for kind in link.channel.peer.devices},
            "terms": dict(link.channel.terms._asdict()),
            "bytes_in": link.channel.bytes_in,
            "bytes_out": link.channel.bytes_out,
        }
        if isinstance(link, WorkerLink):
            ws = state.workers.get(link.name)
            if ws is None:
                continue
            about |= {
                "address": link.address,
                "executors": dict(ws.capacity.executors),
                "resources": dict(ws.capacity.resources),
                "pool": ws.capacity.pool,
                "leaving": ws.copying is not None,
                "held": ws.held,
                "nbytes": min(ws.nbytes, WHOLE_LIMIT),  # a worker may have said anything
                "assigned": dict(ws.assigned),
                "facts": dict(link.facts),
            }
            workers[link.name] = about
        else:
            clients[link.name] = about
    return {"workers": workers, "clients": clients, "tasks": len(state.tasks), "graphs": len(state.graphs),
            "links": state.links.described()}  # fmt: skip
