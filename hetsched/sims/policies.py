"""Policies by name: those of the package, and a person's own, as ``module:Class``."""

from __future__ import annotations

import sys

from hetsched.core.placement import Policy, make_policy

__all__ = ["find_policy"]


def find_policy(name: str, seed: int) -> Policy:
    """Make the policy of this name; a person's own may be in a file of the current folder.

    Raises HetschedError where there is none.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    return make_policy(name, seed)
