"""One transfer on its way."""

from __future__ import annotations

from collections.abc import Sequence

from .topology import Way

__all__ = ["Transfer"]


class Transfer:
    """Results asked of a peer. The rates and times are those of the model that moves it."""

    __slots__ = (
        "asked", "began", "came", "is_counted", "keys", "leg", "legs", "missing", "nbytes", "number", "over",
        "priority", "rate", "remaining", "sent", "since", "source", "target", "values", "version", "way",
    )  # fmt: skip

    def __init__(self, number: int, source: str, target: str, keys: Sequence[int], way: Way, asked: float) -> None:
        self.number = number
        self.source = source
        self.target = target
        self.keys = keys
        self.way = way
        self.asked = asked
        self.sent = asked
        """When the request was sent, which may have had to wait for others."""
        self.began = -1.0
        """When its bytes began to flow; negative before."""
        self.came: list[int] = []
        self.missing: list[int] = []
        self.values: dict[int, int] = {}
        self.nbytes = 0
        self.legs: list[tuple[Way, int]] = []
        """What is sent one after another, over which ways: what was on the host, and what was on a device."""
        self.leg = 0
        """Which of them is under way."""
        self.is_counted = True
        """Whether it is one of those that a worker may have only so many of."""
        self.priority = 0.0
        self.over = False
        self.rate = 0.0
        self.remaining = 0.0
        self.since = 0.0
        """When ``remaining`` was true."""
        self.version = 0
        """Counts the forecasts of its end; earlier ones are void."""

    def __repr__(self) -> str:
        return f"<Transfer {self.source} -> {self.target} {list(self.keys)}>"
