"""Everyday work of several trades: written when the first of the outsiders' functions had been judged and mended."""

import argparse
import concurrent.futures
import gzip
import hashlib
import itertools
import logging
import sqlite3
from collections import defaultdict
from functools import cached_property, partial, singledispatch, wraps

import cudf
import cupy as cp
import numpy as np
import pandas as pd
from cupyx.scipy.interpolate import CubicSpline
from cupyx.scipy.ndimage import map_coordinates
from cupyx.scipy.spatial.distance import cdist
from numba import cuda, njit
from ultralytics import YOLO

from gpu_corpus.entries import cpu, depends, gpu

log = logging.getLogger("pipeline")


# ---- pictures, sound, the sky


@gpu
def warp_to_grid(image, coordinates):
    return map_coordinates(cp.asarray(image), cp.asarray(coordinates), order=1).get()


@gpu(gives="device")
def resample(times, values, grid):
    return CubicSpline(cp.asarray(times), cp.asarray(values))(cp.asarray(grid))


@gpu
def find_objects(paths):
    model = YOLO("yolov8n.pt")
    return [len(r.boxes) for r in model.predict(paths, device=0, verbose=False)]


@gpu
def dedisperse(filterbank, delays):
    data = cp.asarray(filterbank)
    for channel, delay in enumerate(delays):
        data[channel] = cp.roll(data[channel], -int(delay))
    series = data.sum(axis=0)
    return cp.asnumpy(series / series.std())


@cpu
def read_fits_header(path):
    cards = {}
    with gzip.open(path, "rt", errors="replace") as f:
        for line in iter(lambda: f.read(80), ""):
            if line.startswith("END"):
                break
            key, _, value = line.partition("=")
            cards[key.strip()] = value.split("/")[0].strip()
    return cards


@cpu
def grid_of(shape, step):
    ys, xs = np.mgrid[0 : shape[0] : step, 0 : shape[1] : step]
    return np.stack([ys.ravel(), xs.ravel()])


@depends
def window(trace):
    xp = cp.get_array_module(trace)
    return trace * xp.hanning(len(trace))


# ---- kernels and caches


@cuda.jit
def histogram_kernel(values, bins, low, width):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, int((values[i] - low) / width), 1)


class Histogrammer:
    """Histograms of many arrays over the same bins."""

    def __init__(self, low, high, bins):
        self.low, self.width, self.bins = low, (high - low) / bins, bins

    @cached_property
    def edges(self):
        return np.linspace(self.low, self.low + self.width * self.bins, self.bins + 1)

    def on_device(self, values):
        bins = cuda.to_device(np.zeros(self.bins, dtype=np.int64))
        histogram_kernel.forall(len(values))(cuda.to_device(values), bins, self.low, self.width)
        return bins.copy_to_host()

    def on_host(self, values):
        return np.histogram(values, self.edges)[0]


counter = Histogrammer(0.0, 1.0, 20)
gpu(counter.on_device, name="after_outsiders_again.histogram_on_device")
cpu(counter.on_host, name="after_outsiders_again.histogram_on_host")


def cached_on_device(func):
    kept = {}

    @wraps(func)
    def wrapper(key):
        if key not in kept:
            kept[key] = cp.asarray(func(key))
        return float(kept[key].sum())

    return wrapper


@gpu
@cached_on_device
def load_weights_of(key):
    return np.load(f"{key}.npy")


@gpu
def pairwise_in_chunks(points, chunk=4096):
    points = cp.asarray(points, dtype=cp.float32)
    nearest = cp.empty(len(points), dtype=cp.float32)
    for start in range(0, len(points), chunk):
        distances = cdist(points[start : start + chunk], points)
        nearest[start : start + chunk] = cp.partition(distances, 1, axis=1)[:, 1]
    return nearest.get()


@njit(cache=True)
def levenshtein(a, b):
    previous = np.arange(len(b) + 1)
    for i in range(len(a)):
        current = np.empty(len(b) + 1, dtype=previous.dtype)
        current[0] = i + 1
        for j in range(len(b)):
            current[j + 1] = min(previous[j] + (a[i] != b[j]), previous[j + 1] + 1, current[j] + 1)
        previous = current
    return previous[-1]


@cpu
def closest_word(word, words):
    codes = np.array([ord(c) for c in word])
    return min(words, key=lambda w: levenshtein(codes, np.array([ord(c) for c in w])))


@cpu
def parse_options(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--epochs", type=int, default=10)
    return vars(parser.parse_args(argv))


# ---- tables


class Source:
    """Where rows come from."""

    def read(self, path):
        raise NotImplementedError


class DeviceSource(Source):
    def read(self, path):
        return cudf.read_orc(path)


class HostSource(Source):
    def read(self, path):
        return pd.read_orc(path)


def count_rows(source, path):
    return len(source.read(path))


gpu(partial(count_rows, DeviceSource()), name="after_outsiders_again.rows_on_device")
cpu(partial(count_rows, HostSource()), name="after_outsiders_again.rows_on_host")


@gpu
def tokenise(part):
    words = cudf.Series(part["text"]).str.lower().str.replace("[^a-z ]", "", regex=True)
    return words.str.split().explode().value_counts().head(100).to_pandas()


@gpu(gives="device")
def rolling_on_device(part):
    frame = cudf.DataFrame.from_pandas(part)
    frame["avg"] = frame.groupby("id")["v"].rolling(7).mean().reset_index(drop=True)
    return frame


gpu(lambda part: cudf.DataFrame(part).nunique().to_pandas(), name="after_outsiders_again.nunique_lambda")
depends(lambda part: part.assign(total=part.price * part.units), name="after_outsiders_again.assign_lambda")
cpu(lambda path: pd.read_json(path, lines=True), name="after_outsiders_again.read_json_lambda")


@singledispatch
def describe(value):
    return repr(value)


@describe.register
def _(value: pd.DataFrame):
    return f"{len(value)} rows"


cpu(describe, name="after_outsiders_again.describe")


@cpu
def gpu_hours(path):
    """Hours billed on machines with CUDA devices, by team."""
    with sqlite3.connect(path) as db:
        rows = db.execute("select team, sum(hours) from usage where machine like '%gpu%' group by team")
        return dict(rows.fetchall())


@cpu
def checksum(paths):
    digest = hashlib.blake2b()
    for path in sorted(paths):
        with open(path, "rb") as f:
            digest.update(f.read())
    return digest.hexdigest()


@cpu
def fetch_all(urls, fetch):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return dict(zip(urls, pool.map(fetch, urls), strict=True))


@cpu
def by_vendor(devices):
    found = defaultdict(list)
    for device in devices:
        found["nvidia" if device["driver"].startswith("cuda") else "other"].append(device["name"])
    log.info("%d cuda devices", len(found["nvidia"]))
    return dict(found)


@cpu
def pairs_with_lag(values, lag):
    return list(itertools.islice(zip(values, values[lag:], strict=False), 100))


@depends
def winsorise(column, limit=0.01):
    low, high = column.quantile(limit), column.quantile(1 - limit)
    return column.clip(low, high)


@depends
def one_hot(codes, n):
    return np.equal.outer(codes, np.arange(n, like=codes))
