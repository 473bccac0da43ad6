"""Faults, as a plan: what goes wrong when."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["Fault", "FaultKind"]

FaultKind: TypeAlias = Literal["crash", "freeze", "partition", "disconnect", "cut", "slow", "delay", "fill"]
"""What goes wrong with a worker:

``crash``: its process ends; ``freeze``: it does nothing for a while, its connections stay; ``partition``: what it
says and is told does not arrive for a while; ``disconnect``: its connection to the scheduler breaks, with what is on
its way; ``cut``: its connections to other workers break; ``slow``: its links have a part of their bandwidth for a
while; ``delay``: its messages take longer for a while; ``fill``: its disk is full for a while.
"""


class Fault(NamedTuple):
    """One fault: when (seconds), which, the worker, for how long, and by how much where that matters."""

    at: float
    kind: FaultKind
    worker: str
    seconds: float = 0.0
    amount: float = 0.1
