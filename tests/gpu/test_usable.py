"""Where no device was found, code that falls back to the host is no GPU task."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from hetsched.core.evidence import CODE, DOWNLOAD, INPUT, Evidence
from hetsched.gpu.usable import credible

CUPY = (Evidence(CODE, 0.95, "cupy.asarray"), Evidence(DOWNLOAD, 0.8, "cupy.asnumpy"))
IMPORTED = (*CUPY, Evidence(CODE, 0.3, "uses cupy"))
TORCH = (Evidence(CODE, 0.95, ".to('cuda')"), Evidence(CODE, 0.2, "uses torch"))
NAMELESS = (Evidence(CODE, 0.95, ".cuda()"),)
NEAR = (Evidence(INPUT, 0.9, "an argument is on a device"),)


def torch_that_says(available: bool) -> ModuleType:
    module = ModuleType("torch")
    module.cuda = SimpleNamespace(is_available=lambda: available)  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize(
    ("evidence", "modules", "kept"),
    [
        (IMPORTED, {"cupy": None}, ()),
        (IMPORTED, {"cupy": ModuleType("cupy")}, IMPORTED),
        (CUPY, {"cupy": None}, CUPY),  # it has the module from elsewhere
        (TORCH, {"torch": None}, TORCH),
        (TORCH, {"torch": torch_that_says(False)}, ()),
        (TORCH, {"torch": torch_that_says(True)}, TORCH),
        (TORCH, {"torch": ModuleType("torch")}, TORCH),
        (TORCH + CUPY, {"torch": torch_that_says(False), "cupy": ModuleType("cupy")}, TORCH + CUPY),
        (IMPORTED + NEAR, {"cupy": None}, NEAR),
        (NAMELESS, {}, NAMELESS),
    ],
)
def test_what_code_says_counts_where_a_library_could_do_it(monkeypatch, evidence, modules, kept) -> None:
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert credible(evidence) == kept


PROGRAM = """
import sys, threading
sys.modules["cupy"] = None
import hetsched
from hetsched import computing
computing.count_devices = lambda: 0

def falls_back(x):
    try:
        import cupy as xp
    except ImportError:
        import numpy as xp
    return threading.current_thread().name

graph = {("x", n): (falls_back, n) for n in range(8)}
print({name.split("-")[1] for name in hetsched.get(graph, list(graph))}, hetsched.last_report().gpu)
"""


def test_on_a_machine_without_a_device_code_with_a_fallback_runs_on_all_cpus_and_leaves_no_file(tmp_path) -> None:
    env = {"PYTHONPATH": ":".join(sys.path), "XDG_CACHE_HOME": str(tmp_path), "HETSCHED_GPU__LEARN": "true"}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == "{'cpu'} []\n"
    assert list(tmp_path.iterdir()) == []
