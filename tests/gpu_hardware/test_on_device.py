"""Detection on a real device, with CuPy and torch: what stand-ins and made-up types cannot show.

`make gpu-test` runs these; where there is no device they are skipped.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator

import numpy as np
import pytest

from hetsched.core.evidence import STRONG
from hetsched.gpu import code, nvml
from hetsched.gpu.devices import bind_device, count_devices, visible_devices
from hetsched.gpu.objects import Device, cuda_nbytes, devices_of
from hetsched.gpu.probes import Probe, active

pytestmark = pytest.mark.gpu

MIB = 1 << 20


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no device")
    return torch


# Devices.


def test_the_driver_and_the_libraries_count_alike(cupy):
    assert count_devices() == cupy.cuda.runtime.getDeviceCount() == len(visible_devices())
    memory = visible_devices()[0].memory
    assert memory == 0 or memory >= cupy.cuda.Device(0).mem_info[1] * 0.95


def test_binding_makes_a_device_the_current_one(cupy):
    last = count_devices() - 1
    bind_device(last)
    assert cupy.cuda.Device().id == last
    bind_device(0)


# Objects.


@pytest.mark.parametrize("shape", [(), (0,), (1000,), (300, 400), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", ["f4", "i8", "?", "c16"])
def test_arrays_of_cupy_have_their_own_nbytes(cupy, shape, dtype):
    array = cupy.zeros(shape, dtype)
    assert cuda_nbytes(array) == array.nbytes
    assert devices_of(array) == (Device("cuda", 0),)


def test_a_list_of_arrays_takes_what_the_pool_gave(cupy):
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        before = pool.used_bytes()
        arrays = [cupy.zeros(512 * n, "f4") for n in range(1, 20)]
        assert cuda_nbytes(arrays) == pool.used_bytes() - before


def test_views_and_copies(cupy):
    array = cupy.zeros((100, 100))
    assert cuda_nbytes([array, array[10:20], array.T, array.ravel()]) == array.nbytes
    assert cuda_nbytes([array, array.copy()]) == 2 * array.nbytes
    assert cuda_nbytes(cupy.broadcast_to(cupy.zeros(10), (1000, 10))) == 80


def test_memory_that_is_not_the_devices(cupy):
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(800), count=100)
    assert cuda_nbytes(pinned) == cuda_nbytes(cupy.asnumpy(cupy.zeros(10))) == 0


def test_managed_memory_is(cupy):
    with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
        assert cuda_nbytes(cupy.zeros(100)) == 800


def test_sparse_matrices(cupy):
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    matrix = sparse.random(100, 100, 0.1, format="csr")
    assert cuda_nbytes(matrix) == matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes


def test_tensors_and_modules(torch):
    tensor = torch.zeros(100, 100, device="cuda", requires_grad=True)
    assert cuda_nbytes(tensor) == 40_000
    assert devices_of(tensor) == (Device("cuda", 0),)
    tensor.sum().backward()
    assert cuda_nbytes(tensor) == 80_000
    assert cuda_nbytes(tensor.detach()[::2]) == 20_000
    assert cuda_nbytes(torch.zeros(5)) == cuda_nbytes(torch.zeros(5, requires_grad=True)) == 0
    model = torch.nn.Linear(10, 10)
    assert cuda_nbytes(model) == 0
    assert cuda_nbytes(model.cuda()) == 440
    assert cuda_nbytes({"model": model, "weight": model.weight}) == 440
    sparse = torch.eye(10, device="cuda").to_sparse()
    assert cuda_nbytes(sparse) == 10 * 4 + 2 * 10 * 8
    assert cuda_nbytes(torch.eye(10, device="cuda").to_sparse_csr()) == 10 * 4 + 10 * 8 + 11 * 8


def test_one_memory_through_two_libraries(cupy, torch):
    array = cupy.zeros(1000, "f4")
    assert cuda_nbytes([array, torch.as_tensor(array, device="cuda")]) == 4000


def test_asking_waits_for_no_device(cupy):
    array = cupy.ones((4000, 4000), "f4")
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(30):
        array = array @ array
    end.record()
    cuda_nbytes([array]), devices_of(array)
    assert not end.done, "the device was waited for, or was quicker than expected"
    end.synchronize()


# Probes.


def test_what_cupy_allocates(cupy):
    probe = Probe()
    assert active()
    probe.start()
    kept = cupy.zeros(MIB, "u1")
    assert probe.stop() >= MIB
    assert probe.touched
    assert not probe.process_wide
    probe.start()
    assert probe.stop() == 0
    assert not probe.touched
    del kept


def test_what_torch_allocates(torch):
    torch.zeros(1, device="cuda")
    probe = Probe()
    probe.start()
    torch.zeros(MIB, device="cuda", dtype=torch.uint8)
    assert probe.stop() >= MIB
    assert probe.touched


def test_what_the_driver_sees(cupy):
    if nvml.list_gpus() is None:
        pytest.skip("the driver's management library does not answer")
    probe = Probe(driver=True)
    probe.start()
    memory = cupy.cuda.memory.Memory(256 * MIB)  # from the device, not from a pool
    seen = probe.stop()
    del memory
    if not seen:
        pytest.skip("the driver does not tell processes apart here (containers have their own process numbers)")
    assert seen >= 256 * MIB


# Code that runs: what is said of it beforehand is what it does.


@contextlib.contextmanager
def watched() -> Iterator[Probe]:
    probe = Probe()
    probe.start()
    try:
        yield probe
    finally:
        probe.stop()


def runnable(cupy) -> dict[str, tuple[types.FunctionType, bool]]:
    """Functions that take a numpy array, and whether they use a device."""
    np_or_cp = {"there": cupy, "here": np}
    kernel = cupy.ElementwiseKernel("float64 x", "float64 y", "y = x * x", "square")

    def there_and_back(x):
        return cupy.asnumpy(cupy.sin(cupy.asarray(x)))

    def stays(x):
        return cupy.asarray(x).cumsum()

    def by_kernel(x):
        return kernel(cupy.asarray(x)).get()

    def chosen(x, where="there"):
        return np_or_cp[where].asarray(x).sum()

    def random(x):
        return float(cupy.random.default_rng(0).random(len(x)).sum())

    def on_host(x):
        return np.sin(x) if cupy.cuda.is_available() else x

    def kind(x):
        return isinstance(x, cupy.ndarray), x.astype(cupy.float32)

    def dispatched(x):
        return cupy.get_array_module(x).sum(x)

    found = {f.__name__: (f, True) for f in (there_and_back, stays, by_kernel, random)}
    found.update({f.__name__: (f, False) for f in (on_host, kind, dispatched)})
    found["partial_there"] = (functools.partial(chosen, where="there"), True)
    found["partial_here"] = (functools.partial(chosen, where="here"), False)
    return found


NAMES = (
    "there_and_back",
    "stays",
    "by_kernel",
    "random",
    "on_host",
    "kind",
    "dispatched",
    "partial_there",
    "partial_here",
)


@pytest.mark.parametrize("name", NAMES)
def test_code_does_what_is_said_of_it(cupy, name):
    func, uses = runnable(cupy)[name]
    assert any(e.weight >= STRONG for e in code.evidence_of(func)) is uses, code.evidence_of(func)
    with watched() as probe:
        func(np.arange(10.0))
    assert probe.touched is uses


def test_code_of_torch_does_what_is_said_of_it(torch):
    def there(x):
        return torch.as_tensor(x).to("cuda").sum().item()

    def here(x):
        return torch.as_tensor(x).sum().item()

    torch.zeros(1, device="cuda")
    for func, uses in ((there, True), (here, False)):
        assert any(e.weight >= STRONG for e in code.evidence_of(func)) is uses
        with watched() as probe:
            func(np.arange(1000.0))
        assert probe.touched is uses


INPUTS = {
    "x": lambda: np.linspace(0, 1, 64).reshape(8, 8),
    "block": lambda: np.arange(16.0),
    "image": lambda: np.ones((8, 8)),
    "parts": lambda: [np.arange(4.0), np.arange(5.0)],
    "chunks": lambda: [np.arange(4.0), np.arange(5.0)],
    "kernel": lambda: np.ones((3, 3)),
    "xs": lambda: [np.arange(4.0), np.arange(5.0)],
    "seed": lambda: 0,
    "shape": lambda: (4, 4),
    "n": lambda: 16,
}
WANT_TWO = ("on_second_device", "moved_to_numbered")  # devices
REAL = ("before_cupy", "before_torch", "before_mentions", "after_shapes")  # which use CuPy, torch and numpy alone


def test_entries_of_the_corpus_that_can_run(cupy, torch):
    """Plain functions of the corpus whose arguments are known by name: a GPU task is seen to be one when it has run."""
    from gpu_corpus.loading import corpus

    ran, wrong = 0, []
    with corpus(real=True) as entries:
        for entry in entries:
            part, _, last = entry.name.partition(".")
            if not isinstance(entry.func, types.FunctionType) or entry.answer == "depends" or part not in REAL:
                continue
            names = entry.func.__code__.co_varnames[: entry.func.__code__.co_argcount]
            required = names[: len(names) - len(entry.func.__defaults__ or ())]
            if not set(required) <= set(INPUTS) or last in WANT_TWO:
                continue
            given = [INPUTS[name]() for name in required]
            if entry.takes == "device":
                given = [cupy.asarray(value) if isinstance(value, np.ndarray) else value for value in given]
            try:
                with watched() as probe:
                    result = entry.func(*given)
            except Exception:  # not made for these inputs
                continue
            finally:
                torch.set_default_device("cpu")
            ran += 1
            used = probe.touched or cuda_nbytes(result) > 0 or entry.takes == "device"
            if used is not (entry.answer == "gpu") and entry.seen:
                wrong.append(entry.name)
    assert ran >= 15
    assert not wrong
