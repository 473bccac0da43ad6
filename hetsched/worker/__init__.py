"""The worker: a mind that decides what to fetch, start and drop, and the hands that do it."""

from __future__ import annotations

__all__: list[str] = []
