"""Every public module says what it offers, and all of that exists and is explained."""

from __future__ import annotations

import ast
import contextlib
import importlib
import re

import pytest
from package_source import ROOT, Module, parse, read_package

MODULES = [m for m in read_package() if not re.search(r"(^|\.)_(?!_)", m.name)]


def exported(module: Module) -> list[str] | None:
    """The names in a module's ``__all__``, as they are written, or None where no list is written out."""
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            with contextlib.suppress(ValueError):
                return list(ast.literal_eval(node.value))
    return None


def order(name: str) -> tuple[int, list[object]]:
    """Where a name stands: constants, classes, the rest; ``x2`` before ``x10``. The order of ruff's RUF022."""
    group = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return group, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def problems(module: Module) -> list[str]:
    """What is wrong with a module's exports, without running it."""
    names = exported(module)
    if names is None:
        return [f"{module.name}: no __all__ that is a list written out"]
    found = []
    if names != sorted(set(names), key=order):
        found.append(f"{module.name}: __all__ is not sorted; it should be {sorted(set(names), key=order)}")
    if ast.get_docstring(module.tree) is None:
        found.append(f"{module.name}: the module has no docstring")
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name in names:
            overload = any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
            if not overload and ast.get_docstring(node) is None:
                found.append(f"{module.name}: {node.name} has no docstring")
    return found


def documented(text: str) -> set[str]:
    """The names of ``hetsched`` that a page documents by autodoc: ``.. autofunction:: hetsched.get`` gives ``get``."""
    names = re.findall(r"^\s*\.\. auto\w+:: hetsched\.(\w+)\s*$", text, re.MULTILINE)
    assert len(names) == len(set(names)), f"documented twice: {names}"
    return set(names)


def test_every_module_says_what_it_offers():
    found = [sentence for module in MODULES for sentence in problems(module)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.dotted)
def test_what_is_offered_exists(module):
    loaded = importlib.import_module(module.dotted)
    missing = [name for name in exported(module) or [] if not hasattr(loaded, name)]
    assert not missing


def test_the_reference_lists_exactly_the_public_names():
    import hetsched

    public = {name for name in hetsched.__all__ if not name.startswith("__")}
    assert documented((ROOT / "docs" / "reference.md").read_text(encoding="utf-8")) == public


def test_dir_shows_lazy_names():
    import hetsched

    assert set(hetsched.__all__) <= set(dir(hetsched))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"""Doc."""', "no __all__"),
        ('"""Doc."""\n__all__ = "a b".split()', "no __all__ that is a list written out"),
        ('"""Doc."""\n__all__ = ["b", "a"]', "not sorted; it should be ['a', 'b']"),
        ('"""Doc."""\n__all__ = ["a", "B"]', "not sorted; it should be ['B', 'a']"),
        ('"""Doc."""\n__all__ = ["a", "a"]', "not sorted; it should be ['a']"),
        ("__all__ = []", "the module has no docstring"),
        ('"""Doc."""\n__all__ = ["f"]\ndef f(): ...', "f has no docstring"),
    ],
)
def test_made_up_modules_that_are_wrong(text, says):
    (sentence,) = problems(parse("core.made_up", text))
    assert says in sentence
