"""The Clients that are open in this process; the last of them is where `hetsched.get` goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import dask

__all__ = ["ADDRESS", "ENVIRONMENT", "ENVIRONMENT_KEY", "activate", "clients", "configured_address", "deactivate"]

ADDRESS = "HETSCHED_ADDRESS"
"""The environment variable that names a scheduler."""

clients: list[Any] = []
"""The open Clients: the last one was created last, or is that of the innermost ``with``."""

# Looking a name up in os.environ takes longer than all else that `hetsched.get` has to look at.
ENVIRONMENT: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
_encode: Callable[[str], Any] = getattr(os.environ, "encodekey", str)
ENVIRONMENT_KEY: Any = _encode(ADDRESS) if ENVIRONMENT is not os.environ else ADDRESS


def activate(client: Any) -> None:
    """Make a Client the one that is used where none is named."""
    deactivate(client)
    clients.append(client)


def deactivate(client: Any) -> None:
    """Forget a Client; does nothing where it is not known."""
    clients[:] = [other for other in clients if other is not client]


def configured_address() -> str | None:
    """The scheduler that the environment or dask's configuration (``hetsched.address``) names."""
    if ENVIRONMENT_KEY in ENVIRONMENT:
        return os.environ.get(ADDRESS) or None
    settings = dask.config.config.get("hetsched")
    address = settings.get("address") if isinstance(settings, dict) else None
    return None if address is None else str(address)


os.register_at_fork(after_in_child=clients.clear)
