"""Write the table of the standard annotations into docs/annotations.md, from the table that the code goes by.

    python tools/vocabulary.py            write it
    python tools/vocabulary.py --check    say whether it is up to date; exit with 1 where it is not
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hetsched.annotations import VOCABULARY

PAGE = Path(__file__).resolve().parent.parent / "docs" / "annotations.md"
START, END = "<!-- vocabulary: made by tools/vocabulary.py -->", "<!-- end of vocabulary -->"
BETWEEN = re.compile(rf"(?<={START}\n\n).*?(?=\n\n{END})", re.DOTALL)


def table() -> str:
    """The table in Markdown."""
    lines = [
        ["name", "what it says", "values", "when tasks are fused"],
        ["---"] * 4,
        *([f"`{name}`", rule.meaning, rule.allowed, rule.fused] for name, rule in VOCABULARY.items()),
    ]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def written(page: str) -> str:
    """A page with the table in its place."""
    assert BETWEEN.search(page), "the page has no marks for the table"
    return BETWEEN.sub(lambda _: table(), page)


def main() -> int:
    """Write it, or check it."""
    page = PAGE.read_text(encoding="utf-8")
    if written(page) == page:
        return 0
    if "--check" in sys.argv[1:]:
        print("docs/annotations.md is not what the code says: run python tools/vocabulary.py")
        return 1
    PAGE.write_text(written(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
