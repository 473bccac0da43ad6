"""The simulator: the scheduler and the workers' minds that ship, under a virtual clock.

:class:`~hetsched.sims.scenario.Scenario` says what runs where, :func:`~hetsched.sims.summary.simulate` runs it.
"""

from __future__ import annotations

from .workloads import from_dask

__all__ = ["from_dask"]
