"""What docs/cluster.md and docs/pools.md show is run as it stands there, and says what it says there."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "cluster.md"
POOLS = PAGE.with_name("pools.md")
BLOCK = re.compile(r"^(<!-- needs .*? -->\n)?```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def program(page: str) -> str:
    """The page's Python blocks as one program, where ``expression    # literal`` is an assertion.

    Blocks under a comment that says what they need are left out.
    """
    lines: list[str] = []
    for block in BLOCK.finditer(page):
        if block[1]:
            continue
        source = block[2].splitlines()
        for node in ast.parse(block[2]).body:
            last = source[node.end_lineno - 1]
            lines += source[node.lineno - 1 : node.end_lineno]
            if isinstance(node, ast.Expr) and (value := literal(last[node.end_col_offset :])) is not None:
                found = ast.unparse(node.value)
                lines[-(node.end_lineno - node.lineno + 1) :] = [f"assert ({found}) == {value}, {found!r}"]
    return "\n".join(lines)


def literal(comment: str) -> str | None:
    """What a comment says, if it is a literal."""
    text = comment.partition("#")[2].strip()
    try:
        ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    return text


def test_literals_become_assertions() -> None:
    page = "```python\nf(\n  1)   # 2\ng()  # a word\n```\n<!-- needs x -->\n```python\nh()\n```\n"
    assert program(page) == "assert (f(1)) == 2, 'f(1)'\ng()  # a word"


@pytest.mark.slow
@pytest.mark.limit(120)
def test_cluster_page(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(program(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(PAGE.parents[1])}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pools_page() -> None:
    exec(compile(program(POOLS.read_text(encoding="utf-8")), "pools.md", "exec"), {})
