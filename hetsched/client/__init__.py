"""The client: graphs go to a scheduler elsewhere, and results come back from the workers that made them."""

from __future__ import annotations

__all__: list[str] = []
