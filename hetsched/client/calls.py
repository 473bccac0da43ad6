"""What a Client waits for, as async functions: the AsyncClient awaits them, the Client has the loop run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import trio

from hetsched.core.types import Key
from hetsched.core.verdicts import GpuRow
from hetsched.errors import ProtocolError
from hetsched.graph.build import Built

from .futures import BaseFuture
from .joining import fill, futures_in
from .results import Ordered, Waiting
from .sayable import sayable
from .session import Session

__all__ = [
    "DoneAndNotDone", "ReturnWhen", "explain", "gather", "get", "info", "register_plugin", "sizes", "wait", "who_has",
]  # fmt: skip

ReturnWhen = Literal["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION"]
_UNTIL: dict[str, Any] = {"ALL_COMPLETED": "all", "FIRST_COMPLETED": "first", "FIRST_EXCEPTION": "error"}


class DoneAndNotDone(NamedTuple):
    """What :func:`hetsched.wait` gives."""

    done: set[Any]
    not_done: set[Any]


async def get(
    session: Session, built: Built, graph: Ordered | None, known: Mapping[Any, Any] = MappingProxyType({})
) -> dict[Key, Any]:
    """The values of the requested keys of a graph that was submitted (None: it has no tasks).

    ``known`` are results that were fetched already.
    Cancelled, it cancels the graph.
    """
    values = built.values
    held: dict[BaseFuture, None] = {}
    futures_in(values, held)
    results = [*graph.results.values()] if graph is not None else []
    well = False
    try:
        missing = [result for result in results if result not in known]
        found = await session.gather([*missing, *(future._result for future in held)])  # noqa: SLF001
        found = {**known, **found}
        well = True
    finally:
        if graph is not None:
            session.orders.drop(graph, cancel=not well)
    if held:
        values = fill(values, {future: found[future._result] for future in held})  # noqa: SLF001
    if not results:
        return dict(values)
    by_place = {result.position: found[result] for result in results}
    return {**values, **{key: by_place[place] for key, place in built.places.items()}}


async def gather(session: Session, obj: Any, futures: Iterable[BaseFuture], errors: Literal["raise", "skip"]) -> Any:
    """Nested Futures replaced by their values."""
    if errors not in ("raise", "skip"):
        raise ValueError(f"errors is 'raise' or 'skip', not {errors!r}")
    results = {future: future._result for future in futures}  # noqa: SLF001 - of this room
    found = await session.gather(results.values(), skips=errors == "skip")
    if isinstance(obj, BaseFuture):
        return found.get(results[obj])
    return fill(obj, {future: found[result] for future, result in results.items() if result in found})


async def wait(
    futures: Sequence[BaseFuture], timeout: float | None, return_when: ReturnWhen  # noqa: ASYNC109
) -> DoneAndNotDone:
    """Wait until Futures are done; raises TimeoutError."""
    if return_when not in _UNTIL:
        raise ValueError(f"return_when is one of {', '.join(_UNTIL)}, not {return_when!r}")
    with trio.move_on_after(float("inf") if timeout is None else timeout):
        await Waiting([future._result for future in futures], _UNTIL[return_when]).wait()  # noqa: SLF001
        done = {future for future in futures if future.done()}
        return DoneAndNotDone(done, {*futures} - done)
    waiting = sum(not future.done() for future in futures)
    raise TimeoutError(f"{waiting} of {len(futures)} Futures were not done within {timeout:g} s")


async def who_has(session: Session, futures: Iterable[BaseFuture]) -> dict[Key, list[str]]:
    """The workers that hold each result."""
    by_graph: dict[Ordered, list[Any]] = {}
    for future in futures:
        result = future._result  # noqa: SLF001 - of this room
        by_graph.setdefault(result.graph, []).append(result)
    found: dict[Key, list[str]] = {}
    for graph, results in by_graph.items():
        answer: Mapping[int, Sequence[str]] = {}
        if graph.shipped and not graph.over:
            answer = await session.ask("who_has", (graph.number, [result.position for result in results]))
        found.update((result.key, list(answer.get(result.position, ()))) for result in results)
    return found


async def info(session: Session) -> dict[str, Any]:
    """What the scheduler says of itself, its workers and clients."""
    answer: dict[str, Any] = await session.ask("info", None)
    return answer


async def gpu_report(session: Session) -> list[GpuRow]:
    """What the scheduler thinks of the kinds of tasks that may be for the GPU."""
    return [
        GpuRow(*row[:5], tuple(row[5]), *row[6:9], tuple(row[9]))  # type: ignore[call-arg]
        for row in await session.ask("gpu", None)
    ]


async def sizes(session: Session, prefixes: Iterable[str]) -> dict[str, float]:
    """The bytes of one result of these kinds of tasks, of those that the scheduler has seen run."""
    answer: dict[str, float] = await session.ask("sizes", tuple(prefixes))
    return answer


async def register_plugin(session: Session, name: str) -> str:
    """What a plugin is called that the scheduler has loaded by its name."""
    called: str = await session.ask("register_plugin", name)
    return called


async def explain(session: Session, task: BaseFuture | Key) -> dict[str, Any]:
    """What has become of a task, and why. Raises KeyError for a key that is not known."""
    if not isinstance(task, BaseFuture):
        await session.ask("who_has", (0, ()))  # of nothing: it leaves behind what was submitted before
        try:
            found: Sequence[dict[str, Any]] = await session.ask("find", sayable([task])[0])
        except ProtocolError as error:
            raise KeyError(str(error)) from None
        return found[0]
    result = task._result  # noqa: SLF001 - of this room
    if not result.graph.shipped and not result.graph.over:
        await session.ask("who_has", (0, ()))  # of nothing: it leaves behind what was submitted before
    if not result.graph.shipped or result.graph.over:
        why = "the scheduler does not have it" if result.graph.over else "its graph is on its way to the scheduler"
        return {"phase": result.status, "text": f"{result.key!r}: {result.status}; {why}"}
    answer: dict[str, Any] = await session.ask("explain", (result.graph.number, result.position))
    return answer
