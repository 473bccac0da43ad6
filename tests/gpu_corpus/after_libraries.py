"""Other libraries, and the many ways in which they are told to use a device."""

import ctypes
import json
import subprocess

import cudf
import cuml
import cupy as cp
import cupyx.scipy.sparse as cusparse
import cv2
import dask
import dask.array as da
import dask_cudf
import faiss
import jax
import jax.numpy as jnp
import lightgbm as lgb
import numpy as np
import nvtx
import onnxruntime as ort
import paddle
import pandas as pd
import polars as pl
import pynvml
import pytorch_lightning as pl_lightning
import rmm
import spacy
import taichi as ti
import tensorflow as tf
import torch
import triton
import triton.language as tl
import warp as wp
import xgboost as xgb
from catboost import CatBoostClassifier
from numba import cuda, jit
from torch.utils.data import DataLoader
from transformers import AutoModel, pipeline

from gpu_corpus.entries import cpu, depends, gpu


@gpu(seen=False)
def boosted(x, y):
    return xgb.XGBClassifier(n_estimators=10, device="cuda").fit(x, y).predict(x)


@gpu(seen=False)
def boosted_by_params(x, y):
    params = {"tree_method": "gpu_hist", "max_depth": 3}
    return xgb.train(params, xgb.DMatrix(x, y), 10).save_raw()


@cpu
def boosted_on_host(x, y):
    params = {"tree_method": "hist", "device": "cpu"}
    return xgb.train(params, xgb.DMatrix(x, y), 10).save_raw()


@gpu(seen=False)
def light(x, y):
    model = lgb.LGBMRegressor(device_type="gpu")
    return model.fit(x, y).predict(x)


@gpu(seen=False)
def cat(x, y):
    return CatBoostClassifier(task_type="GPU", devices="0:1").fit(x, y).predict(x)


@gpu
def trained(model, data):
    trainer = pl_lightning.Trainer(accelerator="gpu", devices=1, max_epochs=3)
    trainer.fit(model, data)
    return trainer.callback_metrics


@cpu
def trained_on_host(model, data):
    return pl_lightning.Trainer(accelerator="cpu").fit(model, data)


@gpu(seen=False)
def inferred(path, x):
    session = ort.InferenceSession(path, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    return session.run(None, {"x": x})


@cpu
def inferred_on_host(path, x):
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})


@gpu
def sentiment(texts):
    return pipeline("sentiment-analysis", device=0)(texts)


@cpu
def sentiment_on_host(texts):
    return pipeline("sentiment-analysis", device=-1)(texts)


@gpu
def embedded(texts, tokenizer):
    model = AutoModel.from_pretrained("some-model").eval().to("cuda")
    return model(**tokenizer(texts)).last_hidden_state.cpu().numpy()


@gpu(seen=False)
def in_tensorflow(x):
    with tf.device("/GPU:0"):
        return tf.linalg.matmul(x, x).numpy()


@cpu
def in_tensorflow_on_host(x):
    with tf.device("/CPU:0"):
        return tf.linalg.matmul(x, x).numpy()


@gpu(seen=False, gives="device")
def jax_default(x):
    with jax.default_device(jax.devices("cuda")[0]):
        return jnp.sin(x)


@depends
def jax_jitted(x):
    return jax.jit(lambda v: (v * v).sum())(x)


@gpu(seen=False)
def nearest(x):
    index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, faiss.IndexFlatL2(x.shape[1]))
    index.add(x)
    return index.search(x, 5)


@cpu
def nearest_on_host(x):
    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x)
    return index.search(x, 5)


@gpu(seen=False)
def grey(image):
    there = cv2.cuda_GpuMat()
    there.upload(image)
    return cv2.cuda.cvtColor(there, cv2.COLOR_BGR2GRAY).download()


@cpu
def grey_on_host(image):
    return cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)


@gpu
def collected(path):
    return pl.scan_parquet(path).group_by("a").sum().collect(engine="gpu")


@cpu
def collected_on_host(path):
    return pl.scan_parquet(path).group_by("a").sum().collect()


@gpu(seen=False)
def entities(texts):
    spacy.require_gpu()
    return [doc.ents for doc in spacy.load("en").pipe(texts)]


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.load(y + at))


@gpu(takes="device", gives="device")
def launched_triton(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    return out


@wp.kernel
def scale(a: wp.array(dtype=float), s: float):
    a[wp.tid()] *= s


@gpu(seen=False)
def launched_warp(x):
    a = wp.array(x, dtype=float, device="cuda")
    wp.launch(scale, dim=len(x), inputs=[a, 2.0], device="cuda")
    return a.numpy()


@gpu(seen=False)
def in_taichi(n):
    ti.init(arch=ti.gpu)
    return ti.field(ti.f32, shape=n).to_numpy()


@gpu(seen=False)
def in_paddle(x):
    paddle.set_device("gpu:0")
    return paddle.to_tensor(x).numpy()


@gpu
def forest(x, y):
    model = cuml.ensemble.RandomForestClassifier().fit(x, y)
    return model.predict(x)


@gpu(takes="device", gives="device")
def sparse_product(a, b):
    return cusparse.csr_matrix(a) @ b


@gpu
def with_pool(x):
    cp.cuda.set_allocator(rmm.rmm_cupy_allocator)
    return cp.asnumpy(cp.asarray(x))


@gpu
def partitions(path):
    return dask_cudf.read_parquet(path).map_partitions(lambda df: df.groupby("a").b.sum()).compute().to_pandas()


@gpu
def blocks(x):
    return da.from_array(x).map_blocks(cp.asarray).sum().compute().get()


@gpu
def configured(path):
    with dask.config.set({"dataframe.backend": "cudf"}):
        return pd.DataFrame(path)


@gpu(gives="device")
def to_backend(df):
    return df.to_backend("cudf")


@gpu
def merged(left, right):
    a, b = cudf.DataFrame.from_pandas(left), cudf.DataFrame.from_pandas(right)
    return a.merge(b, on="k", how="left").to_pandas()


@gpu
def in_sql(path):
    frame = cudf.read_csv(path)
    return {name: float(frame[name].mean()) for name in frame.columns}


@gpu(seen=False)
def counted(x):
    with cuda.gpus[0]:
        there = cuda.to_device(np.ascontiguousarray(x))
        return there.copy_to_host()


@gpu(seen=False)
def by_ctypes(n):
    runtime = ctypes.CDLL("libcudart.so.12")
    pointer = ctypes.c_void_p()
    runtime.cudaMalloc(ctypes.byref(pointer), n)
    return pointer.value


@gpu
def numbered(x, rank=1):
    torch.cuda.set_device(rank)
    return torch.as_tensor(x).to(f"cuda:{rank}").sum().item()


@gpu
def half_precision(model, x):
    scaler = torch.cuda.amp.GradScaler()
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        loss = model(x)
    scaler.scale(loss).backward()
    return loss.item()


@gpu(takes="device", gives="device")
def waits(x):
    torch.cuda.synchronize()
    return x


@gpu
def typed(x):
    return torch.from_numpy(x).type(torch.cuda.FloatTensor).sum().item()


def pick_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@gpu
def picked_by_a_helper(x):
    return torch.as_tensor(x).to(pick_device()).sum().item()


@gpu
def assigned_where_available(model, x):
    device = "cpu"
    if torch.cuda.is_available():
        device = "cuda"
    model = model.to(device)
    return model(torch.as_tensor(x, device=device)).tolist()


def build(name, device):
    return torch.nn.Linear(3, 3).to(device) if name else None


@gpu
def told_to_a_helper(x):
    return build("linear", "cuda")(x)


@cpu
def told_to_a_helper_on_host(x):
    return build("linear", "cpu")(x)


@depends
def back_to_host(model, x):
    return model(x).detach().cpu().numpy()


@depends
def only_if_there(x):
    if x.is_cuda:
        return torch.cuda.comm.broadcast(x, [0, 1])[0]
    return x + 1


@depends
def where_it_is(x, y):
    return x + y.to(x.device)


@depends
def flagged(x, cuda=None):
    return x.cuda() if cuda else x


@cpu
def loaded(dataset):
    return [len(batch) for batch in DataLoader(dataset, batch_size=32)]


@cpu
def marked(x):
    with nvtx.annotate("step", color="blue"):
        return np.sort(x)


@cpu
def watched():
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetCount()


@cpu
def asks_the_driver():
    return subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv"], check=False).returncode


@cpu
def written_down(x, path):
    record = {"device": "cuda", "engine": "gpu", "library": "cupy", "mean": float(np.mean(x))}
    path.write_text(json.dumps(record))
    return record


@cpu
def selected(df):
    return df[df["device"] == "cuda"].groupby("gpu").size()


@cpu
def renamed(df):
    return df.rename(columns={"gpu": "device"}).assign(device="cuda")


@jit(nopython=True)
def summed(x):
    return x.sum()


@cpu
def numba_on_host(x):
    return summed(np.asarray(x))


@cpu
def checks_kind(x):
    if isinstance(x, (cudf.Series, cudf.DataFrame)):
        raise TypeError("a pandas object is needed")
    return pd.Series(x).mean()


@cpu
def reset(model):
    model.load_state_dict(torch.load("weights.pt", map_location=torch.device("cpu")))
    return model.eval()


@cpu
def parsed(parser):
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    return parser.parse_args([])
