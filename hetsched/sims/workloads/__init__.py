"""Where workloads come from: generators, files, recorded runs, dask graphs. One source a file."""

from __future__ import annotations

__all__: list[str] = []
