"""Plugins by their names: imported here, in the scheduler's process, and by nothing else than a name."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from hetsched.core.plugins import Plugin, Plugins
from hetsched.core.state import State
from hetsched.errors import HetschedError, ProtocolError

__all__ = ["GROUP", "Door", "installed_plugins", "load_plugin", "logged_plugins"]

GROUP = "hetsched.plugins"
"""The group of entry points by which installed packages name their plugins."""

_AGAIN_SECONDS = 1.0
_SHARE = 20.0  # of the time at most a twentieth goes into asking again

log = logging.getLogger("hetsched.plugins")


def logged_plugins() -> Plugins:
    """No plugins yet; what they raise will be logged, with the traceback."""
    return Plugins(lambda sentence, error: log.error("%s", sentence, exc_info=error))


def load_plugin(name: str) -> Plugin:
    """Import ``module:Class`` and make one, or take ``module:plugin`` that is one.

    Raises HetschedError, with a sentence that says what is wrong with the name, the module or the class.
    """
    module, colon, path = name.partition(":")
    if not colon or not module or not path:
        raise HetschedError(f"the plugin {name!r} is not named like package.module:Class")
    try:
        found: Any = importlib.import_module(module)
        for word in path.split("."):
            found = getattr(found, word)
    except (Exception, SystemExit) as error:  # the module's own code, too: it may be a script
        raise HetschedError(f"the plugin {name} cannot be imported: {type(error).__name__}: {error}") from error
    return _made(found, name)


def installed_plugins() -> Iterator[tuple[str, Plugin]]:
    """The plugins of installed packages, by the names that those give them. One that cannot be had is logged."""
    if not _is_named():
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            yield entry.name, _made(entry.load(), f"{entry.name} = {entry.value}")
        except (Exception, SystemExit) as error:  # their own code
            log.error("the installed plugin %r (%s) cannot be loaded: %s", entry.name, entry.value, error)


def _is_named() -> bool:
    """Whether any package may name a plugin, by the texts of its files. For importlib.metadata a start waits 50 ms."""
    heading = f"[{GROUP}]".encode()
    for entry in dict.fromkeys(sys.path):
        if os.path.isfile(entry):
            return True  # an archive
        with suppress(OSError):
            for name in os.listdir(entry or "."):
                if name.endswith((".egg", ".zip", ".egg-link")):
                    return True  # it may lie within
                if name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError):
                        if heading in Path(entry, name, "entry_points.txt").read_bytes():
                            return True
    return False


def _made(found: Any, name: str) -> Plugin:
    if isinstance(found, type):
        try:
            found = found()
        except (Exception, SystemExit) as error:  # its own code
            raise HetschedError(f"the plugin {name} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(found, Plugin):
        raise HetschedError(f"the plugin {name} is a {type(found).__name__}, and no hetsched.Plugin")
    return found


class Door:
    """Where plugins come into a scheduler. ``open``: clients may have some loaded, by name."""

    def __init__(self, plugins: Plugins, *, open: bool = False) -> None:  # noqa: A002 - a door's word
        self._plugins = plugins
        self._open = open
        self._asked = 0.0
        self._pause = _AGAIN_SECONDS

    def register(self, client: str, name: Any) -> str:
        """Load a plugin that a client asks for; return what it is called. Raises ProtocolError."""
        if not isinstance(name, str):
            raise ProtocolError("a plugin is registered by its name, like package.module:Class")
        if not self._open:
            raise ProtocolError(
                f"the scheduler does not take plugins from clients: start it with --client-plugins, or with "
                f"--plugin {name}"
            )
        try:
            called = self._plugins.add(load_plugin(name))
        except HetschedError as error:
            raise ProtocolError(str(error)) from error
        log.info("registered the plugin %s as %r, which %s asked for", name, called, client)
        return called

    def ask_again(self, state: State, now: float, ask: Callable[[], object]) -> None:
        """Have plugins asked once more about tasks for which they allow no worker, if it is time for that."""
        if not self._plugins.narrows or now < self._asked + self._pause:
            return
        if any(needs.only and not _allowed(needs.only, state) for needs in state.ready):
            began = perf_counter()
            ask()
            self._pause = max(_AGAIN_SECONDS, _SHARE * (perf_counter() - began))
        self._asked = now


def _allowed(only: Any, state: State) -> bool:
    """Whether some worker is allowed by all plugins that had an opinion."""
    return any(all(name in names for _, names in only) for name in state.workers)
