"""Kernels, simulations and Monte Carlo: written by an outsider to the inspector."""

import math
import os
import random
import time
from dataclasses import dataclass
from functools import lru_cache, partial

import cupy as cp
import numba
import numpy as np
from cupyx import jit
from cupyx.scipy.sparse import csr_matrix
from cupyx.scipy.sparse.linalg import cg
from numba import cuda, njit, prange, vectorize
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32
from scipy import sparse
from scipy.integrate import solve_ivp

from gpu_corpus.entries import cpu, depends, gpu

THREADS = 128


@cuda.jit
def diffuse_kernel(u, out, alpha):
    i, j = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        out[i, j] = u[i, j] + alpha * (u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4 * u[i, j])


@cuda.jit(device=True)
def payoff(s, strike):
    return max(s - strike, 0.0)


@cuda.jit
def option_kernel(states, s0, strike, sigma, rate, out):
    i = cuda.grid(1)
    if i < out.size:
        z = xoroshiro128p_uniform_float32(states, i)
        out[i] = payoff(s0 * math.exp((rate - 0.5 * sigma**2) + sigma * z), strike)


@vectorize(["float32(float32, float32)"], target="cuda")
def gpu_hypot(x, y):
    return math.sqrt(x * x + y * y)


@jit.rawkernel()
def scale_kernel(x, y, n):
    i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
    if i < n:
        y[i] = 2 * x[i]


lennard_jones = cp.ElementwiseKernel(
    "float64 r2", "float64 e", "double s = 1.0 / (r2 * r2 * r2); e = 4.0 * (s * s - s);", "lennard_jones"
)
nbody = cp.RawModule(code='extern "C" __global__ void forces(const float4* p, float4* f, int n) { }')


@gpu
def diffuse(u, steps=100, alpha=0.1):
    a = cuda.to_device(u)
    b = cuda.device_array_like(a)
    blocks = (math.ceil(u.shape[0] / 16), math.ceil(u.shape[1] / 16))
    for _ in range(steps):
        diffuse_kernel[blocks, (16, 16)](a, b, alpha)
        a, b = b, a
    return a.copy_to_host()


@gpu(seen=False)
def price_option(seed, n=1_000_000):
    states = create_xoroshiro128p_states(n, seed=seed)
    out = np.zeros(n, dtype=np.float32)
    option_kernel[(n + THREADS - 1) // THREADS, THREADS](states, 100.0, 105.0, 0.2, 0.01, out)
    return float(out.mean())


@gpu(seen=False)
def distances(xs, ys):
    return gpu_hypot(xs.astype(np.float32), ys.astype(np.float32)).sum()


@gpu
def doubled(x):
    x = cp.asarray(x)
    y = cp.empty_like(x)
    scale_kernel[(len(x) + 255) // 256, 256](x, y, len(x))
    return y.get()


@gpu(takes="device")
def energy(r2):
    return float(lennard_jones(r2).sum())


@gpu(takes="device", gives="device")
def forces(positions):
    out = cp.zeros_like(positions)
    nbody.get_function("forces")((32,), (256,), (positions, out, len(positions)))
    return out


@gpu
def estimate_pi(n, seed=0):
    rng = cp.random.default_rng(seed)
    x, y = rng.random(n), rng.random(n)
    return 4 * float((x * x + y * y < 1).mean())


@gpu
def poisson_solve(rows, cols, vals, rhs):
    n = len(rhs)
    matrix = csr_matrix((cp.asarray(vals), (cp.asarray(rows), cp.asarray(cols))), shape=(n, n))
    solution, info = cg(matrix, cp.asarray(rhs), tol=1e-8)
    if info:
        raise RuntimeError(f"no convergence after {info}")
    return solution.get()


def projector(basis):
    basis = cp.asarray(basis)

    def project(vectors):
        return cp.asnumpy(vectors @ basis)

    return project


gpu(projector(np.eye(4)), takes="device", name="after_outsiders_kernels.project")


def make_lookup(table):
    table = cp.asarray(table)
    return lambda indices: table[indices].sum().item()


gpu(make_lookup(np.arange(10)), name="after_outsiders_kernels.lookup_closure")


@dataclass
class Ising:
    size: int
    beta: float = 0.44

    def run(self, sweeps):
        spins = cp.where(cp.random.rand(self.size, self.size) < 0.5, 1, -1)
        for _ in range(sweeps):
            spins = self._sweep(spins)
        return abs(float(spins.mean()))

    def _sweep(self, spins):
        near = sum(cp.roll(spins, s, axis=a) for a in (0, 1) for s in (-1, 1))
        flip = cp.random.rand(*spins.shape) < cp.exp(-2 * self.beta * spins * near)
        return cp.where(flip, -spins, spins)

    @classmethod
    def critical(cls, size):
        return cls(size, math.log(1 + math.sqrt(2)) / 2)


gpu(Ising(64).run, name="after_outsiders_kernels.ising_run")
cpu(Ising.critical, name="after_outsiders_kernels.ising_critical")


@gpu
def two_streams(a, b):
    left, right = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    with left:
        u = cp.linalg.svd(cp.asarray(a), compute_uv=False)
    with right:
        v = cp.linalg.svd(cp.asarray(b), compute_uv=False)
    left.synchronize()
    right.synchronize()
    return u.get(), v.get()


def _bootstrap(sample, draws, xp):
    picks = xp.random.randint(0, len(sample), (draws, len(sample)))
    return xp.sort(xp.asarray(sample)[picks].mean(axis=1))


@gpu
def bootstrap_gpu(sample):
    means = _bootstrap(sample, 10_000, cp)
    return float(means[250]), float(means[9750])


@cpu
def bootstrap_cpu(sample):
    means = _bootstrap(sample, 10_000, np)
    return float(means[250]), float(means[9750])


# ---- on the CPU


@njit(parallel=True)
def pairwise(points):
    n = len(points)
    out = np.zeros((n, n))
    for i in prange(n):
        for j in range(n):
            out[i, j] = np.sqrt(((points[i] - points[j]) ** 2).sum())
    return out


@cpu
def nearest(points):
    d = pairwise(points)
    np.fill_diagonal(d, np.inf)
    return d.argmin(axis=1)


@numba.vectorize(["float64(float64)"])
def soft_threshold(x):
    return math.copysign(max(abs(x) - 0.1, 0.0), x)


cpu(soft_threshold, name="after_outsiders_kernels.soft_threshold")


@cpu
def lorenz(y0, t_end=40.0):
    def rhs(t, s):
        return [10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]]

    return solve_ivp(rhs, (0, t_end), y0, rtol=1e-8).y[:, -1]


@cpu
def random_walk(seed, n=1000):
    rng = random.Random(seed)
    at = 0
    for _ in range(n):
        at += rng.choice((-1, 1))
    return at


@cpu
def sparse_laplacian(n):
    return sparse.diags([-1, 2, -1], [-1, 0, 1], shape=(n, n), format="csr")


@cpu
def launch_shape(n, threads=THREADS):
    """How many CUDA blocks a kernel over n elements needs."""
    return (n + threads - 1) // threads, threads


@lru_cache(maxsize=4096)
def binomials(n):
    return tuple(math.comb(n, k) for k in range(n + 1))


cpu(binomials, name="after_outsiders_kernels.binomials")


@cpu
def simulate_queue(arrivals, service):
    free, waits = 0.0, []
    for a, s in zip(arrivals, service, strict=True):
        start = max(a, free)
        waits.append(start - a)
        free = start + s
    return np.mean(waits)


@cpu
def wait_for_gpu_queue(path, timeout=10):
    until = time.monotonic() + timeout
    while time.monotonic() < until and os.path.exists(path):
        time.sleep(0.1)
    return not os.path.exists(path)


cpu(partial(np.random.default_rng(3).normal, 0.0, 1.0), name="after_outsiders_kernels.normal_partial")


# ---- with either


@depends
def leapfrog(x, v, dt):
    xp = cp.get_array_module(x, v)
    r = xp.linalg.norm(x, axis=-1, keepdims=True)
    v = v - dt * x / r**3
    return x + dt * v, v


@depends
def autocorrelation(series):
    series = series - series.mean()
    spectrum = np.fft.rfft(series, 2 * len(series))
    return np.fft.irfft(spectrum * np.conj(spectrum))[: len(series)]


@depends
def random_like(x, xp=np):
    return xp.random.normal(size=x.shape).astype(x.dtype)


@depends
def kinetic(v, mass):
    return 0.5 * (mass * np.einsum("ij,ij->i", v, v)).sum()


@depends
def total(arrays):
    return sum(a.sum() for a in arrays)
