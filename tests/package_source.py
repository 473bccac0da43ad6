"""The package's modules as syntax trees, for the tests that read the code instead of running it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

__all__ = ["PACKAGE", "ROOT", "Module", "parse", "read_package"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hetsched"


class Module(NamedTuple):
    """One file of the package. ``name`` is relative to the package: ``core.state``, ``core.__init__``."""

    name: str
    path: Path
    tree: ast.Module
    lines: int

    @property
    def folder(self) -> str:
        """The package that the module lies in: ``core`` for ``core.state`` and ``core.__init__``, "" for the top."""
        return self.name.rpartition(".")[0]

    @property
    def dotted(self) -> str:
        """The name that imports it."""
        return ".".join(["hetsched", *self.name.split(".")]).removesuffix(".__init__")


def parse(name: str, text: str, path: Path | None = None) -> Module:
    """A module from its text."""
    return Module(name, path or Path(f"{name}.py"), ast.parse(text), len(text.splitlines()))


def read_package() -> list[Module]:
    """Every module of hetsched, in order of name."""
    return [
        parse(".".join(path.relative_to(PACKAGE).with_suffix("").parts), path.read_text(encoding="utf-8"), path)
        for path in sorted(PACKAGE.rglob("*.py"))
    ]
