"""A third try: written when all of the above was found, before the inspector was run over these."""

import dataclasses
import functools
import json
import operator
import warnings
from collections import ChainMap, OrderedDict, defaultdict
from types import MappingProxyType

import catboost
import cudf
import cuml
import cupy as cp
import cupy.linalg as cla
import dask
import dask.array as da
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort
import pandas as pd
import sklearn.base
import torch
import torch.nn.functional as F
import transformers
import xgboost
from cuml.preprocessing import StandardScaler as DeviceScaler
from numba import cuda
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import Lasso
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader

from gpu_corpus.entries import cpu, depends, gpu


@dataclasses.dataclass(frozen=True)
class Plan:
    device: str = "cpu"
    cuda_blocks: int = 64
    title: str = "cuda"


PLAN = Plan()
CARD_PLAN = dataclasses.replace(PLAN, device="cuda")
DEFAULTS = MappingProxyType({"device": "cuda", "dtype": "float32"})
LAYERS = OrderedDict(bias=cp.zeros(3), gain=cp.ones(3))
HOST_LAYERS = OrderedDict(bias=np.zeros(3), gain=np.ones(3))
SETTINGS = ChainMap({"device": "cpu"}, {"device": "cuda"})
CAT = catboost.CatBoostRegressor(task_type="GPU", devices="0")
HOST_CAT = catboost.CatBoostRegressor(task_type="CPU")
VOTES = VotingClassifier([("a", Lasso()), ("b", xgboost.XGBRegressor(tree_method="gpu_hist"))])
HOST_VOTES = VotingClassifier([("a", Lasso()), ("b", xgboost.XGBRegressor(tree_method="approx"))])
SEARCH = RandomizedSearchCV(Lasso(), {"alpha": [0.1, 1.0], "title": ["cuda", "gpu"]}, n_iter=4)
SCALED = Pipeline([("scale", DeviceScaler()), ("lasso", Lasso())])
SCALED_HOST = Pipeline([("scale", StandardScaler()), ("lasso", Lasso())])
SESSION = ort.InferenceSession("model.onnx", providers=["CUDAExecutionProvider"])
HOST_SESSION = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
LOADER = DataLoader([1, 2, 3], batch_size=2, pin_memory=False)
CLASSIFY = transformers.pipeline("text-classification", device="cuda:0")
counts = defaultdict(int)


@gpu
def by_replaced_plan(x):
    return torch.as_tensor(x).to(CARD_PLAN.device).sum().item()


@cpu
def by_plan(x):
    return torch.as_tensor(x).to(PLAN.device).sum().item()


@cpu
def replaces_plan(_):
    return dataclasses.replace(PLAN, device="cuda", title="gpu")


@gpu
def by_frozen_mapping(x):
    return torch.as_tensor(x, device=DEFAULTS["device"]).sum().item()


@gpu(gives="device")
def through_layers(x):
    for layer in LAYERS.values():
        x = x * layer
    return x


@cpu
def through_host_layers(x):
    for layer in HOST_LAYERS.values():
        x = x * layer
    return x


@cpu
def names_of_layers(_):
    return list(HOST_LAYERS), len(HOST_LAYERS)


@gpu(seen=False)
def cat_fit(X, y):
    return CAT.fit(X, y, verbose=False).predict(X)


@cpu
def host_cat_fit(X, y):
    return HOST_CAT.fit(X, y, verbose=False).predict(X)


@gpu(seen=False)
def voted(X, y):
    return VOTES.fit(X, y).predict(X)


@cpu
def host_voted(X, y):
    return HOST_VOTES.fit(X, y).predict(X)


@cpu
def searched(X, y):
    return SEARCH.fit(X, y).best_score_


@gpu
def scaled_there(X, y):
    return SCALED.fit(X, y).score(X, y)


@cpu
def scaled_here(X, y):
    return SCALED_HOST.fit(X, y).score(X, y)


@gpu(seen=False)
def session_run(x):
    return SESSION.run(None, {"x": x})[0]


@cpu
def host_session_run(x):
    return HOST_SESSION.run(None, {"x": x})[0]


@cpu
def loaded_batches(_):
    return [batch.sum().item() for batch in LOADER]


@gpu
def classified(texts):
    return [row["label"] for row in CLASSIFY(texts)]


@gpu
def decomposed(matrix):
    q, r = cla.qr(cp.asarray(matrix))
    return q.get(), r.get()


@cuda.jit(device=True)
def clamp(v, low, high):
    return min(max(v, low), high)


@cuda.jit
def clamp_all(values, low, high):
    i = cuda.grid(1)
    if i < values.shape[0]:
        values[i] = clamp(values[i], low, high)


@gpu(seen=False)
def clamped(values):
    out = cuda.to_device(values)
    clamp_all[32, 256](out, 0.0, 1.0)
    return out.copy_to_host()


@gpu
def convolved(image, kernel):
    x = torch.from_numpy(image)[None, None].to("cuda", torch.float32)
    k = torch.from_numpy(kernel)[None, None].to(x.device, x.dtype)
    return F.conv2d(x, k, padding="same")[0, 0].cpu().numpy()


@cpu
def convolved_here(image, kernel):
    x = torch.from_numpy(image)[None, None].float()
    k = torch.from_numpy(kernel)[None, None].to(x.device, x.dtype)
    return F.conv2d(x, k, padding="same")[0, 0].numpy()


class Base:
    def load(self, path):
        raise NotImplementedError

    def run(self, path):
        return self.load(path).describe()


class OnCard(Base):
    def load(self, path):
        return cudf.read_json(path, lines=True).to_pandas()


class OnHost(Base):
    """Reads what OnCard reads, without cudf."""

    def load(self, path):
        return pd.read_json(path, lines=True)


gpu(OnCard().run, name="after_third.template_method_there")
cpu(OnHost().run, name="after_third.template_method_here")
depends(operator.attrgetter("__cuda_array_interface__"), name="after_third.asks_pointer")


class Estimator(sklearn.base.BaseEstimator):
    def __init__(self, device="cpu"):
        self.device = device

    def fit(self, X, y):
        data = torch.as_tensor(X, device=self.device)
        self.mean_ = data.mean(0).cpu().numpy()
        return self


gpu(Estimator("cuda").fit, name="after_third.own_estimator_there")
cpu(Estimator().fit, name="after_third.own_estimator_here")


@gpu
def pipeline_of_own(X, y):
    return Pipeline([("own", Estimator(device="cuda"))]).fit(X, y)


@cpu
def pipeline_of_own_here(X, y):
    return Pipeline([("own", Estimator(device="cpu"))]).fit(X, y)


@gpu
def blockwise(n):
    x = da.ones((n, n), chunks=n // 2).map_blocks(cp.asarray)
    return float((x @ x).sum().compute())


@gpu
def delayed_inside(paths):
    frames = [dask.delayed(cudf.read_parquet)(p) for p in paths]
    return dask.compute(*frames)[0].to_pandas()


@gpu
def accumulated(arrays):
    total = None
    for array in arrays:
        there = cp.asarray(array)
        total = there if total is None else total + there
    return total.get()


@gpu
def guarded(x):
    try:
        return cp.linalg.cholesky(cp.asarray(x)).get()
    except cp.linalg.LinAlgError:
        warnings.warn("not positive definite", stacklevel=2)
        return np.full_like(x, np.nan)


@gpu
def chunks_of(x, size=1000):
    out = np.empty_like(x)
    for start in range(0, len(x), size):
        out[start : start + size] = cuml.common.input_to_cuml_array(x[start : start + size])[0]
    return out


@cpu
def counted(lines):
    for line in lines:
        counts["cuda" if "CUDA" in line else "other"] += 1
    return dict(counts)


@cpu
def settings_as_text(_):
    return json.dumps({**DEFAULTS, "plan": dataclasses.asdict(CARD_PLAN)})


@cpu
def chained(x):
    return torch.as_tensor(x, device=SETTINGS["device"]).mean().item()


@cpu
def saved_weights(model, path):
    torch.save({k: v.cpu() for k, v in model.items()}, path)
    return path


@cpu
def counts_parameters(path):
    net = torch.jit.load(path, map_location=torch.device("cpu"))
    return sum(p.numel() for p in net.parameters())


@cpu
def annotated(x):
    with dask.annotate(resources={"GPU": 1}):
        return da.from_array(x).sum()


@cpu
def columns_of_benchmarks(df):
    best = df.groupby("backend").time.min()
    return best.loc[["cupy", "numpy"]] if "cupy" in best.index else best


@cpu
def padded(texts):
    tok = transformers.AutoTokenizer.from_pretrained("bert-base-uncased")
    batch = tok(texts, return_tensors="pt", padding=True)
    return batch["attention_mask"].sum(-1).tolist()


cpu(functools.partial(sorted, key=operator.itemgetter("cuda")), name="after_third.sorts_by_name")
depends(functools.partial(jnp.sum, axis=0), name="after_third.sum_in_jax")
depends(lambda x, device="cpu": torch.as_tensor(x, device=device), name="after_third.default_may_be_told")


@depends
def two_ways(df):
    return df.to_pandas() if isinstance(df, cudf.DataFrame) else df


@depends
def by_caller(x, device):
    ctx = torch.device(device)
    with ctx:
        return torch.ones_like(x)
