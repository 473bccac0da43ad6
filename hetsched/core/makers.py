"""Who makes results: the functions of a graph, as far as a scheduler that never loads them may know them."""

from __future__ import annotations

from typing import NamedTuple

from .evidence import Evidence

__all__ = ["NOBODY_KNOWN", "Maker"]


class Maker(NamedTuple):
    """A function that tasks call: a digest that is the same in every process, a name for people, and evidence.

    ``evidence`` was found without running it: in its code, among the arguments of its tasks (kind "input"; such tasks
    have a maker of their own), or in an earlier run. An empty digest is of a function that nothing is known of.
    """

    digest: str
    name: str
    evidence: tuple[Evidence, ...] = ()


NOBODY_KNOWN = Maker("", "")
"""Stands for a function that could not be looked into."""
