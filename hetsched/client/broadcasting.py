"""Copies of results on several workers: each is asked to run something next to nothing that needs the result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import trio

from hetsched.core.types import TaskSpec
from hetsched.errors import HetschedError

from .calls import who_has
from .futures import BaseFuture
from .results import Waiting
from .session import Session

__all__ = ["PATIENCE", "copies_of", "spread"]

log = logging.getLogger("hetsched.client")

PATIENCE = 60.0
"""So long (seconds) copies are waited for; a worker that was lost meanwhile gets none."""


def copies_of(broadcast: object) -> int | None:
    """How many workers shall hold each value, None for all: what ``broadcast`` says. Raises ValueError."""
    if broadcast is True:
        return None
    if type(broadcast) is int and broadcast >= 1:
        return broadcast
    raise ValueError(f"broadcast is True for a copy on each worker, or how many there shall be, not {broadcast!r}")


async def spread(
    session: Session,
    submit: Callable[[Sequence[TaskSpec]], Sequence[BaseFuture]],
    futures: Sequence[BaseFuture],
    copies: int | None,
    note: Mapping[str, Any],
) -> None:
    """Have results copied to workers that ``note`` allows, once they are there. Cancelled, it leaves nothing behind."""
    with trio.move_on_after(PATIENCE):
        try:
            await Waiting([future._result for future in futures]).wait()  # noqa: SLF001 - of this room
            info: Mapping[str, Any] = await session.ask("info", None)
            names = sorted(name for name, about in info["workers"].items() if _is_meant(name, about, note))
            held = await who_has(session, futures)
            touches = [
                TaskSpec((f"broadcast-{uuid4().hex}", name), id, (future,), None, (), {"workers": (name,)})
                for number, future in enumerate(futures)
                for name in _lacking(names, held[future.key], copies, number)
            ]
            touched = submit(touches)
            await Waiting([future._result for future in touched]).wait()  # noqa: SLF001
        except HetschedError as error:
            log.info("what was scattered is not on all workers: %s", error)


def _is_meant(name: str, about: Mapping[str, Any], note: Mapping[str, Any]) -> bool:
    pool, workers = note.get("pool"), note.get("workers")
    pools = (pool,) if isinstance(pool, str) else pool
    return bool(about["executors"].get("cpu")) and (not pools or about["pool"] in pools) and (
        not workers or name in workers
    )


def _lacking(names: Sequence[str], held: Sequence[str], copies: int | None, number: int) -> Iterator[str]:
    """The workers that are to get a copy. Not the same few ones for all values."""
    left = len(names) if copies is None else copies - len(held)
    for place in range(len(names)):
        name = names[(number + place) % len(names)]
        if left > 0 and name not in held:
            left -= 1
            yield name
