"""Tells a person, once in a session, that results were on a device and came as copies in host memory."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from hetsched.errors import DeviceWarning

__all__ = ["Brought"]


class Brought:
    """What was brought to the host, until it is told."""

    def __init__(self) -> None:
        self._first: tuple[str, Sequence[str]] | None = None
        self._told = False

    def note(self, address: str, types: Sequence[str]) -> None:
        """Note the types of what a worker has brought to the host for this client; for any thread."""
        if self._first is None:
            self._first = address, types

    def tell(self) -> None:
        """Warn, the first time that there is something to tell. Raises DeviceWarning where warnings are errors."""
        if self._first is None or self._told:
            return
        self._told = True
        address, types = self._first
        what = ", ".join(types)
        warnings.warn(
            f"a result held {what} on a device of the worker at {address} and came as a copy in host memory, as "
            "this client has no such device; so do others in this session. Have tasks return what is on the host, or "
            "silence this with warnings.filterwarnings('ignore', category=hetsched.errors.DeviceWarning)",
            DeviceWarning,
            stacklevel=3,
        )
