"""Files, functions and classes stay small enough to read at one sitting."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from package_source import Module, parse, read_package

FILE_LINES = 400
FUNCTION_LINES = 60  # a docstring is not counted: what it saves is not worth a line of explanation less
CLASS_METHODS = 25
BANNED = frozenset({"helper", "helpers", "manager", "managers", "misc", "util", "utils"})


def too_big(module: Module) -> Iterator[str]:
    """What is too big, or named for nothing, in one module."""
    if BANNED & set(module.name.split(".")):
        yield f"{module.name}: a name that says nothing; name it for what it does"
    if module.lines > FILE_LINES:
        yield f"{module.name}: {module.lines} lines, {FILE_LINES} are allowed"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if (lines := _lines(node)) > FUNCTION_LINES:
                yield f"{module.name}, line {node.lineno}: {node.name} has {lines} lines, {FUNCTION_LINES} are allowed"
        elif isinstance(node, ast.ClassDef):
            methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
            if len(methods) > CLASS_METHODS:
                yield f"{module.name}: {node.name} has {len(methods)} methods, {CLASS_METHODS} are allowed"


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        doc = function.body[0]
        assert doc.end_lineno is not None
        lines -= doc.end_lineno - doc.lineno + 1
    return lines


def test_nothing_is_too_big():
    found = [sentence for module in read_package() for sentence in too_big(module)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("core.utils", "", "a name that says nothing"),
        ("manager.__init__", "", "a name that says nothing"),
        ("core.state", "x = 1\n" * 401, "401 lines"),
        ("core.state", "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
        ("core.state", "class C:\n" + "".join(f"    def f{n}(self): ...\n" for n in range(26)), "C has 26 methods"),
    ],
)
def test_made_up_modules_that_are_too_big(name, text, says):
    (sentence,) = too_big(parse(name, text))
    assert says in sentence


def test_docstrings_are_not_counted():
    text = 'def f():\n    """Says.\n' + "    much\n" * 80 + '    """\n' + "    x = 1\n" * 59
    assert list(too_big(parse("core.state", text))) == []
