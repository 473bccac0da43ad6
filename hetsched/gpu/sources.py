"""What a module's own text says its global names are, for names whose objects do not tell.

That is so where a library is not installed and ``cp = None`` stands for it, and where something stands in for a
library. The text is read once for each module, and only if it has the name of a library in it. It is not run.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from .libraries import mentions_library
from .values import Attr, Known, Made, Name, Value

__all__ = ["read_module", "said_of"]

_MOST_MODULES = 1_000
_MOST_LINES = 5_000
_said: dict[str, dict[str, Value]] = {}

read_module: list[Callable[[str, str], dict[str, Value]]] = []
"""The reader of a module's text, which stands above this one (``code.py`` puts it here)."""


def said_of(names: dict[str, Any], name: str) -> Value | None:
    """What the text of the module with these global names says a name is; None where it says nothing of devices."""
    file = names.get("__file__")
    if type(file) is not str or not file.endswith(".py"):
        return None
    said = _said.get(file)
    if said is None:
        if len(_said) > _MOST_MODULES:
            _said.clear()
        said = _said[file] = {}  # also while it is being read
        said.update(_read(file))
    return said.get(name)


def _read(file: str) -> dict[str, Value]:
    try:
        lines = linecache.getlines(file)
        text = "".join(lines)
        if len(lines) > _MOST_LINES or not mentions_library(text):
            return {}
        found = read_module[0](text, file)
    except Exception:  # a text that cannot be read tells nothing
        return {}
    return {name: _as_global(value) for name, value in found.items() if _tells(value)}


def _as_global(value: Value) -> Value:
    """What a function that uses the name has to say is not said by the module's text having made it.

    What is at an index of something on a device is on it too: ``jax.devices("gpu")[0]``.
    """
    if type(value) is Attr and value.name == "[]" and type(value.base) is Made:
        value = value.base
    return Made(value.of, value.device) if type(value) is Made else value


def _tells(value: Value) -> bool:
    if type(value) is Known:
        return type(value.value) is str and value.value.startswith("cuda")
    return type(value) in (Name, Made) or (type(value) is Attr and type(value.base) is Made and bool(value.base.device))
