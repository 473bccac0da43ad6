"""Objects and wrappers: written with after_mending."""

import contextlib
from functools import cached_property, lru_cache, partial

import cudf
import cuml
import cupy as cp
import numpy as np
import pandas as pd
import torch
import xgboost as xgb
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from gpu_corpus.entries import cpu, gpu

HOST_BOOSTER = xgb.XGBRegressor(n_estimators=10, device="cpu")


class Lazy:
    @cached_property
    def table(self):
        return cp.linspace(0, 1, 256)

    def look_up(self, index):
        return self.table[cp.asarray(index)].get()

    def size(self):
        return 256


gpu(Lazy().look_up, name="after_mending_shapes.cached_table")
cpu(Lazy().size, name="after_mending_shapes.beside_cached_table")


class Slotted:
    __slots__ = ("device", "xp")

    def __init__(self, device, xp):
        self.device, self.xp = device, xp

    def total(self, x):
        return float(self.xp.asarray(x).sum())

    def moved(self, x):
        return torch.as_tensor(x).to(self.device).sum().item()


gpu(Slotted("cuda", cp).total, name="after_mending_shapes.slots_module")
gpu(Slotted("cuda", cp).moved, name="after_mending_shapes.slots_device")
cpu(Slotted("cpu", np).total, name="after_mending_shapes.slots_host_module")
cpu(Slotted("cpu", np).moved, name="after_mending_shapes.slots_host_device")


@lru_cache(maxsize=4)
def model_on_card(name):
    return torch.jit.load(name).to("cuda").eval()


@gpu
def scored(x, name="model.pt"):
    with torch.no_grad():
        return model_on_card(name)(torch.as_tensor(x).to("cuda")).cpu().numpy()


@contextlib.contextmanager
def card(number):
    with cp.cuda.Device(number):
        yield


@gpu
def inside_own_context(x):
    with card(0):
        return float(cp.asarray(x).sum())


gpu(partial(pd.DataFrame.pipe, func=cudf.from_pandas), name="after_mending_shapes.piped", gives="device")
gpu(make_pipeline(MinMaxScaler(), cuml.KNeighborsClassifier()).fit, name="after_mending_shapes.method_of_made_pipeline")
cpu(make_pipeline(MinMaxScaler(), HOST_BOOSTER).fit, name="after_mending_shapes.method_of_host_pipeline")
