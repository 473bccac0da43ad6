"""How results cross between workers: links, who shares them how, and how many transfers there may be at a time."""

from __future__ import annotations

__all__: list[str] = []
