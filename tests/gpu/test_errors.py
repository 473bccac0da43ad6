"""Errors of devices are known by their types' names and texts, as the libraries word them."""

from __future__ import annotations

import pytest

from hetsched.gpu.errors import device_error, is_out_of_device_memory


def error_of(module, name, text, base=RuntimeError):
    """An error of a type that says it is of a library's module."""
    return type(name, (base,), {"__module__": module})(text)


CONTEXT = [
    error_of("cupy_backends.cuda.api.runtime", "CUDARuntimeError", "cudaErrorNoDevice: no device is detected"),
    error_of("cupy_backends.cuda.api.driver", "CUDADriverError", "CUDA_ERROR_INVALID_CONTEXT: invalid device context"),
    error_of("cupy_backends.cuda.libs.cublas", "CUBLASError", "CUBLAS_STATUS_NOT_INITIALIZED"),
    error_of("numba.cuda.cudadrv.driver", "CudaAPIError", "Call to cuCtxGetDevice: CUDA_ERROR_INVALID_CONTEXT"),
    error_of("numba.cuda.cudadrv.error", "CudaSupportError", "Error at driver init"),
    RuntimeError("CUDA error: initialization error\nCUDA kernel errors might be asynchronously reported"),
    RuntimeError("Cannot re-initialize CUDA in forked subprocess"),
    RuntimeError("No CUDA GPUs are available"),
    error_of("pynvml", "NVMLError_LibraryNotFound", "NVML Shared Library Not Found", Exception),
]
MEMORY = [
    error_of("cupy.cuda.memory", "OutOfMemoryError", "Out of memory allocating 8,000,000,000 bytes", MemoryError),
    error_of("torch", "OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 MiB"),
    error_of("torch.cuda", "OutOfMemoryError", "CUDA out of memory."),
    RuntimeError("CUDA error: out of memory"),
    MemoryError("std::bad_alloc: out_of_memory: CUDA error at: /rmm/include/rmm/mr/device/cuda_memory_resource.hpp"),
    error_of("jaxlib.xla_extension", "XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory allocating 4 bytes"),
    error_of("numba.cuda.cudadrv.driver", "CudaAPIError", "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
    error_of("cupy_backends.cuda.api.runtime", "CUDARuntimeError", "cudaErrorMemoryAllocation: out of memory"),
]
OTHERS = [
    ValueError("CUDA error: not by its type"),
    RuntimeError("a cuda-like mishap"),
    MemoryError("Unable to allocate 8.00 GiB for an array"),
    error_of("torch.nn.modules", "ModuleAttributeError", "no attribute", AttributeError),
    error_of("mine", "OutOfMemoryError", "of my own", Exception),
    KeyError("cupy"),
]


@pytest.mark.parametrize("error", [*CONTEXT, *MEMORY], ids=str)
def test_errors_of_a_device(error) -> None:
    assert device_error(error) == f"{type(error).__name__}: {error}"[:200]


@pytest.mark.parametrize("error", OTHERS, ids=str)
def test_other_errors(error) -> None:
    assert device_error(error) is None
    assert not is_out_of_device_memory(error)


def test_only_some_are_for_want_of_memory() -> None:
    assert [is_out_of_device_memory(error) for error in CONTEXT] == [False] * len(CONTEXT)
    assert [is_out_of_device_memory(error) for error in MEMORY] == [True] * len(MEMORY)


def test_what_caused_an_error_counts() -> None:
    outer = ValueError("the model could not be fitted")
    outer.__cause__ = MEMORY[0]
    assert device_error(outer) == "OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes"
    assert is_out_of_device_memory(outer)
    ring = ValueError("its own cause")
    ring.__cause__ = ring
    assert device_error(ring) is None


def test_an_error_whose_text_fails() -> None:
    class Mute(RuntimeError):
        def __str__(self) -> str:
            raise OSError

    assert device_error(Mute()) is None
