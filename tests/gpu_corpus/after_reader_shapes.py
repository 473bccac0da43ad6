"""More by the other reader: how functions are made, bound, and told which device to use."""

import dataclasses
import functools
import logging
import os
import subprocess

import cudf
import cupy
import cupy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import torch
from numba import cuda, njit

from gpu_corpus.entries import cpu, depends, gpu

log = logging.getLogger(__name__)


@dataclasses.dataclass
class Scale:
    factor: float
    device: str = "cuda"

    def __call__(self, x):
        return (torch.as_tensor(x, device=self.device) * self.factor).cpu().numpy()


gpu(Scale(2.0), name="after_reader_shapes.34")
cpu(Scale(2.0, "cpu"), name="after_reader_shapes.35")


@dataclasses.dataclass(frozen=True)
class Log:
    where: str = "cuda"

    def __call__(self, x):
        return {"backend": self.where, "mean": float(np.mean(x))}


cpu(Log(), name="after_reader_shapes.36")


class Model:
    def __init__(self):
        self.w = np.ones(3)

    def predict(self, x):
        return cp.asnumpy(cp.asarray(x) @ cp.asarray(self.w))

    def host(self, x):
        return x @ self.w

    @staticmethod
    def up(x):
        return cp.asarray(x)

    @classmethod
    def make(cls, x):
        return cls.up(x)


m = Model()
gpu(m.predict, name="after_reader_shapes.37")
cpu(m.host, name="after_reader_shapes.38")
gpu(Model.predict, name="after_reader_shapes.39")
gpu(Model.up, name="after_reader_shapes.40")
gpu(Model.make, name="after_reader_shapes.41")
gpu(functools.partial(m.predict), name="after_reader_shapes.42")
cpu(functools.partial(Model.host, m), name="after_reader_shapes.43")


@depends
def xp_of(x):
    xp = cupy.get_array_module(x)
    return xp.sqrt(xp.abs(x))


@depends
def nep18(x):
    return np.mean(np.abs(x), axis=0)


@cpu
def torch_cpu(x):
    t = torch.from_numpy(x)
    return torch.fft.rfft(t).abs().numpy()


@cpu
def mentions_cuda(df):
    # runs before cuda
    log.info("moving to cuda later")
    return df[df.gpu == "cuda"].rename(columns={"cuda": "n"})


@depends
def move(x, device):
    return torch.as_tensor(x).to(device)


gpu(functools.partial(move, device="cuda:1"), name="after_reader_shapes.49")
cpu(functools.partial(move, device="cpu"), name="after_reader_shapes.50")


@gpu
def maybe(x):
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.as_tensor(x).to(dev).sum().cpu()


@gpu
def fallback(x):
    try:
        import cupy as xp
    except ImportError:
        import numpy as xp
    return xp.asarray(x).sum()


def retry(n):
    def deco(f):
        @functools.wraps(f)
        def inner(*a, **k):
            for _ in range(n):
                try:
                    return f(*a, **k)
                except RuntimeError:
                    log.warning("again")
            return None

        return inner

    return deco


@gpu
@retry(3)
def decorated(x):
    return cp.linalg.svd(cp.asarray(x))


@cpu
@retry(3)
def decorated_cpu(x):
    return np.linalg.svd(x)


@cuda.jit
def kern(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * 2


@gpu
def launch(x):
    out = np.empty_like(x)
    kern[(x.size + 127) // 128, 128](x, out)
    return out


@njit
def host_k(x):
    return x.sum()


@cpu
def call_host(x):
    return host_k(x)


@cuda.reduce
def red(a, b):
    return a + b


gpu(lambda x: red(x), name="after_reader_shapes.57")


@jax.jit
def jf(x):
    return jnp.sum(x**2)


cpu(jf, name="after_reader_shapes.jf")


@gpu
def jax_dev(x):
    return jax.device_put(x, jax.devices("gpu")[0]).sum()


@cpu
def jax_cpu(x):
    with jax.default_device(jax.devices("cpu")[0]):
        return jnp.dot(x, x)


@depends
def part(df: cudf.DataFrame):
    df["z"] = df.x + df.y
    return df


@gpu
def part_named(df: pd.DataFrame):
    gdf = cudf.from_pandas(df)
    return gdf.groupby("k").agg({"v": "mean"}).to_pandas()


gpu(lambda df: cudf.DataFrame(df).merge(cudf.DataFrame(df), on="k"), name="after_reader_shapes.63")


def up_then(f, x):
    return f(cp.asarray(x))


gpu(functools.partial(up_then, np.sum), name="after_reader_shapes.64")


def closure():
    w = cp.ones(4)

    def inner(x):
        return x @ w

    return inner


gpu(closure(), name="after_reader_shapes.65")


@cpu
def info():
    return torch.cuda.device_count(), torch.version.cuda


@gpu
def empty(x):
    torch.cuda.empty_cache()
    return x


@gpu
def free():
    cp.get_default_memory_pool().free_all_blocks()


@cpu
def isit(x):
    return isinstance(x, (cp.ndarray, cudf.Series))


@depends
def tohost(x):
    if isinstance(x, cp.ndarray):
        x = x.get()
    return np.asarray(x)


@depends
def tohost2(x):
    return x.get() if hasattr(x, "get") else x


@gpu
def tohost3(x):
    return cp.asnumpy(x)


@gpu
def load(path):
    return torch.load(path, map_location="cuda")


@cpu
def load_cpu(path):
    return torch.load(path, map_location="cpu")


@gpu
def amp(x, model):
    with torch.autocast("cuda"):
        return model(x)


@gpu
def set_default(x):
    torch.set_default_device("cuda")
    return torch.zeros(3)


@gpu
def pinned(x):
    return torch.from_numpy(x).pin_memory()


@cpu
def dtype_only(x):
    return x.astype(cp.float32)


@cpu
def const(x):
    return x * cp.pi


@gpu
def gener(xs):
    return [cp.asarray(x).sum() for x in xs]


@gpu
def read(p):
    return cudf.read_parquet(p)


@cpu
def env(x):
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    return x


@cpu
def sub(x):
    return subprocess.run(["nvidia-smi"], capture_output=True)


@gpu
def kwdefault(x, *, device=torch.device("cuda")):  # noqa: B008 - as people do
    return torch.zeros(len(x), device=device)


@gpu
def cfg(x, cfg={"device": "cuda"}):  # noqa: B006 - as people do
    return torch.ones(3).to(cfg["device"])


@cpu
def seed(s):
    np.random.seed(s)
    torch.manual_seed(s)
    torch.cuda.manual_seed_all(s)
    return np.random.rand(3)


@depends
def match(x, kind):
    match kind:
        case "a":
            return cp.asarray(x)
        case _:
            return np.asarray(x)


@gpu
def walrus(x):
    if (g := cp.asarray(x)).size > 3:
        return g.sum().get()
    return 0


@gpu
async def co(x):
    return cp.asarray(x)


@gpu
def gen(x):
    yield cp.asarray(x)
