"""Plugins of the cluster inside this process: those that were registered here, and those of installed packages."""

from __future__ import annotations

import os
import threading

import dask.config

from hetsched.core.plugins import Plugin, Plugins
from hetsched.server.plugins import installed_plugins, load_plugin, logged_plugins

__all__ = ["here", "register_plugin", "unregister_plugin"]

_lock = threading.RLock()
_here: Plugins | None = None


def here() -> Plugins:
    """The plugins of this process's cluster; those of installed packages are loaded at the first call."""
    global _here
    with _lock:
        if _here is None:
            plugins = _here = logged_plugins()
            if dask.config.get("hetsched.scheduler.installed-plugins", True):
                for name, plugin in installed_plugins():
                    plugins.add(plugin, name)
        return _here


def register_plugin(plugin: Plugin | type[Plugin] | str) -> Plugin:
    """Give a plugin a say in where tasks run that :func:`hetsched.get` computes in this process; returns the plugin.

    Takes an object, a class to make one of, or a name, ``"module:Class"``. There is one worker here, so a plugin that
    does not allow it has a computation fail at once. On a cluster plugins are registered by
    :meth:`hetsched.Client.register_plugin`, ``hetsched-scheduler --plugin`` or ``LocalCluster(plugins=...)``.

    Raises TypeError for what is no plugin, and HetschedError for a name that cannot be imported.
    """
    if isinstance(plugin, str):
        plugin = load_plugin(plugin)
    elif isinstance(plugin, type):
        plugin = plugin()
    if not isinstance(plugin, Plugin):
        raise TypeError(f"{plugin!r:.200} is no hetsched.Plugin")
    with _lock:
        here().add(plugin)
    return plugin


def _forget_after_fork() -> None:
    """A thread that held the lock is not there in a child."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_after_fork)


def unregister_plugin(plugin: Plugin) -> None:
    """Take back a plugin that :func:`register_plugin` returned; nothing if it is not there."""
    with _lock:
        here().remove(plugin)
