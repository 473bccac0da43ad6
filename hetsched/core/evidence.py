"""What speaks for or against a task being a GPU task: one observation, with its weight and the name that gave it."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["CODE", "DOWNLOAD", "FAILED", "INPUT", "RAN", "RESULT", "SAID", "STRONG", "WEAK", "Evidence"]

SAID: Final = "said"
"""The person said so: an annotation."""
RESULT: Final = "result"
"""A result lives on a device."""
INPUT: Final = "input"
"""An input lives on a device."""
CODE: Final = "code"
"""The code reaches for a device library."""
DOWNLOAD: Final = "download"
"""The code, or what it did, only brings data from a device to the host: it needs the device's context."""
RAN: Final = "ran"
"""While it ran, device memory was allocated or a device's context used on its thread."""
FAILED: Final = "failed"
"""It failed with an error of a device."""

STRONG: Final = 0.8
"""A weight of this much or more is enough for a verdict."""
WEAK: Final = 0.5
"""A weight below this is a hint: it says what to look at, and decides nothing."""


class Evidence(NamedTuple):
    """One observation: its kind, its weight and what it was seen by.

    ``kind`` is one of this module's constants. ``weight`` is at most 1, and below 0 where it speaks for the CPU.
    ``detail`` is for people: "cupy.asarray", "the result, a cupy.ndarray of 48 bytes".
    """

    kind: str
    weight: float
    detail: str
