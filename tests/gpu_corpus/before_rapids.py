"""cudf and its relatives, numba's kernels, jax."""

import math

import cudf
import cugraph
import jax
import jax.numpy as jnp
import numba
import numpy as np
import pandas as pd
import rmm
from cuml.cluster import KMeans
from numba import cuda

from gpu_corpus.entries import cpu, depends, gpu


@gpu
def summary(path):
    df = cudf.read_parquet(path, columns=["a", "b"])
    return df.groupby("a").b.mean().to_pandas()


@gpu(gives="device")
def to_cudf(part):
    return cudf.from_pandas(part)


@gpu
def clusters(x):
    return KMeans(n_clusters=8).fit_predict(x)


@gpu
def rank(edges):
    graph = cugraph.Graph()
    graph.from_cudf_edgelist(cudf.DataFrame(edges), source="src", destination="dst")
    return cugraph.pagerank(graph).to_pandas()


@gpu(seen=False)
def pooled(size):
    rmm.reinitialize(pool_allocator=True, initial_pool_size=size)


@depends
def partition_means(df):
    return df.groupby("k")["v"].mean()


@depends
def as_pandas(df):
    return df.to_pandas() if hasattr(df, "to_pandas") else df


@cpu
def with_pandas(df):
    return pd.DataFrame(df).describe()


@cuda.jit
def add_kernel(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@gpu
def launch(x, y):
    out = np.empty_like(x)
    threads = 128
    add_kernel[math.ceil(x.size / threads), threads](x, y, out)
    return out


@gpu(seen=False)
def launch_on_device_arrays(x):
    d = cuda.to_device(x)
    out = cuda.device_array_like(d)
    add_kernel[32, 128](d, d, out)
    return out.copy_to_host()


@gpu(seen=False)
def kernel_made_inside(x):
    @cuda.jit
    def double(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= 2

    double[1, 32](x)
    return x


@numba.vectorize(["float32(float32, float32)"], target="cuda")
def vector_add(a, b):
    return a + b


@gpu(seen=False)
def calls_ufunc(x):
    return vector_add(x, x)


@numba.njit(parallel=True)
def fast_sum(x):
    total = 0.0
    for i in numba.prange(x.shape[0]):
        total += x[i]
    return total


@cpu
def numba_on_the_cpu(x):
    return fast_sum(np.asarray(x))


@gpu(seen=False, gives="device")
def put_on_gpu(x):
    return jax.device_put(x, jax.devices("gpu")[0])


@gpu(seen=False)
def jitted_for_gpu(x):
    return np.asarray(jax.jit(lambda v: jnp.dot(v, v.T), backend="gpu")(x))


@depends
def jax_softmax(x):
    return jnp.exp(x) / jnp.exp(x).sum()
