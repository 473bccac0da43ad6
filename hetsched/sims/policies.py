"""Policies by name: those of the package, and a person's own, as ``module:Class``."""

from __future__ import annotations

import sys
from importlib import import_module

from hetsched.core.placement import Policy, make_policy
from hetsched.errors import HetschedError

__all__ = ["find_policy"]


def find_policy(name: str, seed: int) -> Policy:
    """Make the policy of this name; a class of a person's own is called without arguments.

    Raises HetschedError where there is none.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        return make_policy(name, seed)
    if "" not in sys.path:
        sys.path.insert(0, "")  # a file in the current folder
    try:
        policy: Policy = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise HetschedError(f"there is no policy {name!r}: {error}") from error
    if not callable(getattr(policy, "choose", None)):
        raise HetschedError(f"{name!r} has no method choose(task, workers), so it is no policy")
    return policy
