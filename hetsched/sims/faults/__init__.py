"""What may go wrong in a simulation, and what must hold all the same."""

from __future__ import annotations

__all__: list[str] = []
