"""Libraries by name: written, and kept, without a look at the inspector; docs/gpu.md has the first run over them."""

import functools

import cudf
import cugraph
import cuml
import cupy as cp
import cupyx
import dask_cudf
import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pycuda.driver as drv
import stumpy
import torch
import triton
import triton.language as tl
import warp as wp
from cupyx.scipy.ndimage import gaussian_filter
from cupyx.scipy.sparse.linalg import svds
from numba import cuda, njit
from pycuda import gpuarray

from gpu_corpus.entries import cpu, depends, gpu

saxpy = cp.RawKernel(
    r"""extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
        int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }""",
    "saxpy",
)


# ---- CuPy and what is near it


@gpu
def blur_all(frames):
    return np.stack([cp.asnumpy(gaussian_filter(cp.asarray(f), sigma=2.0)) for f in frames])


@gpu
def launch_saxpy(x, y):
    dx, dy = cp.asarray(x, dtype=cp.float32), cp.asarray(y, dtype=cp.float32)
    saxpy(((len(x) + 255) // 256,), (256,), (cp.float32(2.0), dx, dy, len(x)))
    return dy.get()


@functools.cache
def squared_difference():
    return cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_difference")


@gpu(takes="device", gives="device")
def by_lazy_kernel(x, y):
    return squared_difference()(x, y)


@gpu
def on_second_card(block):
    with cp.cuda.Device(1):
        return float(cp.linalg.norm(cp.asarray(block)))


@gpu(seen=False)
def free_everything(_):
    cp.get_default_memory_pool().free_all_blocks()
    cp.get_default_pinned_memory_pool().free_all_blocks()


@gpu
def histogram_of(index, n):
    out = cp.zeros(n, dtype=cp.int64)
    cupyx.scatter_add(out, cp.asarray(index), 1)
    return out.get()


@gpu
def truncated(matrix, k):
    u, s, _ = svds(cupyx.scipy.sparse.csr_matrix(matrix.astype(np.float32)), k=k)
    return (u * s).get()


@gpu(gives="device")
def from_disk(path):
    return cp.load(path)["data"]


@gpu(takes="device", seen=False)
def fetched(x):
    return cp.asnumpy(x)


@gpu(gives="device")
def streamed(x):
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        y = cp.empty(x.shape, x.dtype)
        y.set(x, stream=stream)
    stream.synchronize()
    return y


# ---- RAPIDS


@gpu
def per_user(path):
    df = cudf.read_parquet(path, columns=["user", "amount"])
    return df.groupby("user").amount.agg(["sum", "count"]).to_pandas()


@gpu
def nested_collection(path):
    ddf = dask_cudf.read_parquet(path)
    return ddf.groupby("day").fare.mean().compute().to_pandas()


@gpu
def accelerated_pandas(path):
    import cudf.pandas

    cudf.pandas.install()
    import pandas as pd

    return pd.read_csv(path).describe()


@gpu
def who_matters(edges):
    graph = cugraph.Graph(directed=True)
    graph.from_cudf_edgelist(cudf.from_pandas(edges), source="src", destination="dst")
    return cugraph.pagerank(graph).to_pandas()


@gpu
def networkx_on_backend(edges):
    graph = nx.from_pandas_edgelist(edges, "src", "dst")
    return nx.betweenness_centrality(graph, k=100, backend="cugraph")


@gpu
def which_zone(points, polygons):
    import cuspatial

    x = cuspatial.GeoSeries.from_points_xy(cudf.Series(points.ravel()))
    return cuspatial.point_in_polygon(x, cuspatial.from_geopandas(polygons)).to_pandas()


@gpu
def clusters(X):
    labels = cuml.cluster.HDBSCAN(min_cluster_size=20).fit_predict(X)
    return np.asarray(labels)


@gpu
def accelerated_sklearn(X):
    from cuml.accel import install

    install()
    from sklearn.manifold import TSNE

    return TSNE(2).fit_transform(X)


# ---- kernels


@cuda.jit
def add_one(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


@gpu(seen=False)
def numba_kernel(x):
    d = cuda.to_device(x)
    add_one.forall(len(x))(d)
    return d.copy_to_host()


@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offset, tl.maximum(tl.load(x_ptr + offset, mask=offset < n), 0), mask=offset < n)


@gpu(takes="device", gives="device")
def triton_relu(x):
    y = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


@gpu(seen=False)
def pycuda_copy(x):
    import pycuda.autoinit  # noqa: F401

    buffer = drv.mem_alloc(x.nbytes)
    drv.memcpy_htod(buffer, x)
    out = np.empty_like(x)
    drv.memcpy_dtoh(out, buffer)
    return out


@gpu(seen=False)
def pycuda_array(x):
    return (2 * gpuarray.to_gpu(x.astype(np.float32))).get()


@wp.kernel
def scale_kernel(x: wp.array, s: float):
    i = wp.tid()
    x[i] = x[i] * s


@gpu(seen=False)
def in_warp(x):
    with wp.ScopedDevice("cuda:0"):
        a = wp.array(x, dtype=float)
        wp.launch(scale_kernel, dim=len(x), inputs=[a, 2.0])
        return a.numpy()


@gpu(seen=False)
def in_taichi(n):
    import taichi as ti

    ti.init(arch=ti.cuda)
    field = ti.field(ti.f32, shape=n)
    field.fill(1.0)
    return field.to_numpy()


@gpu(seen=False)
def matrix_profile(series):
    return stumpy.gpu_stump(series, m=50)[:, 0]


@gpu(seen=False)
def in_jax(x):
    there = jax.device_put(x, jax.devices("gpu")[0])
    return np.asarray(jnp.linalg.svd(there, compute_uv=False))


# ---- the same libraries on the host


@cpu
def host_profile(series):
    return stumpy.stump(series, m=50)[:, 0]


@cpu
def host_graph(edges):
    return nx.pagerank(nx.from_pandas_edgelist(edges, "src", "dst"))


@cpu
def host_jax(x):
    with jax.default_device(jax.devices("cpu")[0]):
        return np.asarray(jnp.cumsum(x))


@njit(cache=True)
def rolling(x, w):
    out = np.empty(len(x) - w)
    for i in range(len(out)):
        out[i] = x[i : i + w].mean()
    return out


@cpu
def numba_on_host(x):
    return rolling(x, 10)


@cpu
def host_taichi(n):
    import taichi as ti

    ti.init(arch=ti.cpu)
    field = ti.field(ti.f32, shape=n)
    return field.to_numpy()


# ---- what depends


@depends
def sum_of_either(x):
    xp = cp.get_array_module(x)
    return xp.sum(xp.sqrt(x))


@depends
def filter_either(x):
    scipy = cupyx.scipy.get_array_module(x)
    return scipy.ndimage.median_filter(x, 3)


@depends
def frame_either(df):
    return df.assign(total=df["a"] + df["b"]).groupby("k").total.sum()
