"""Whether the hot modules run compiled, and the rule that compiled code is never older than its source.

``tools/compile.py`` puts what it makes into ``_compiled``, a folder where Python's own import does not look. Only
:func:`install` leads there, and only when every source is what it was when it was compiled; else, and under
``HETSCHED_PURE=1``, the sources themselves are imported. It is all or nothing, since the compiled modules know each
other's inside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from types import ModuleType

__all__ = ["install", "state"]

_HERE = os.path.dirname(__file__)
_SUFFIX = EXTENSION_SUFFIXES[0]
_LIBRARY = "hetsched__mypyc"
"""The library that has all the compiled code, and that the modules' own files lead to."""


class _Finder:
    """Finds the compiled modules, before anything else is asked."""

    def __init__(self, folder: str, modules: Sequence[str]) -> None:
        self._files = {name: f"{folder}/{name}{_SUFFIX}" for name in (_LIBRARY, *modules)}
        self.state = "compiled"

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer Python's import."""
        if name != _LIBRARY and name in self._files:
            self.load()
        file = self._files.get(name)
        if file is None:
            return None
        spec = ModuleSpec(name, ExtensionFileLoader(name, file), origin=file)
        spec.has_location = True
        return spec

    def load(self) -> None:
        """Load the library, before any module; where that cannot be, all modules are Python."""
        if self._files and _LIBRARY not in sys.modules:
            try:
                __import__(_LIBRARY)
            except ImportError as error:
                self._files = {}
                self.state = f"pure: the compiled code cannot be loaded: {error}"


_finder: _Finder | None = None
_why_not = "pure"


def state() -> str:
    """Tell what runs: "compiled", "pure", or "pure: ..." with the reason why what was compiled is not used."""
    if _finder is None:
        return _why_not
    _finder.load()
    return _finder.state


def install() -> None:
    """Have the compiled modules imported if there are any and they are current; called before any of them is."""
    global _finder, _why_not
    if _finder is not None or os.environ.get("HETSCHED_PURE", "") not in {"", "0"}:
        return
    folder = f"{_HERE}/_compiled/{_SUFFIX.strip('.').rpartition('.')[0]}"
    try:
        with open(f"{folder}/manifest.txt", encoding="utf-8") as file:
            lines = [line.split() for line in file if not line.startswith("#")]
    except OSError:
        return
    if all(map(_is_current, lines)):
        compiled = [path for path, *_, kind in lines if kind == "1"]
        _finder = _Finder(folder, [f"hetsched.{path.removesuffix('.py').replace('/', '.')}" for path in compiled])
        sys.meta_path.insert(0, _finder)
    else:
        _why_not = "pure: sources changed since they were compiled"


def _is_current(line: Sequence[str]) -> bool:
    """Tell whether a source is what was compiled. An installed copy has its own times: then the content decides."""
    try:
        path, content, size, changed, _ = line
        stat = os.stat(f"{_HERE}/{path}")
        if stat.st_size != int(size):
            return False
        if stat.st_mtime_ns == int(changed):
            return True
        from importlib.util import source_hash

        with open(f"{_HERE}/{path}", "rb") as file:
            return source_hash(file.read()).hex() == content
    except (OSError, ValueError):
        return False
