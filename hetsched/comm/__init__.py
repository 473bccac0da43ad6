"""How processes speak with each other: what they agree on, how they prove themselves, what crosses between them."""

from __future__ import annotations

__all__: list[str] = []
