"""The shapes that code comes in: decorators, classes, partials, generators, aliases, flags, guards, fallbacks."""

import contextlib
import functools
import importlib
import operator

import cupy as cp
import numpy as np
import torch

from gpu_corpus.entries import cpu, depends, gpu

xp = cp
on_host = np
USE_GPU = True
NO_GPU = False

try:
    import cupy_is_not_there as missing
except ImportError:
    missing = None


@gpu
def through_alias(x):
    return float(xp.asarray(x).sum())


@cpu
def through_host_alias(x):
    return float(on_host.asarray(x).sum())


@gpu
def behind_true_flag(x):
    if USE_GPU:
        return cp.asnumpy(cp.cumsum(cp.asarray(x)))
    return np.cumsum(x)


@cpu
def behind_missing_module(x):
    if missing is not None:
        return missing.asarray(x)
    return np.asarray(x)


@gpu
def uploads_what_is_not_there(x):
    if not isinstance(x, cp.ndarray):
        x = cp.asarray(x)
    return float(x.mean())


@gpu
def after_a_guard(x):
    if x is None or len(x) == 0:
        return None
    return cp.asnumpy(cp.unique(cp.asarray(x)))


@gpu
def refuses_others(x):
    if x.ndim != 2:
        raise ValueError(f"two dimensions are needed, not {x.ndim}")
    return cp.linalg.inv(cp.asarray(x)).get()


@gpu
def both_ways(x, how):
    there = None
    if how == "mean":
        there = cp.mean(cp.asarray(x))
    elif how == "median":
        there = cp.median(cp.asarray(x))
    else:
        raise ValueError(how)
    return float(there)


@gpu
def with_retry(x):
    for _ in range(3):
        with contextlib.suppress(cp.cuda.memory.OutOfMemoryError):
            return cp.asnumpy(cp.asarray(x) * 2)
    return None


@gpu
def falls_back_when_it_fails(x):
    try:
        return cp.asnumpy(cp.linalg.eigvalsh(cp.asarray(x)))
    except cp.cuda.runtime.CUDARuntimeError:
        return np.linalg.eigvalsh(x)


@cpu
def catches_only(x):
    try:
        return np.linalg.inv(x)
    except (ValueError, cp.cuda.runtime.CUDARuntimeError):
        return None


@depends
def large_ones_only(x):
    if x.nbytes > 1_000_000:
        return cp.asnumpy(cp.sort(cp.asarray(x)))
    return np.sort(x)


@depends
def chosen_by_name(x, backend):
    lib = cp if backend == "cupy" else np
    return lib.asarray(x).sum()


@depends
def by_interface(x):
    if hasattr(x, "__cuda_array_interface__"):
        return float(cp.asarray(x).sum())
    return float(np.sum(x))


@depends
def converts_back(x):
    if isinstance(x, cp.ndarray):
        x = cp.asnumpy(x)
    return np.median(x)


@depends
def dtype_of_either(x):
    module = np if isinstance(x, np.ndarray) else cp
    return module.asarray(x, dtype=module.float32)


@depends
def any_array_module(x):
    module = x.__array_namespace__()
    return module.sum(x * x)


def logged(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        print("start", func.__name__)
        return func(*args, **kwargs)

    return wrapper


def unnamed(func):
    def inner(*args):
        return func(*args)

    return inner


def repeated(times):
    def decorate(func):
        def again(*args):
            for _ in range(times):
                out = func(*args)
            return out

        return again

    return decorate


@gpu
@logged
def decorated(x):
    return cp.asarray(x).sum().get()


@gpu
@repeated(times=2)
@unnamed
def decorated_twice(x):
    return cp.asarray(x).sum().get()


@cpu
@logged
def decorated_on_host(x):
    return np.asarray(x).sum()


@gpu
@functools.lru_cache(maxsize=8)
def cached(n):
    return cp.arange(n).sum().get()


@gpu
@torch.no_grad()
def without_gradients(x):
    return torch.as_tensor(x).to("cuda").sigmoid().cpu().numpy()


class Model:
    device = "cuda"
    xp = np

    def __init__(self, path, where="cuda:0"):
        self.path = path
        self.where = where
        self.net = None

    def predict(self, x):
        return torch.as_tensor(x).to(self.device).mean().item()

    def predict_there(self, x):
        return torch.as_tensor(x).to(self.where).mean().item()

    def on_host(self, x):
        return self.xp.asarray(x).mean()

    def name(self):
        return f"model on {self.device}"

    def pipeline(self, x):
        return self._last(self._first(x))

    def _first(self, x):
        return np.asarray(x)

    def _last(self, x):
        return cp.asnumpy(cp.asarray(x))

    @staticmethod
    def static(x):
        return cp.asarray(x).get()

    @classmethod
    def made(cls, x):
        return cls("p").predict(x)

    @property
    def place(self):
        return torch.device(self.where)

    def by_property(self, x):
        return torch.ones(3, device=self.place).sum().item()


class OnHost(Model):
    device = "cpu"

    def __init__(self):
        super().__init__("p", "cpu")


gpu(Model("p").predict, name="after_shapes.class_attribute")
gpu(Model("p").predict_there, name="after_shapes.instance_attribute")
gpu(Model("p").pipeline, name="after_shapes.method_of_methods")
gpu(Model("p").by_property, name="after_shapes.property")
gpu(Model.static, name="after_shapes.static_method")
gpu(Model.made, name="after_shapes.class_method")
cpu(Model("p").on_host, name="after_shapes.numpy_in_a_class")
cpu(Model("p").name, name="after_shapes.only_names_it")
cpu(OnHost().predict, name="after_shapes.subclass_on_host")
cpu(OnHost().predict_there, name="after_shapes.instance_on_host")


@gpu
def instance_made_inside(x):
    return Model("p").pipeline(x)


def over(array):
    return lambda x: (x * array).sum()


gpu(over(cp.arange(3)), name="after_shapes.closure_over_device_array", takes="device")
depends(over(np.arange(3)), name="after_shapes.closure_over_host_array")
gpu(functools.partial(over(np.arange(3)), cp.arange(3)), name="after_shapes.partial_over_device_array")
gpu(lambda x: cp.asarray(x).get(), name="after_shapes.lambda_on_device")
gpu(operator.methodcaller("cuda"), name="after_shapes.methodcaller", gives="device")
gpu(functools.partial(map, cp.asnumpy), name="after_shapes.partial_of_builtin", takes="device")
gpu(cp.asarray, name="after_shapes.library_function", gives="device")
cpu(functools.partial(np.sum, axis=0), name="after_shapes.partial_of_numpy")
cpu(operator.itemgetter(0), name="after_shapes.itemgetter")


@gpu
def generated(parts):
    for part in parts:
        yield cp.asnumpy(cp.asarray(part) + 1)


@gpu
async def awaited(x):
    return cp.asnumpy(cp.asarray(x))


@gpu
def one_loop(xs):
    total = 0
    while xs:
        total += float(cp.asarray(xs.pop()).sum())
    return total


@gpu
def by_importlib(x):
    lib = importlib.import_module("cupy")
    return lib.asarray(x).sum().get()


@gpu
def by_getattr(x, name="sqrt"):
    return getattr(cp, name)(cp.asarray(x)).get()


@gpu
def passed_to_map(xs):
    return [v.get() for v in map(cp.asarray, xs)]


@gpu
def by_like(x):
    return np.asarray(x, like=cp.empty(())).sum()


@gpu
def two_modules(x):
    host = np.fft.fft(x)
    there = cp.fft.fft(cp.asarray(x))
    return np.abs(host - cp.asnumpy(there)).max()


@cpu
def shadowed(x):
    cp = np
    return cp.asarray(x).sum()


@cpu
def attribute_called_cuda(settings):
    return settings.cuda.enabled, settings["cupy"]


@cpu
def version_of(name="cupy"):
    return importlib.metadata.version(name)


@cpu
def only_counts():
    return cp.cuda.runtime.getDeviceCount()


@cpu
def free_name(x):
    to_device = {"cuda": 1}
    return to_device.get("cuda", x)
