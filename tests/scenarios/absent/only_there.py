"""A module that only some processes can import."""

from __future__ import annotations

__all__ = ["Failure", "Thing", "double", "fail"]


class Thing:
    """A value."""


class Failure(Exception):
    """An error."""


def double(x):
    """Twice as much."""
    return 2 * x


def fail(text):
    """Raise it."""
    raise Failure(text)
