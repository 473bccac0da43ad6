"""The simulator: the scheduler and the workers' minds that ship, under a virtual clock.

:class:`~hetsched.sims.scenario.Scenario` says what runs where, :func:`~hetsched.sims.summary.simulate` runs it.
"""

from __future__ import annotations

__all__: list[str] = []
