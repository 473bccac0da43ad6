"""The name of a function on the wire: a digest of its pickle, which nobody else's pickle has."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

__all__ = ["digest_of"]


def digest_of(data: Any) -> bytes:
    """16 bytes of BLAKE2b of anything that has a buffer."""
    return blake2b(data, digest_size=16).digest()
