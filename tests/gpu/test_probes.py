"""What a task allocates while it runs, by libraries that are made up as far as they are asked."""

from __future__ import annotations

import sys
import threading
import types

import pytest

from hetsched.gpu import nvml, probes
from hetsched.gpu.probes import Probe, active

LIBRARIES = ("cupy", "torch", "rmm", "rmm.statistics", "numba.cuda", "jaxlib", "tensorflow", "pycuda")


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    for name in LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(probes, "_hook_class", [])


@pytest.fixture
def cupy(monkeypatch):
    """CuPy's hooks, which are those of the thread, by name."""
    local = threading.local()

    def hooks():
        if not hasattr(local, "hooks"):
            local.hooks = {}
        return local.hooks

    class MemoryHook:
        name = "MemoryHook"

        def __enter__(self):
            if self.name in hooks():
                raise KeyError("duplicate")
            hooks()[self.name] = self
            return self

        def __exit__(self, *_):
            del hooks()[self.name]

    def alloc(size):
        for hook in list(hooks().values()):
            hook.malloc_preprocess(device_id=0, size=size, mem_size=512)

    def hooked():
        return dict(hooks())

    library = types.ModuleType("cupy")
    memory_hook = types.SimpleNamespace(MemoryHook=MemoryHook)
    library.cuda = types.SimpleNamespace(alloc=alloc, hooks=hooked, memory_hook=memory_hook)
    monkeypatch.setitem(sys.modules, "cupy", library)
    return library.cuda


def watched(work, driver=False):
    probe = Probe(driver)
    probe.start()
    work()
    nbytes = probe.stop()
    assert nbytes == probe.allocated
    return nbytes, probe.touched, probe.process_wide


def test_where_no_library_is_loaded():
    assert not active()
    assert watched(lambda: None) == (0, False, False)
    assert Probe().stop() == 0


@pytest.mark.parametrize("name", ["cupy", "torch", "rmm", "numba.cuda", "jaxlib", "tensorflow", "pycuda"])
def test_what_is_loaded_is_active(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert active()
    assert watched(lambda: None) == (0, False, False)


def test_allocations_of_cupy_on_this_thread(cupy):
    def work():
        cupy.alloc(100)
        cupy.alloc(28)
        other = threading.Thread(target=cupy.alloc, args=(1000,))
        other.start()
        other.join()

    assert watched(work) == (128, True, False)
    assert watched(lambda: None) == (0, False, False)
    assert cupy.hooks() == {}


def test_an_allocation_of_nothing_touches_the_device(cupy):
    assert watched(lambda: cupy.alloc(0)) == (0, True, False)


def test_one_probe_for_one_task_after_another(cupy):
    probe, seen = Probe(), []
    for size in (3, 0, 5):
        probe.start()
        if size:
            cupy.alloc(size)
        seen.append((probe.stop(), probe.touched))
    assert seen == [(3, True), (0, False), (5, True)]


def test_nested_probes_leave_the_outer_one_to_count(cupy):
    outer, inner = Probe(), Probe()
    outer.start()
    inner.start()
    cupy.alloc(7)
    assert (inner.stop(), outer.stop()) == (0, 7)


def test_hooks_that_the_persons_code_took_away(cupy, monkeypatch):
    probe = Probe()
    probe.start()
    probe._hook.__exit__()
    assert probe.stop() == 0
    probe.start()
    cupy.alloc(2)
    assert probe.stop() == 2


def test_a_library_that_is_just_being_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", types.ModuleType("cupy"))
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "rmm", types.ModuleType("rmm"))
    monkeypatch.setitem(sys.modules, "rmm.statistics", types.ModuleType("rmm.statistics"))
    assert watched(lambda: None) == (0, False, False)


@pytest.fixture
def torch(monkeypatch):
    state = types.SimpleNamespace(ready=False, bytes=[0, 0], asked=0)

    def stats(number):
        assert state.ready, "asking would make a context"
        state.asked += 1
        return {"allocated_bytes": {"all": {"allocated": state.bytes[number], "current": 5}}}

    library = types.ModuleType("torch")
    library.cuda = types.SimpleNamespace(
        is_initialized=lambda: state.ready, device_count=lambda: 2, memory_stats_as_nested_dict=stats
    )
    monkeypatch.setitem(sys.modules, "torch", library)
    return state


def test_allocations_of_torch(torch):
    assert watched(lambda: None) == (0, False, False)
    assert torch.asked == 0

    def work():
        torch.ready = True
        torch.bytes[1] += 64

    assert watched(work) == (64, True, True)
    assert watched(lambda: None) == (0, False, False)


def test_allocations_that_rmm_counts(monkeypatch):
    monkeypatch.setitem(sys.modules, "rmm", types.ModuleType("rmm"))
    statistics = types.ModuleType("rmm.statistics")
    counted = [None]
    statistics.get_statistics = lambda: counted[0] and types.SimpleNamespace(total_bytes=counted[0])
    monkeypatch.setitem(sys.modules, "rmm.statistics", statistics)
    assert watched(lambda: None) == (0, False, False)
    counted[0] = 10

    def work():
        counted[0] += 32

    assert watched(work) == (32, True, True)


def test_the_driver_as_a_last_resort(monkeypatch):
    held = [100]
    monkeypatch.setattr(nvml, "memory_of_process", lambda pid: held[0])
    monkeypatch.setitem(sys.modules, "numba.cuda", types.ModuleType("numba.cuda"))

    def work():
        held[0] += 4096

    assert watched(work) == (0, False, False)
    assert watched(work, driver=True) == (4096, True, True)
