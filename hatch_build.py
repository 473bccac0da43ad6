"""Puts compiled modules into the wheel, where they can be compiled; else the wheel is the Python sources alone.

``HETSCHED_PURE=1`` asks for the sources alone, and then nothing is needed to build it beside hatchling. An editable
install is always that: ``make compile`` compiles in place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PURE = os.environ.get("HETSCHED_PURE", "") not in {"", "0"}


class CompileHook(BuildHookInterface):
    """Compiles when a wheel is made."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What compiling needs of the index; the compiler itself is found or not."""
        return [] if PURE else list(self.metadata.core.optional_dependencies["compile"])

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have what was made put beside the sources."""
        if PURE or self.target_name != "wheel" or version == "editable":
            return
        self._made = tempfile.TemporaryDirectory(prefix="hetsched-wheel-")
        program = [sys.executable, str(Path(self.root, "tools", "compile.py")), "--into", self._made.name]
        done = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        manifest = next(Path(self._made.name).glob("*/manifest.txt"), None)
        if done.returncode or manifest is None:
            self.app.display_warning(f"{done.stdout.strip()}\nThe wheel has the Python sources alone: slower.")
            return
        self.app.display_info(done.stdout.strip())
        for file in manifest.parent.iterdir():
            build_data["force_include"][str(file)] = f"hetsched/_compiled/{manifest.parent.name}/{file.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made."""
        if hasattr(self, "_made"):
            self._made.cleanup()
