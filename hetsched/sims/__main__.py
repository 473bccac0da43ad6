"""``python -m hetsched.sims``."""

from __future__ import annotations

from .commands import sims

__all__: list[str] = []

if __name__ == "__main__":
    sims(prog_name="python -m hetsched.sims")
