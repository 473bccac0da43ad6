"""The mind: what decides, and nothing else. Importing it loads the standard library alone."""

from __future__ import annotations

__all__: list[str] = []
