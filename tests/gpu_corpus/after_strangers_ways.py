"""Ways to wrap, to dispatch and to speak of devices: written without a look at the inspector, as after_strangers."""

import contextlib
import functools
import operator
import os

import array_api_compat
import cudf
import cupy
import cupy as cp
import numpy as np
import pandas as pd
import torch
from numba import cuda

from gpu_corpus.entries import cpu, depends, gpu

HOST_CONFIG = {"device": "cpu", "batch_size": 32, "precision": "fp32"}


# ---- wrapped


def retried(times):
    def decorate(func):
        @functools.wraps(func)
        def again(*args, **kwargs):
            for _ in range(times - 1):
                with contextlib.suppress(OSError):
                    return func(*args, **kwargs)
            return func(*args, **kwargs)

        return again

    return decorate


def on_gpu(func):
    def there(x):
        return cp.asnumpy(func(cp.asarray(x)))

    return there


def needs_no_gpu(func):
    func.cuda = False
    return func


@gpu
@retried(3)
def retried_read(path):
    return cudf.read_orc(path).to_pandas()


@gpu
@on_gpu
def square_there(x):
    return x * x


@cpu
@needs_no_gpu
def square_here(x):
    return x * x


@cpu
@retried(2)
def retried_host_read(path):
    return pd.read_parquet(path)


class Timed:
    def __init__(self, func):
        self.func = func
        functools.update_wrapper(self, func)

    def __call__(self, *args):
        import time

        began = time.perf_counter()
        return self.func(*args), time.perf_counter() - began


@gpu
@Timed
def timed_solve(a, b):
    return cp.linalg.solve(cp.asarray(a), cp.asarray(b)).get()


@cpu
@Timed
def timed_host_solve(a, b):
    return np.linalg.solve(a, b)


gpu(functools.partial(torch.zeros, 4, device="cuda"), name="after_strangers_ways.partial_of_maker", gives="device")
cpu(functools.partial(torch.zeros, 4, device="cpu"), name="after_strangers_ways.partial_of_host_maker")


def norm_with(x, xp=np):
    return float(xp.linalg.norm(xp.asarray(x)))


gpu(functools.partial(norm_with, xp=cp), name="after_strangers_ways.partial_names_module")
cpu(functools.partial(norm_with, xp=np), name="after_strangers_ways.partial_names_numpy")
cpu(norm_with, name="after_strangers_ways.default_is_numpy")

gpu(operator.methodcaller("cuda"), name="after_strangers_ways.methodcaller_cuda", gives="device")
gpu(operator.methodcaller("to", "cuda"), name="after_strangers_ways.methodcaller_to", gives="device")
cpu(operator.methodcaller("to_numpy"), name="after_strangers_ways.methodcaller_numpy")
depends(operator.methodcaller("sum"), name="after_strangers_ways.methodcaller_sum")
depends(operator.itemgetter(0), name="after_strangers_ways.itemgetter")

gpu(lambda part: cudf.DataFrame(part).sort_values("t"), name="after_strangers_ways.lambda_frame", gives="device")
gpu(lambda x: cupy.asarray(x).sum().item(), name="after_strangers_ways.lambda_cupy")
cpu(lambda s: s.replace("cuda", "gpu"), name="after_strangers_ways.lambda_text")
gpu(cupy.asarray, name="after_strangers_ways.cupy_function", gives="device")


@functools.singledispatch
def describe(x):
    return np.asarray(x).mean()


@describe.register
def _(x: list):
    return sum(x) / len(x)


cpu(describe, name="after_strangers_ways.singledispatch_host")


@functools.singledispatch
def total(x):
    return x.sum()


@total.register(cp.ndarray)
def _total_there(x):
    return cp.sum(x)


depends(total, name="after_strangers_ways.singledispatch_either")


# ---- dask


def upload(part):
    return cudf.from_pandas(part)


def positive(part):
    return part[part.x > 0]


def fused(part):
    return positive(upload(part)).to_pandas()


gpu(fused, name="after_strangers_ways.two_calls_deep_in_one")


@gpu
def whole_graph(x):
    from dask.threaded import get

    return get({"a": (cp.asarray, x), "b": (cp.sum, "a"), "c": (float, "b")}, "c")


@gpu
def map_over_frames(ddf):
    return ddf.map_partitions(cudf.from_pandas).x.sum().compute()


@gpu
def array_backend(n):
    import dask
    import dask.array as da

    with dask.config.set({"array.backend": "cupy"}):
        return float(da.random.random((n, n)).sum().compute())


@cpu
def host_backend(n):
    import dask
    import dask.array as da

    with dask.config.set({"array.backend": "numpy"}):
        return float(da.ones((n, n)).sum().compute())


# ---- dispatch on the input


@depends
def standard_names(x):
    xp = array_api_compat.array_namespace(x)
    return xp.mean(xp.asarray(x), axis=0)


@depends
def its_own_namespace(x):
    xp = x.__array_namespace__()
    return xp.linalg.norm(x)


@depends
def by_protocol(x):
    return np.concatenate([np.sin(x), np.cos(x)])


@depends
def if_on_device(x):
    if isinstance(x, cp.ndarray):
        x = x.get()
    return np.median(x)


@depends
def if_it_is_cuda(t):
    if t.is_cuda:
        torch.cuda.synchronize()
    return t.mean()


@depends
def told_in_options(x, options):
    t = torch.as_tensor(x, device=options.get("device", "cpu"))
    return t.mean()


@depends
def told_by_flag(x, use_gpu=False):
    xp = cp if use_gpu else np
    return xp.fft.rfft(xp.asarray(x))


@depends
def told_on_call(df, engine):
    return (cudf if engine == "cudf" else pd).concat([df, df])


# ---- words and host work


@cpu
def message(x):
    """Runs on CUDA devices one day; uses cupy.asarray and .cuda() then."""
    raise_if = "CUDA error: out of memory"
    return raise_if in str(x)


@cpu
def parse_log(lines):
    return [ln.split("cuda:")[1] for ln in lines if ln.startswith("RuntimeError: CUDA")]


@cpu
def set_threads(x):
    torch.set_num_threads(1)
    return torch.from_numpy(x).float().softmax(-1).numpy()


@cpu
def environment_only(x):
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    return x


@cpu
def named_cuda(cuda_events):
    cuda = cuda_events[0]
    return cuda.start + cuda.duration


@cpu
def method_named_cuda_field(record):
    return record.gpu.price + record.cuda.cores


@cpu
def config_on_host(x):
    return torch.ones(3, device=HOST_CONFIG["device"]).numpy() + x


@cpu
def host_device_literal(x):
    device = torch.device("cpu")
    return torch.as_tensor(x).to(device).to(torch.float64).numpy()


@cpu
def only_types(x):
    return isinstance(x, (cp.ndarray, np.ndarray))


@cpu
def seeds(seed):
    np.random.seed(seed)
    torch.manual_seed(seed)
    return seed


@cpu
def simulated(x):
    with contextlib.suppress(RuntimeError):
        os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")
    return np.cumsum(x)


@cpu
def skip_when_there_is_one(x):
    if cuda.is_available():
        raise RuntimeError("this is the host's path")
    return np.sort(x)


@cpu
def to_another_type(df):
    return df["x"].to_numpy().astype("float32").tobytes()


@cpu
def get_of_dict(d):
    return d.get("cuda", d.get("gpu"))


@cpu
def checked_device_name(device):
    if device not in ("cpu", "cuda", "mps"):
        raise ValueError(f"unknown device {device!r}: one of cpu, cuda, mps")
    return device
