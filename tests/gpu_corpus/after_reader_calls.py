"""Written by another reader, who had not seen the inspector or the rest: what people do with devices, and near them."""

import functools
import logging
import operator

import cudf
import cugraph
import cupy as cp
import cupyx.scipy.ndimage as cndi
import rmm
import tensorflow as tf
import torch
import torch.nn.functional as F
import xgboost as xgb
from cuml.ensemble import RandomForestClassifier as cuRF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from gpu_corpus.entries import cpu, depends, gpu

log = logging.getLogger(__name__)

square_diff = cp.fuse()(lambda a, b: (a - b) ** 2)
axpy = cp.ElementwiseKernel("float32 a, float32 x", "float32 y", "y = a * x + y", "axpy")
raw = cp.RawKernel("extern...", "k")

gpu(operator.methodcaller("cuda"), name="after_reader_calls.01")
gpu(operator.methodcaller("to", "cuda:0"), name="after_reader_calls.02")
depends(operator.methodcaller("cpu"), name="after_reader_calls.03")
cpu(operator.methodcaller("sum", axis=0), name="after_reader_calls.04")


@gpu
def with_torch_device(x):
    with torch.cuda.device(0):
        return torch.as_tensor(x).cuda().sum().item()


@gpu
def with_cp_device(x):
    with cp.cuda.Device(1):
        a = cp.asarray(x)
        return float(a.sum())


@gpu
def in_stream(x):
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        y = torch.from_numpy(x).to("cuda", non_blocking=True)
    s.synchronize()
    return y.cpu().numpy()


@gpu
def in_cp_stream(block):
    with cp.cuda.Stream(non_blocking=True) as s:
        out = cp.fft.fft2(cp.asarray(block))
        host = cp.asnumpy(out, stream=s)
    return host  # noqa: RET504 - out of the block


@gpu
def fused(a, b):
    return square_diff(cp.asarray(a), cp.asarray(b)).get()


@depends
def only_fused(a, b):
    return square_diff(a, b)


@gpu
def elementwise(x, y):
    return axpy(2.0, x, y)


gpu(cp.sqrt, name="after_reader_calls.13")
gpu(functools.partial(cp.linalg.norm, axis=1), name="after_reader_calls.14")


@gpu
def rawk(n):
    x = cp.zeros(n, dtype=cp.float32)
    raw((1,), (1,), (x,))
    return x


gpu(cndi.gaussian_filter, name="after_reader_calls.16")


@gpu
def smooth(b, sigma=1.0):
    return cndi.gaussian_filter(cp.asarray(b), sigma).get()


gpu(lambda d: cudf.DataFrame.groupby(d, "k"), name="after_reader_calls.19")
gpu(cudf.from_pandas, name="after_reader_calls.20")


@gpu
def tf_device(x):
    with tf.device("/GPU:0"):
        return tf.reduce_sum(tf.constant(x)).numpy()


@cpu
def tf_cpu(x):
    with tf.device("/CPU:0"):
        return tf.reduce_sum(tf.constant(x)).numpy()


@gpu
def xgb_hist(X, y):
    params = {"objective": "binary:logistic", "tree_method": "gpu_hist"}
    return xgb.train(params, xgb.DMatrix(X, label=y), num_boost_round=10)


@gpu
def xgb_cuda(X, y):
    model = xgb.XGBClassifier(n_estimators=10, device="cuda")
    return model.fit(X, y)


@cpu
def xgb_plain(X, y):
    p = dict(objective="reg:squarederror", tree_method="hist", device="cpu")  # noqa: C408 - a call to read
    return xgb.train(p, xgb.DMatrix(X, y))


@gpu
def pipe(X, y):
    p = make_pipeline(StandardScaler(), cuRF(n_estimators=10))
    p.fit(X, y)
    return p.score(X, y)


@cpu
def pipe_cpu(X):
    return make_pipeline(StandardScaler()).fit_transform(X)


@gpu
def init_rmm(gb):
    rmm.reinitialize(pool_allocator=True, initial_pool_size=gb << 30)
    return True


@gpu
def pr(edges):
    g = cugraph.Graph()
    g.from_pandas_edgelist(edges, source="s", destination="d")
    return cugraph.pagerank(g).to_pandas()


class Net(nn.Module):
    def __init__(self, device="cuda"):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.to(device)

    def forward(self, x):
        return self.lin(x)


@gpu
def build_and_run(x):
    net = Net()
    with torch.no_grad():
        return net(torch.tensor(x, device="cuda")).cpu()


@gpu
def build_only():
    return Net()


class CpuNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        return F.relu(self.lin(x))


@cpu
def run_cpu_net(x):
    return CpuNet().eval()(torch.as_tensor(x)).numpy()
