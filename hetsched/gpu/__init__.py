"""What lives on a device: inspectors of objects."""

from __future__ import annotations

__all__: list[str] = []
