"""The command line: ``hetsched-scheduler``, ``hetsched-worker`` and ``dask hetsched``."""

from __future__ import annotations

__all__: list[str] = []
