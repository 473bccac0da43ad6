"""The table of annotations in the documentation is the one that the code goes by."""

from __future__ import annotations

import importlib.util

from package_source import ROOT

from hetsched.annotations import VOCABULARY


def test_the_page_has_the_table_of_the_code():
    spec = importlib.util.spec_from_file_location("vocabulary", ROOT / "tools" / "vocabulary.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = (ROOT / "docs" / "annotations.md").read_text(encoding="utf-8")
    assert tool.written(page) == page, "run python tools/vocabulary.py"
    assert all(f"| `{name}` |" in page for name in VOCABULARY)
