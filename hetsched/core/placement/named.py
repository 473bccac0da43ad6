"""Find a policy by what a person wrote: a name, or ``module:Class``, and perhaps arguments in parentheses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from hetsched.errors import HetschedError

from .policy import Policy

__all__ = ["find"]

_WORDS = {"yes": True, "true": True, "no": False, "false": False}


def find(said: str, policies: Mapping[str, Callable[..., Policy]], seed: int) -> Policy:
    """Make the policy; a class that takes a ``seed`` is given it. Raises HetschedError where there is none."""
    name, opened, rest = said.strip().partition("(")
    name = name.strip()
    if opened and not rest.endswith(")"):
        raise HetschedError(f"the placement policy {said!r} lacks a closing parenthesis")
    arguments = dict(_argument(said, part) for part in rest[:-1].split(",") if part.strip())
    if ":" in name:
        make = _import(name)
    elif name in policies:
        make = policies[name]
    else:
        there = ", ".join(sorted(policies))
        raise HetschedError(f"there is no placement policy {name!r}; there are {there}, and your own as module:Class")
    if _takes_seed(make):
        arguments.setdefault("seed", seed)
    try:
        policy = make(**arguments)
    except TypeError as error:
        raise HetschedError(f"the placement policy {said!r} cannot be made: {error}") from error
    if not callable(getattr(policy, "choose", None)):
        raise HetschedError(f"{name!r} has no method choose(task, workers), so it is no placement policy")
    return policy


def _argument(said: str, part: str) -> tuple[str, Any]:
    name, equals, text = (word.strip() for word in part.partition("="))
    if not equals or not name.isidentifier():
        raise HetschedError(f"the placement policy {said!r} has an argument {part.strip()!r}; write name=value")
    if text.lower() in _WORDS:
        return name, _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return name, kind(text)
        except ValueError:
            continue
    return name, text


def _import(name: str) -> Callable[..., Policy]:
    module, _, attribute = name.partition(":")
    try:
        found: Callable[..., Policy] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise HetschedError(f"there is no placement policy {name!r}: {error}") from error
    return found


def _takes_seed(make: Callable[..., Policy]) -> bool:
    code = getattr(getattr(make, "__init__", None), "__code__", None)
    return code is not None and "seed" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
