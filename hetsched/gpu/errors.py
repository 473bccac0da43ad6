"""Tell errors of a device from others, by the names of their types and their texts; no GPU library is imported."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["device_error", "is_out_of_device_memory"]

_LIBRARIES: Final = frozenset({
    "cuda", "cudf", "cugraph", "cuml", "cupy", "cupy_backends", "cupyx", "cuspatial", "dask_cuda", "jax", "jaxlib",
    "kvikio", "numba", "nvidia", "pycuda", "pylibraft", "pynvml", "raft", "rmm", "tensorflow", "torch", "ucp",
})  # fmt: skip
_TYPES: Final = re.compile(
    r"^(CUDA\w*Error|Cuda\w*Error|HIP\w*Error|OutOfMemoryError|CUDADriverError|CuSupportError|NVMLError\w*|nvmlError\w*|"
    r"CUBLASError|CURANDError|CUSOLVERError|CuSparseError|cuFFTError|NvrtcError|CompileException|AcceleratorError)$"
)
_TEXTS: Final = re.compile(
    r"CUDA error|CUDA_ERROR_|cudaError|CUDA driver|no CUDA-capable device|CUDA out of memory|hipError|HIP error|"
    r"No CUDA GPUs are available|invalid device context|context is destroyed|CUBLAS_STATUS|CUDNN_STATUS|"
    r"CUSOLVER_STATUS|RESOURCE_EXHAUSTED|device memory|out of memory on device|Cannot re-initialize CUDA",
)
_MEMORY: Final = re.compile(
    r"out of memory|out_of_memory|MemoryAllocation|RESOURCE_EXHAUSTED|std::bad_alloc|ALLOC_FAILED|"
    r"maximum pool size exceeded",
    re.IGNORECASE,
)
_GENERAL: Final = frozenset({"JaxRuntimeError", "MemoryError", "OSError", "RuntimeError", "XlaRuntimeError"})
_MOST_CAUSES: Final = 4


def device_error(error: BaseException) -> str | None:
    """Say in a word or two what error of a device this is, or is caused by; None where it is another.

    Known are those of CuPy, torch, numba, RMM and RAPIDS, JAX and the CUDA bindings. A library's type of error is one
    by its name; a general type (RuntimeError) only if the text speaks of a device.
    """
    seen: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if seen is None:
            return None
        if _is_one(seen):
            return f"{type(seen).__name__}: {_text(seen)}"[:200]
        seen = seen.__cause__
    return None


def is_out_of_device_memory(error: BaseException) -> bool:
    """Tell whether an error, or what it is caused by, says that a device has no memory left."""
    seen: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if seen is None:
            return False
        if _is_one(seen) and (type(seen).__name__ in _MEMORY_TYPES or _MEMORY.search(_text(seen))):
            return True
        seen = seen.__cause__
    return False


_MEMORY_TYPES: Final = frozenset({"OutOfMemoryError"})


def _is_one(error: BaseException) -> bool:
    for kind in type(error).__mro__:
        library = str(getattr(kind, "__module__", "")).partition(".")[0]
        if library in _LIBRARIES and _TYPES.match(kind.__name__):
            return True
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & _GENERAL) and bool(_TEXTS.search(_text(error)) or _is_bad_alloc(error))


def _is_bad_alloc(error: BaseException) -> bool:
    """RMM raises a plain MemoryError with the text of its C++ exception."""
    text = _text(error)
    return isinstance(error, MemoryError) and "CUDA" in text and ("rmm" in text or "std::bad_alloc" in text)


def _text(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except Exception:  # a person's class
        return ""
