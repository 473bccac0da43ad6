"""Check the annotations that each task of a hand-written graph brings, at little cost where they are alike."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from typing import Any, Final

from hetsched.core.annotations import validate
from hetsched.core.types import Key
from hetsched.errors import AnnotationError

__all__ = ["Checked"]

_dumps: Any = marshal.dumps
_MOST: Final = 4096
"""So many different annotations are remembered in one graph."""


class Checked:
    """Gives annotations in their normal form, callables as they are.

    Equal ones give one dict, so that they can be told by identity.
    """

    def __init__(self) -> None:
        self._last: Mapping[str, Any] | None = None
        self._of_last: dict[str, Any] = {}
        self._alike: dict[bytes, dict[str, Any]] = {}

    def check(self, given: Mapping[str, Any], key: Key) -> dict[str, Any]:
        """Check the annotations of the task of a key. Raises AnnotationError that names the key."""
        last = self._last
        if given is last or (last is not None and _same(given, last)):
            return self._of_last
        try:
            content = _dumps(given, 2)  # of plain values, in a tenth of the time that checking takes
        except ValueError:
            content = b""
        checked = self._alike.get(content) if content else None
        if checked is None:
            try:
                checked = validate(given, per_key=True)
            except AnnotationError as error:
                error.add_note(f"it was given to the task {key!r}")
                raise
            if content and len(self._alike) < _MOST:
                self._alike[content] = checked
        self._last, self._of_last = given, checked
        return checked


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two hold the very same objects. Equal ones may be of other types, and so worth a refusal."""
    if len(one) != len(other):
        return False
    for name in one:  # noqa: SIM110 - hot: a generator would take three times as long
        if name not in other or one[name] is not other[name]:
            return False
    return True
