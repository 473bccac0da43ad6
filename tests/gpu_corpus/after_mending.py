"""Written when what after_strangers had shown was mended, before the inspector was run over them: a second try."""

import asyncio
import enum
import importlib
import json
import logging
import threading
from argparse import Namespace
from functools import reduce
from typing import NamedTuple

import cudf
import cuml
import cupy as cp
import jax
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import sklearn.base
import torch
import xgboost as xgb
from cuml.linear_model import Ridge
from cuml.svm import SVR
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from torch import nn

from gpu_corpus.entries import cpu, depends, gpu

log = logging.getLogger(__name__)


class Where(enum.StrEnum):
    GPU = "cuda"
    HOST = "cpu"


class Settings(enum.Enum):
    device = "cuda:1"



class Setup(NamedTuple):
    device: str
    xp: object


ON_CARD = Setup("cuda", cp)
ON_HOST = Setup("cpu", np)
ARGS = Namespace(device="cuda", epochs=3)
HOST_ARGS = Namespace(device="cpu", epochs=3)
BASIS = [cp.ones(4), cp.zeros(4)]
HOST_BASIS = [np.ones(4), np.zeros(4)]
STEPS = {"load": cudf.read_csv, "clean": lambda df: df.dropna()}
HOST_STEPS = {"load": pd.read_csv, "clean": lambda df: df.dropna()}
BOOSTER = xgb.XGBRegressor(n_estimators=10, device="cuda")
HOST_BOOSTER = xgb.XGBRegressor(n_estimators=10, device="cpu")
LIGHT = lgb.LGBMClassifier(device="gpu")
MODEL = Ridge()
LOCK = threading.Lock()
REGISTRY = {}


def whiten(X):
    X = cp.asarray(X)
    return cp.asnumpy((X - X.mean(0)) / X.std(0))


def centre(X):
    return X - X.mean(0)


UNION = FeatureUnion([("scaled", MinMaxScaler()), ("white", FunctionTransformer(whiten))])
HOST_UNION = FeatureUnion([("scaled", MinMaxScaler()), ("centred", FunctionTransformer(centre))])
MULTI = MultiOutputRegressor(SVR())


def namespace():
    return cp


def host_namespace():
    return np


def registered(name):
    def note(func):
        REGISTRY[name] = func
        return func

    return note


@gpu
def by_enum(x):
    return torch.as_tensor(x).to(Where.GPU.value).sum().item()


@gpu
def by_enum_itself(x):
    return torch.as_tensor(x, device=Settings.device.value).sum().item()


@cpu
def by_host_enum(x):
    return torch.as_tensor(x).to(Where.HOST.value).sum().item()


@gpu
def by_named_tuple(x):
    return torch.as_tensor(x, device=ON_CARD.device).mean().item()


@gpu(gives="device")
def by_module_in_tuple(n):
    return ON_CARD.xp.arange(n)


@cpu
def by_host_module_in_tuple(n):
    return ON_HOST.xp.arange(n)


@gpu
def by_arguments(x):
    t = torch.as_tensor(x).to(ARGS.device)
    for _ in range(ARGS.epochs):
        t = t * 2
    return t.cpu().numpy()


@cpu
def by_host_arguments(x):
    return torch.as_tensor(x).to(HOST_ARGS.device).numpy()


@gpu(gives="device")
def over_basis(x):
    total = 0
    for vector in BASIS:
        total = total + vector * x
    return total


@cpu
def over_host_basis(x):
    return sum(vector @ x for vector in HOST_BASIS)


@gpu(gives="device")
def through_steps(path):
    value = path
    for step in STEPS.values():
        value = step(value)
    return value


@cpu
def through_host_steps(path):
    value = path
    for step in HOST_STEPS.values():
        value = step(value)
    return value


@gpu(seen=False)
def global_booster(X, y):
    return BOOSTER.fit(X, y).predict(X)


@cpu
def global_host_booster(X, y):
    return HOST_BOOSTER.fit(X, y).predict(X)


@gpu(seen=False)
def global_light(X, y):
    return LIGHT.fit(X, y)


@gpu
def global_ridge(X, y):
    with LOCK:
        MODEL.fit(X, y)
        return np.asarray(MODEL.coef_)


@gpu
def union_with_function(X):
    return UNION.fit_transform(X)


@cpu
def union_on_host(X):
    return HOST_UNION.fit_transform(X)


@gpu
def several_outputs(X, Y):
    return MULTI.fit(X, Y).predict(X)


@gpu
def cloned(X, y):
    model = sklearn.base.clone(MODEL)
    return model.fit(X, y).predict(X)


@gpu
def namespace_by_function(x):
    xp = namespace()
    return xp.asnumpy(xp.exp(xp.asarray(x)))


@cpu
def host_namespace_by_function(x):
    xp = host_namespace()
    return xp.exp(xp.asarray(x))


@gpu
def imported_by_name(x):
    mod = importlib.import_module("cupy")
    return float(mod.asarray(x).sum())


@cpu
def imports_another_by_name(x):
    mod = importlib.import_module("numpy")
    return float(mod.asarray(x).sum())


@gpu
@registered("fit")
def registered_fit(X, y):
    return cuml.LinearRegression().fit(X, y).predict(X)


@gpu
def under_device(x):
    with torch.device("cuda"):
        return torch.ones(8).sum().item() + x


@gpu
def old_tensors(x):
    return torch.cuda.FloatTensor(x).norm().item()


@gpu
def numbered_device(x):
    return torch.as_tensor(x).to(torch.device("cuda", 0)).max().item()


@gpu
def half_model(x):
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).half().cuda().eval()
    with torch.inference_mode():
        return net(torch.as_tensor(x).half().cuda()).float().cpu().numpy()


@gpu
async def asynchronous(x):
    await asyncio.sleep(0)
    return cp.asarray(x).sum().get()


@gpu
def generated(xs):
    yield from (cp.asarray(x).mean().item() for x in xs)


@gpu
def matched(x, kind):
    x = cp.asarray(x)
    match kind:
        case "sum":
            return x.sum().get()
        case "max":
            return x.max().get()
        case _:
            return x.mean().get()


@gpu
def unpacked(pairs):
    return [float(cp.dot(cp.asarray(a), cp.asarray(b))) for a, b in pairs]


@gpu
def keyword_spread(x):
    options = {"dtype": torch.float32, "device": "cuda"}
    return torch.tensor(x, **options).sum().item()


@cpu
def host_keyword_spread(x):
    options = {"dtype": torch.float32, "device": "cpu"}
    return torch.tensor(x, **options).sum().item()


@gpu(gives="device")
def reduced(xs):
    return reduce(cp.add, map(cp.asarray, xs))


@cpu
def host_reduced(xs):
    return reduce(np.add, map(np.asarray, xs))


@gpu(seen=False)
def lazy_frame(path):
    return pl.scan_parquet(path).group_by("k").agg(pl.len()).collect(engine="gpu")


@cpu
def host_lazy_frame(path):
    return pl.scan_parquet(path).group_by("k").agg(pl.len()).collect(engine="streaming")


@gpu(seen=False)
def jitted_there(x):
    cuda_device = jax.devices("cuda")[0]
    step = jax.jit(lambda v: v * 2, device=cuda_device)
    return np.asarray(step(x))


@cpu
def describes_setup(_):
    return json.dumps({"device": ARGS.device, "epochs": ARGS.epochs, "enum": Where.GPU.value})


@cpu
def logs_device(x):
    log.info("would run on %s, %s", ON_CARD.device, Settings.device.value)
    return len(x)


@cpu
def filters_runs(runs):
    return [r for r in runs if r["device"] == "cuda" and r["status"] == "done"]


@cpu
def frame_of_devices(names):
    return pd.DataFrame({"name": names}).assign(device="cuda", backend="cupy")


@cpu
def names_of_steps(_):
    return sorted(STEPS)


@cpu
def asks_versions(_):
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cupy": cp.__version__}


@cpu
def empty_cache_name(cache):
    cache.pop("cuda", None)
    return {k: v for k, v in cache.items() if not k.startswith("gpu")}


@depends
def either_setup(x, setup):
    return setup.xp.asarray(x).sum()


@depends
def same_kind(x, y):
    return type(x)(y) if isinstance(x, cudf.Series) else y


@depends
def moves_with(model, batch):
    return model(batch.to(model.device, non_blocking=True))


@depends
def over_inputs(xs):
    return [cp.get_array_module(x).linalg.norm(x) for x in xs]
