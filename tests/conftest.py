"""What all tests share: time limits, devices, Hypothesis."""

from __future__ import annotations

import functools
import os
import signal

import pytest
from hypothesis import settings

pytest_plugins = ["pytester", "time_limit"]

# A shared machine may stop for longer than Hypothesis grants an example.
settings.register_profile("hetsched", deadline=None, print_blob=True)
settings.load_profile("hetsched")


# What tests find out about GPU tasks is nobody's to remember.
os.environ.setdefault("DASK_HETSCHED__GPU__LEARN", "false")

# A shell's background job is born with Ctrl-C ignored, and so would be what tests interrupt, here and in children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Test names hold no addresses: they are to be the same in each process (see `named.py`)."""
    odd = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if odd:
        raise pytest.UsageError(f"the names of these tests change with each run; give them ids=named: {odd[:3]}")


@functools.cache
def device_missing() -> str | None:
    """Why tests marked ``gpu`` cannot run here, or None where they can."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except ImportError:
        return "CuPy is not installed"
    except RuntimeError as error:
        return f"no CUDA device: {error}"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a device where there is none."""
    if item.get_closest_marker("gpu") is not None and (reason := device_missing()) is not None:
        pytest.skip(reason)
