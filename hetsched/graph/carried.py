"""Find the annotations that callables carry, also those among a partial's arguments."""

from __future__ import annotations

from functools import partial
from itertools import islice
from types import MethodType
from typing import Any, Final

import toolz

from hetsched.annotated_callable import AnnotatedCallable, annotations_of
from hetsched.core.annotations import combine

__all__ = ["CARRIERS", "CONTAINERS", "carried"]

CONTAINERS: Final = frozenset({list, tuple, dict})
"""The types of what may hold callables; the first few items are looked at."""

_LOOKED_AT: Final = 16

CARRIERS: Final[frozenset[type]] = frozenset({AnnotatedCallable, partial, MethodType, toolz.curry})
"""The types of what may carry annotations and is met often; subclasses are looked at where time allows."""


def carried(obj: Any, found: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Add the annotations an object carries to those found before; returns both, None if there are none."""
    if type(obj) in CONTAINERS:
        for item in islice(obj.values() if isinstance(obj, dict) else obj, _LOOKED_AT):
            if type(item) in CARRIERS:
                found = carried(item, found)
        return found
    if not callable(obj):
        return found
    if isinstance(obj, (partial, toolz.curry)):
        for inner in (*obj.args, *obj.keywords.values()):
            found = carried(inner, found)
    mine = annotations_of(obj)
    if not mine:
        return found
    return combine(found, mine) if found else mine
