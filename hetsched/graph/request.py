"""What a caller asks for: a key, or a list of keys nested at will."""

from __future__ import annotations

from typing import Any

from hetsched.core.types import Key
from hetsched.errors import BadKeyError

__all__ = ["flat_keys"]


def flat_keys(keys: Any) -> list[Key]:
    """List the keys in a request, however deep its lists; raises BadKeyError for None and what cannot be hashed."""
    if not isinstance(keys, list):
        return [_checked(keys)]
    found: list[Key] = []
    for key in keys:
        if isinstance(key, list):
            found.extend(flat_keys(key))
        else:
            found.append(_checked(key))
    return found


def _checked(key: Any) -> Key:
    if key is None:
        raise BadKeyError("None was asked for, and None cannot be a key")
    try:
        hash(key)
    except TypeError:
        raise BadKeyError(f"{key!r} was asked for, and it cannot be a key since it cannot be hashed") from None
    return key  # type: ignore[no-any-return]
