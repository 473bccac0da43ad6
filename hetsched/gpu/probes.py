"""Stand-in until the probes are there."""

from __future__ import annotations

from hetsched.core.evidence import Evidence

__all__ = ["Probe", "active"]


def active() -> bool:
    """Tell whether a library that can be watched is loaded."""
    return False


class Probe:
    """Watches one thread."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> Evidence | None:
        """End; returns what was seen."""
        return None
