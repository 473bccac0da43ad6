"""Names for parameters of tests that are the same in each process: a test that failed can be run once more by its name,
and several processes can share the tests out."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def named(value: object) -> str:
    """What a value says of itself, without the addresses of objects."""
    return _ADDRESS.sub("", repr(value))
