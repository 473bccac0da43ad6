"""Worker pools: which layers of a graph run in which pool, so that the fewest bytes cross between them."""

from __future__ import annotations

from .layers import Layer, Prices
from .propagate import Plan, Reason, propagate

__all__ = ["Layer", "Plan", "Prices", "Reason", "propagate"]
