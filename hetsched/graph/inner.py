"""Order the parts of the graph that is inside of a fused task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetsched.core.types import Key
from hetsched.errors import CycleError

__all__ = ["sort_inner"]


def sort_inner(inner: Mapping[Key, Any], outkey: Key) -> list[Key]:
    """List the keys that ``outkey`` needs, each after what it reads, ``outkey`` last; CycleError if that cannot be."""
    done: dict[Key, None] = {}
    under_way: set[Key] = set()
    stack: list[tuple[Key, bool]] = [(outkey, False)]
    while stack:
        key, read = stack.pop()
        if read:
            done[key] = None
            under_way.discard(key)
        elif key not in done:
            under_way.add(key)
            stack.append((key, True))
            # dask keeps the dependencies in a set, whose order is not the same from run to run.
            needs = [d for d in sorted(inner[key].dependencies, key=str) if d in inner and d not in done]
            for d in needs:
                if d in under_way:
                    raise CycleError([key, d])
            stack.extend((d, False) for d in needs)
    return list(done)
