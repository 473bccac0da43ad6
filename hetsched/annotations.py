"""Annotations of one's own: what their values may be, and what becomes of them where tasks are fused.

An annotation with a name that nobody registered is carried and shown as it is, and two tasks that have it are fused
only where its values are plainly equal. A library that means something by one registers it, once, in every process that
builds graphs; workers and schedulers carry it without::

    def merged(first, then):
        return first if first == then else hetsched.annotations.REFUSED

    hetsched.annotations.register("tenant", validate=str, merge=merged)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hetsched.core.annotations import VOCABULARY
from hetsched.core.rules import ABSENT, REFUSED, REGISTERED, Join, Rule
from hetsched.errors import AnnotationError

__all__ = ["ABSENT", "REFUSED", "VOCABULARY", "Rule", "register", "unregister"]


def register(
    name: str,
    *,
    validate: Callable[[Any], object] | None = None,
    merge: Join | None = None,
    describes: bool = False,
    allowed: str = "",
    meaning: str = "",
    fused: str = "",
) -> None:
    """Make an annotation known in this process; registering a name again replaces what was said of it.

    Args:
        name: what it is called in ``hetsched.annotate(name=...)``.
        validate: gets a value, returns it in its normal form, and raises ValueError or TypeError for a bad one, which
            becomes an AnnotationError where the value was written. It gets normal forms too, which it returns as they
            are. Default: all values are good as they are.
        merge: gets the values of two tasks about to be fused, first and then, and returns the value of both together,
            or :data:`REFUSED`: they must not be fused. Default: fused where the two values are plainly equal.
        describes: the name restricts nothing. Tasks that have it are fused with those that have not; ``merge`` gets
            :data:`ABSENT` for the latter, and may return it. Otherwise such tasks are never fused.
        allowed: says in errors which values it takes; default is what ``validate`` says as it raises.
        meaning: what it says of a task, for people.
        fused: what ``merge`` does, for people.

    Raises:
        ValueError: for a name of the standard vocabulary, or one that is no name.
        TypeError: where ``describes`` has no ``merge``.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"an annotation's name must be one that Python takes for a keyword, not {name!r}")
    if name in VOCABULARY:
        raise ValueError(f"{name!r} is in the standard vocabulary and has its meaning already: choose another name")
    if describes and merge is None:
        raise TypeError("describes=True needs a merge: it is asked also where only one of two tasks has the annotation")
    join = None if merge is None else _join(name, merge, describes)
    REGISTERED[name] = Rule(meaning, allowed, fused, validate or _as_it_is, join)


def unregister(name: str) -> None:
    """Forget what was registered of a name; tasks may go on having it. Raises KeyError where nothing was."""
    del REGISTERED[name]


def _join(name: str, merge: Join, describes: bool) -> Join:
    def join(first: object, then: object) -> object:
        if not describes and (first is ABSENT or then is ABSENT):
            return REFUSED
        try:
            return merge(first, then)
        except Exception as error:  # a library's own code
            text = f"the merge that was registered for the annotation {name!r} failed: {error!r}"
            raise AnnotationError(text) from error

    return join


def _as_it_is(value: object) -> object:
    return value
