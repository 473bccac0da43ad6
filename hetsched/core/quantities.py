"""How a person writes a time or a size: ``"500ms"``, ``"5 min"``, ``"4GB"``, ``"4GiB"``."""

from __future__ import annotations

import re

__all__ = ["read_bytes", "read_seconds"]

_UNITS = {
    "": 1.0, "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0,
    "h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0,
}  # fmt: skip
_TIME = re.compile(r"\s*([0-9.]+)\s*([a-z]*?)(?:(?<=[a-z]{3})s)?\s*", re.IGNORECASE)
_STEPS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([kmgtp]?)(i?)(b?)\s*", re.IGNORECASE)


def read_seconds(value: object, what: str) -> float:
    """Read a time: a number is of seconds, a text may have a unit, ``"5 min"``.

    Raises ValueError that calls it ``what``.
    """
    match = _TIME.fullmatch(str(value))
    unit = _UNITS.get(match[2].lower()) if match else None
    try:
        if match is None or unit is None:
            raise ValueError
        return float(match[1]) * unit
    except ValueError:
        raise ValueError(f'{what} is {value!r}: write a time as 20, "500ms", "20s", "5 min" or "1h"') from None


def read_bytes(text: str) -> int:
    """Read a size: ``"4GB"`` is 4 * 1000**3, ``"4GiB"`` is 4 * 1024**3, ``"4"`` and ``"4B"`` are bytes.

    Raises ValueError if it is not one.
    """
    match = _SIZE.fullmatch(text)
    try:
        if match is None or (match[3] and not match[2]):
            raise ValueError
        return int(float(match[1]) * (1024 if match[3] else 1000) ** _STEPS[match[2].lower()])
    except (ValueError, OverflowError):
        raise ValueError(f'{text!r} is not a size: write it as "500MB", "4GB" or "4GiB"') from None
