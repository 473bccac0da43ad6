"""CuPy, as people use it: imported at the top, uploads, kernels, downloads."""

import cupy
import cupy as cp
import cupyx.scipy.ndimage
import numpy as np
from cupy import asarray as to_gpu
from cupy.linalg import svd
from cupyx.scipy import signal

from gpu_corpus.entries import cpu, depends, gpu

square = cp.ElementwiseKernel("float32 x", "float32 y", "y = x * x", "square")
raw = cp.RawKernel(r"extern C __global__ void add(float* x) {}", "add")
weights = cp.arange(10)


@gpu
def there_and_back(x):
    return cp.asnumpy(cp.sin(cp.asarray(x)))


@gpu(gives="device")
def upload(block):
    return cp.asarray(block)


@gpu(gives="device")
def upload_renamed(block):
    return to_gpu(block)


@gpu
def singular_values(x):
    _, s, _ = svd(to_gpu(x), full_matrices=False)
    return s.get()


@gpu(takes="device", gives="device")
def kernel_call(x):
    return square(x)


@gpu(takes="device", gives="device")
def raw_kernel(x):
    raw((32,), (256,), (x,))
    return x


@gpu(takes="device", gives="device")
def smooth(image, sigma=2.0):
    return cupyx.scipy.ndimage.gaussian_filter(image, sigma=sigma)


@gpu
def convolve(x, kernel):
    out = signal.fftconvolve(cp.asarray(x), cp.asarray(kernel), mode="same")
    return out.get()


@gpu(gives="device")
def made_there(seed, shape):
    rng = cupy.random.default_rng(seed)
    return rng.standard_normal(shape)


@gpu
def on_second_device(x):
    with cp.cuda.Device(1):
        y = cp.array(x)
        return float((y * y).sum())


@gpu
def streamed(chunks):
    stream = cp.cuda.Stream(non_blocking=True)
    total = 0
    with stream:
        for chunk in chunks:
            total += cp.asarray(chunk).sum()
    stream.synchronize()
    return float(total)


@gpu(takes="device", seen=False)
def download(x):
    return cp.asnumpy(x)


@gpu
def dot_with_global(x):
    return float((cp.asarray(x) @ weights).get())


@gpu(takes="device")
def with_global_alone(x):
    return x @ weights


@gpu
def imported_inside(x):
    import cupy as xp

    return xp.asnumpy(xp.fft.fft(xp.asarray(x)))


@gpu
def imported_from_inside(x):
    from cupy import asarray, asnumpy

    return asnumpy(asarray(x) ** 2)


@gpu
def in_a_comprehension(parts):
    return [float(cp.asarray(p).max()) for p in parts]


@gpu
def inner_function(parts):
    def one(p):
        return cp.asnumpy(cp.sort(cp.asarray(p)))

    return list(map(one, parts))


@depends
def array_module(x):
    xp = cp.get_array_module(x)
    return xp.exp(x) / xp.exp(x).sum()


@depends
def kind_checked(x):
    if isinstance(x, cp.ndarray):
        return cp.linalg.norm(x)
    return np.linalg.norm(x)


@depends
def by_dispatch(x):
    return np.sum(np.sin(x) ** 2)


@depends
def host_copy(x):
    return x.get() if hasattr(x, "get") else x


@cpu
def plain_numpy(x):
    return np.asarray(x).mean(axis=0)


@cpu
def dtype_only(x):
    return np.asarray(x).astype(np.float32) * np.pi
