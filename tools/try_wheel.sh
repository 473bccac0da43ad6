#!/bin/sh
# Builds the wheel, installs it alone into a fresh virtual environment, and uses it away from the checkout: what works
# in the checkout may be missing from the wheel. BUILDER is a Python that has `build`.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
case "$BUILDER" in /*) ;; *) BUILDER=$root/$BUILDER ;; esac
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT INT TERM

"$BUILDER" -m build --wheel --outdir "$place/dist" "$root" >"$place/build.log" 2>&1 || { cat "$place/build.log"; exit 1; }
"$BUILDER" -m venv "$place/venv"
"$place/venv/bin/python" -m pip install -qq --disable-pip-version-check "$place"/dist/*.whl

mkdir "$place/elsewhere"
cd "$place/elsewhere"
unset PYTHONPATH
"$place/venv/bin/python" -W error -c '
import sys
from pathlib import Path

import hetsched
import hetsched.core

here = Path(hetsched.__file__).resolve()
assert here.is_relative_to(Path(sys.prefix).resolve()), f"imported from {here}, not from the wheel"
assert (here.parent / "py.typed").exists(), "py.typed is not in the wheel"
assert hetsched.get({"a": (sum, [1, 2])}, "a") == 3
'
runs=$("$place/venv/bin/python" -c 'import hetsched.core.scheduler, hetsched.compiled; print(hetsched.compiled.state())')
echo "$(basename "$place"/dist/*.whl) works on its own, $runs"
