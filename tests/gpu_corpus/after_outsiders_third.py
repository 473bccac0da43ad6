"""Arrays and tables again, of other trades: written when two sets of the outsiders' functions had been mended."""

from __future__ import annotations

import contextlib
import enum
import logging
import math
import operator
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any

import cudf
import cugraph
import cupy as cp
import cupy.linalg as gla
import cupyx
import cuspatial
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import rmm
from cuml.tsa.arima import ARIMA
from cupyx.profiler import benchmark
from cupyx.scipy.fft import dctn
from numba import cuda, float32, guvectorize, njit
from scipy import ndimage, signal

from gpu_corpus.entries import cpu, depends, gpu

try:
    from cupyx.scipy import ndimage as device_ndimage

    HAVE_CUPY = True
except ImportError:
    HAVE_CUPY = False

log = logging.getLogger(__name__)
DEVICE_ID = int(os.environ.get("LOCAL_RANK", 0))
TILE = 16


class Precision(enum.Enum):
    SINGLE = "float32"
    DOUBLE = "float64"


# ---- finance and risk


@dataclass(frozen=True)
class Heston:
    """Paths of a stochastic volatility model."""

    kappa: float = 2.0
    theta: float = 0.04
    xi: float = 0.3
    steps: int = 252

    def simulate(self, spot: float, paths: int, seed: int) -> npt.NDArray[np.float64]:
        cp.random.seed(seed)
        dt = 1 / self.steps
        s, v = cp.full(paths, spot), cp.full(paths, self.theta)
        for _ in range(self.steps):
            z1, z2 = cp.random.standard_normal((2, paths))
            v = cp.maximum(v + self.kappa * (self.theta - v) * dt + self.xi * cp.sqrt(v * dt) * z2, 0)
            s *= cp.exp(-0.5 * v * dt + cp.sqrt(v * dt) * z1)
        return s.get()

    def feller(self) -> bool:
        return 2 * self.kappa * self.theta > self.xi**2


gpu(Heston().simulate, name="after_outsiders_third.heston_paths")
cpu(Heston().feller, name="after_outsiders_third.heston_feller")


@gpu
def value_at_risk(returns, level=0.99):
    with cp.cuda.Device(DEVICE_ID):
        losses = -cp.asarray(returns)
        return float(cp.quantile(losses, level)), float(losses[losses > cp.quantile(losses, level)].mean())


@gpu(takes="device", gives="device")
def shrink_covariance(returns):
    sample = cp.cov(returns, rowvar=False)
    return 0.9 * sample + 0.1 * cp.eye(len(sample)) * cp.trace(sample) / len(sample)


@gpu
def forecast(series, horizon=12):
    model = ARIMA(series, order=(1, 1, 1))
    model.fit()
    return model.forecast(horizon)


@cpu
def black_scholes(spot, strike, sigma, rate, years):
    d1 = (math.log(spot / strike) + (rate + sigma**2 / 2) * years) / (sigma * math.sqrt(years))
    d2 = d1 - sigma * math.sqrt(years)
    cdf = lambda x: (1 + math.erf(x / math.sqrt(2))) / 2  # noqa: E731
    return spot * cdf(d1) - strike * math.exp(-rate * years) * cdf(d2)


@cpu
def realised_volatility(prices: pd.Series) -> float:
    return float(np.log(prices).diff().std() * math.sqrt(252))


@depends
def drawdown(curve):
    xp = cp.get_array_module(curve)
    return (curve / xp.maximum.accumulate(curve) - 1).min()


# ---- earth, maps, medicine


@gpu(gives="device")
def inside(points, polygons):
    return cuspatial.point_in_polygon(points, polygons)


@gpu
def slope_of(elevation: np.ndarray, cell: float = 30.0) -> np.ndarray:
    z = cp.asarray(elevation)
    dy, dx = cp.gradient(z, cell)
    return cp.degrees(cp.arctan(cp.hypot(dx, dy))).get()


@gpu
def compress_blocks(volume, keep=0.05):
    spectrum = dctn(cp.asarray(volume), norm="ortho")
    spectrum[cp.abs(spectrum) < cp.quantile(cp.abs(spectrum), 1 - keep)] = 0
    return cp.asnumpy(spectrum)


@gpu
def smooth_volume(volume, sigma):
    if HAVE_CUPY:
        return cp.asnumpy(device_ndimage.gaussian_filter(cp.asarray(volume), sigma))
    return ndimage.gaussian_filter(volume, sigma)


@gpu
def mip_chunks(path: str) -> dict[str, Any]:
    volume = np.load(path, mmap_mode="r")
    best = None
    for part in np.array_split(volume, 8):
        top = cp.asarray(part).max(axis=0)
        best = top if best is None else cp.maximum(best, top)
    return {"mip": best.get(), "path": path}


@cpu
def fill_gaps(mask: np.ndarray) -> np.ndarray:
    return ndimage.binary_closing(mask, iterations=2)


@cpu
def hillshade(z, azimuth=315.0, altitude=45.0):
    dy, dx = np.gradient(z)
    slope, aspect = np.arctan(np.hypot(dx, dy)), np.arctan2(-dx, dy)
    a, h = np.radians(azimuth), np.radians(altitude)
    return np.sin(h) * np.cos(slope) + np.cos(h) * np.sin(slope) * np.cos(a - aspect)


@cpu
def qrs_times(ecg, fs):
    filtered = signal.lfilter(*signal.butter(2, [5, 15], "band", fs=fs), ecg)
    return signal.find_peaks(filtered**2, distance=int(0.3 * fs))[0] / fs


@cpu
def tile_names(bounds, zoom):
    n = 2**zoom
    xs = [int((lon + 180) / 360 * n) for lon in bounds[::2]]
    return [f"gpu-tiles/{zoom}/{x}.png" for x in range(xs[0], xs[1] + 1)]


@depends
def ndvi(red, nir):
    return (nir - red) / (nir + red + 1e-6)


@depends
def rescale(block, low, high):
    return np.clip((block - low) / (high - low), 0, 1)


# ---- kernels, memory, devices


@cuda.jit
def tiled_matmul(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    i, j = cuda.grid(2)
    acc = float32(0)
    for k in range(0, a.shape[1], TILE):
        sa[cuda.threadIdx.x, cuda.threadIdx.y] = a[i, k + cuda.threadIdx.y]
        cuda.syncthreads()
        acc += sa[cuda.threadIdx.x, 0] * b[k, j]
    c[i, j] = acc


def grid_for(shape):
    return tuple(math.ceil(n / TILE) for n in shape), (TILE, TILE)


@gpu(seen=False)
def matmul(a, b):
    c = np.zeros((a.shape[0], b.shape[1]), dtype=np.float32)
    blocks, threads = grid_for(c.shape)
    tiled_matmul[blocks, threads](a, b, c)
    return c


cpu(grid_for, name="after_outsiders_third.grid_for")


@contextlib.contextmanager
def pool_of(gigabytes: int) -> Iterator[None]:
    before = rmm.mr.get_current_device_resource()
    rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(before, gigabytes << 30))
    try:
        yield
    finally:
        rmm.mr.set_current_device_resource(before)


@gpu
def sort_big(path):
    with pool_of(4):
        return cudf.read_parquet(path).sort_values("key").to_arrow()


@gpu
def time_eigh(n):
    a = cp.random.random((n, n))
    return benchmark(gla.eigh, (a + a.T,), n_repeat=10).gpu_times.mean()


@gpu
def scatter(indices, values, size):
    out = cp.zeros(size)
    cupyx.scatter_add(out, cp.asarray(indices), cp.asarray(values))
    return out.get()


@gpu(takes="device", gives="device")
def norm_by(kind: Precision, x):
    match kind:
        case Precision.SINGLE:
            return gla.norm(x.astype("float32"))
        case _:
            return gla.norm(x)


@guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
def running_max(x, out):
    top = -np.inf
    for i in range(len(x)):
        top = max(top, x[i])
        out[i] = top


@njit
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@cpu
def longest_collatz(start, stop):
    return max(range(start, stop), key=collatz)


@cpu
def read_mesh(path: Path) -> np.ndarray:
    raw = zlib.decompress(path.read_bytes())
    (count,) = struct.unpack_from("<I", raw)
    return np.frombuffer(raw, "<f4", count * 3, 4).reshape(-1, 3)


@dataclass
class ClusterPlan:
    """Which machine gets which job."""

    cuda_hosts: list[str] = field(default_factory=list)
    cpu_hosts: list[str] = field(default_factory=list)

    def assign(self, jobs):
        hosts = {"gpu": self.cuda_hosts, "cpu": self.cpu_hosts}
        return {job["id"]: hosts[job["kind"]][i % len(hosts[job["kind"]])] for i, job in enumerate(jobs)}


cpu(ClusterPlan(["a"], ["b"]).assign, name="after_outsiders_third.assign_jobs")
cpu(partial(reduce, operator.add), name="after_outsiders_third.reduce_add")


# ---- tables and graphs


@gpu
def features_of(path: str) -> pd.DataFrame:
    frame = cudf.read_csv(path)
    frame = frame.assign(weekday=frame["date"].astype("datetime64[s]").dt.weekday)
    return cudf.get_dummies(frame, columns=["weekday"]).to_pandas()


@gpu
def shortest_paths(edges: pd.DataFrame, source: int) -> dict[int, float]:
    graph = cugraph.from_pandas_edgelist(edges, "a", "b", edge_attr="w")
    found = cugraph.sssp(graph, source)
    return dict(zip(found["vertex"].to_numpy(), found["distance"].to_numpy(), strict=True))


class Store:
    """Reads tables with what there is."""

    frames = cudf

    @classmethod
    def count(cls, path):
        return len(cls.frames.read_parquet(path))

    @staticmethod
    def size(path):
        return sum(p.stat().st_size for p in Path(path).glob("*.parquet"))


gpu(Store.count, name="after_outsiders_third.store_count")
cpu(Store.size, name="after_outsiders_third.store_size")
gpu(lambda part: cudf.from_pandas(part).corr().to_pandas(), name="after_outsiders_third.corr_lambda")


@cpu
def weekly(path):
    return pl.read_csv(path).group_by("week").agg(pl.len().alias("n")).sort("week").to_dicts()


@cpu
def clean(part: pd.DataFrame) -> pd.DataFrame:
    part["name"] = part["name"].str.strip().str.title()
    return part.drop_duplicates(subset="name").query("age > 0")


@cpu
def gpu_report(rows):
    frame = pd.DataFrame(rows, columns=["host", "gpu", "cuda_memory"])
    return frame.groupby("gpu")["cuda_memory"].max().to_dict()


@depends
def lagged(part, columns):
    for column in columns:
        part[f"{column}_lag"] = part[column].shift(1)
    return part


@depends
def merge_parts(left, right):
    return left.merge(right, on="key", how="inner").drop(columns=["tmp"])


@depends
def frame_of(rows, backend="pandas"):
    if backend == "cudf":
        return cudf.DataFrame(rows)
    return pd.DataFrame(rows)
