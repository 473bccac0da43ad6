"""What an inspector is easily wrong about: found by looking for it."""

import asyncio
import contextlib
import functools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import cudf
import cupy as cp
import numba
import numpy as np
import torch
import xgboost as xgb
from dask import delayed
from numba import cuda
from torch import cuda as torch_cuda
from torch import nn

from gpu_corpus.entries import cpu, depends, gpu

try:
    import cupy as lib

    HAS_CUPY = True
except ImportError:
    import numpy as lib

    HAS_CUPY = False


def up(x):
    return cp.asarray(x)


def host(x):
    return np.asarray(x)


def score(x, device):
    return torch.tensor(x, device=device)


def either_library(x, *, backend="numpy"):
    return cp.asarray(x) if backend == "cupy" else np.asarray(x)


gpu(functools.partial(score, device=torch.device("cuda")), name="after_hunting.partial_with_device_object")
cpu(functools.partial(score, device="cpu"), name="after_hunting.partial_on_host")
cpu(either_library, name="after_hunting.default_is_host")
gpu(functools.partial(either_library, backend="cupy"), name="after_hunting.told_otherwise")
gpu(functools.partial(np.apply_along_axis, up, 0), name="after_hunting.handed_to_numpy")
gpu(functools.partial(functools.reduce, lambda a, b: cp.add(a, b)), name="after_hunting.handed_to_reduce")
gpu(functools.singledispatch(up), name="after_hunting.dispatched_by_kind")
gpu(functools.partial(functools.partial(score, None), "cuda"), name="after_hunting.partial_of_partial")


@gpu
def module_level_choice(x):
    return float(lib.asarray(x).sum()) if HAS_CUPY else None


@contextlib.contextmanager
def on_device(number=0):
    with cp.cuda.Device(number):
        yield


@gpu
def in_a_context_of_ones_own(x):
    with on_device(1):
        return x * 2


@dataclass
class Settings:
    device: str = "cuda"
    size: int = 3


SETTINGS = Settings()
FUNCTIONS = {"there": lambda x: cp.asarray(x).sum(), "here": np.mean}


@gpu
def settings_object(x, settings=SETTINGS):
    return torch.ones(settings.size, device=settings.device)


@gpu
def from_a_table(x):
    return FUNCTIONS["there"](x)


@cpu
def from_a_table_on_host(x):
    return FUNCTIONS["here"](x)


@depends
def from_a_table_by_name(x, name):
    return FUNCTIONS[name](x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)


class Uploading(Net):
    def forward(self, x):
        return super().forward(x.to("cuda"))


@gpu
def net_on_device(x):
    return Net().cuda()(torch.tensor(x).cuda())


@gpu
def net_that_uploads(x):
    return Uploading()(torch.tensor(x))


@cpu
def net_on_host(x):
    return Net()(torch.tensor(x))


class Service:
    def __init__(self, use_gpu=True):
        self.xp = cp if use_gpu else np

    @functools.cached_property
    def model(self):
        return torch.load("model.pt", map_location="cuda")

    def predict(self, x):
        return self.model(x)

    def total(self, x):
        return self.xp.asarray(x).sum()

    def _move(self, x, where):
        return torch.tensor(x).to(where)

    there = functools.partialmethod(_move, where="cuda")
    here = functools.partialmethod(_move, where="cpu")


gpu(Service().predict, name="after_hunting.cached_property")
gpu(Service().total, name="after_hunting.library_in_an_attribute")
cpu(Service(use_gpu=False).total, name="after_hunting.host_library_in_an_attribute")
gpu(Service().there, name="after_hunting.partial_method")
cpu(Service().here, name="after_hunting.partial_method_on_host")


@functools.cache
def loaded_model():
    return torch.load("model.pt").cuda().eval()


@gpu
def through_a_cache(x):
    return loaded_model()(x)


@gpu
def steps_in_turn(x):
    for step in [up, np.sin]:
        x = step(x)
    return x


@gpu
def in_a_pool(xs):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(up, xs))


@gpu
def delayed_inside(x):
    return delayed(up)(x).compute()


@gpu
def awaited_inside(x):
    async def run():
        return up(x)

    return asyncio.run(run())


@gpu
def by_key(xs):
    return sorted(xs, key=lambda x: float(cp.asarray(x).sum()))


@gpu
def applied(df):
    return df.apply(lambda row: float(cp.asarray(row).sum()), axis=1)


@gpu
def matched(x):
    match x:
        case {"data": data}:
            return cp.asarray(data)
        case [data, *_]:
            return cp.asarray(data)
        case _:
            raise TypeError(x)


@gpu(seen=False)
def params_added_later(x):
    params = {"max_depth": 3}
    params.update(device="cuda")
    return xgb.train(params, xgb.DMatrix(x))


@gpu
def named_arguments(x):
    options = {"device": "cuda"}
    return torch.zeros(3, **options)


@gpu
def memory_pool(x):
    cp.get_default_memory_pool().free_all_blocks()
    return x


@gpu
def old_tensor_type(x):
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    return torch_cuda.FloatTensor(x)


@gpu
def of_several_devices(x, number):
    return torch.tensor(x, device=["cuda:0", "cuda:1"][number])


@cuda.jit
def double_kernel(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


@gpu(seen=False)
def launched_for_all(x):
    double_kernel.forall(len(x))(x)
    return x


@gpu
def class_made_inside(x):
    class Op:
        def run(self, value):
            return cp.sort(value)

    return Op().run(cp.asarray(x))


@gpu
def some_of_them(xs):
    out = []
    for x in xs:
        if x is None:
            continue
        out.append(cp.asnumpy(cp.sqrt(cp.asarray(x))))
    return out


@cpu
def made_from_numba(x):
    return numba.njit(lambda y: y + 1)(x)


@cpu
def own_class_of_that_name(x):
    class cupy:
        @staticmethod
        def asarray(value):
            return value

    return cupy.asarray(x)


class Point(NamedTuple):
    cuda: object
    cupy: int


@cpu
def fields_of_that_name(x):
    return Point(cuda=x, cupy=2).cuda


@cpu
def text_of_that_name(text):
    return json.dumps({"device": "cuda"}) + re.sub("cuda", "cpu", text)


@cpu
def variable_of_that_name(x):
    device = "cuda"
    print(device)
    return x


@cpu
def asks_and_warns(x):
    if torch.cuda.is_available():
        print("a GPU is there, and is not used")
    return np.mean(x)


@cpu
def only_after_an_error(x):
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return cp.linalg.pinv(cp.asarray(x)).get()


@depends
def library_is_an_argument(x, xp=np):
    return xp.sum(x)


@depends
def module_of_its_kind(x):
    if type(x).__module__.split(".")[0] == "cupy":
        return cp.asnumpy(x)
    return x


@depends
def frame_of_either(df):
    if isinstance(df, cudf.DataFrame):
        return df.to_pandas()
    return df


@depends
def like_its_input(a):
    return torch.zeros_like(a) + torch.empty(3, device=a.device)


@depends
def moved_to_the_other(a, b):
    if a.device != b.device:
        b = b.to(a.device)
    return a + b


@depends
def configured_by_argument(x, config):
    if config["gpu"]:
        return cp.asarray(x).sum()
    return np.asarray(x).sum()
