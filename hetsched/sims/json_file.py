"""JSON files that a person names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hetsched.errors import HetschedError

__all__ = ["read_json"]


def read_json(path: str | Path) -> Any:
    """What a file holds. Raises HetschedError that names a file which is no JSON, OSError where it cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise HetschedError(f"{path} is no JSON: {error}") from error
