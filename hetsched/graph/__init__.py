"""dask graphs in: from whatever dask hands to a ``get`` to task specs in the order they should start."""

from __future__ import annotations

__all__: list[str] = []
