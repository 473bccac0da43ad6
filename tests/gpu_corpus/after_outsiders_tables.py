"""Tables, features and graphs, partition by partition: written by an outsider to the inspector."""

import csv
import datetime as dt
import json
import re
from collections import Counter
from functools import partial
from pathlib import Path

import cudf
import cugraph
import cupy as cp
import dask_cudf
import lightgbm as lgb
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import rmm
import xgboost as xgb
from catboost import CatBoostRegressor
from cuml.cluster import DBSCAN
from cuml.ensemble import RandomForestClassifier
from cuml.manifold import UMAP
from cuml.metrics import accuracy_score
from cuml.preprocessing import train_test_split
from sklearn.cluster import KMeans
from sklearn.ensemble import GradientBoostingRegressor

from gpu_corpus.entries import cpu, depends, gpu

try:
    import cudf as frames
except ImportError:
    frames = pd


# ---- on a device


@gpu
def daily_totals(path):
    df = cudf.read_parquet(path, columns=["day", "amount"])
    return df.groupby("day").amount.sum().to_pandas()


@gpu(gives="device")
def load_trips(path):
    df = cudf.read_csv(path, parse_dates=["pickup"])
    df["hour"] = df["pickup"].dt.hour
    return df[df.fare > 0]


@depends
def ratio_features(part: cudf.DataFrame) -> cudf.DataFrame:
    part["ratio"] = part["clicks"] / part["views"].replace(0, 1)
    return part


@gpu
def dedupe(part: pd.DataFrame) -> pd.DataFrame:
    g = cudf.from_pandas(part)
    return g.drop_duplicates(subset=["user", "ts"]).to_pandas()


@gpu(takes="device", gives="device")
def join_products(part, products):
    merged = part.merge(products, on="sku", how="left")
    merged["margin"] = cudf.to_numeric(merged["price"]) - merged["cost"]
    return cudf.concat([merged, merged[merged.margin < 0]])


@gpu
def embed(features):
    return UMAP(n_components=2, n_neighbors=15).fit_transform(cp.asarray(features)).get()


@gpu
def cluster_points(xy):
    labels = DBSCAN(eps=0.05, min_samples=10).fit_predict(xy)
    return Counter(int(x) for x in labels)


@gpu
def forest(df, target):
    x_train, x_test, y_train, y_test = train_test_split(df.drop(columns=[target]), df[target])
    model = RandomForestClassifier(n_estimators=200, max_depth=12).fit(x_train, y_train)
    return accuracy_score(y_test, model.predict(x_test))


fitted = RandomForestClassifier(n_estimators=10)
gpu(fitted.predict, name="after_outsiders_tables.forest_predict")
gpu(lambda part: fitted.predict(part[["a", "b"]]), name="after_outsiders_tables.forest_lambda")


@gpu(gives="device")
def page_ranks(edges):
    graph = cugraph.Graph(directed=True)
    graph.from_cudf_edgelist(edges, source="src", destination="dst")
    return cugraph.pagerank(graph)


@gpu
def communities(edges):
    graph = nx.from_pandas_edgelist(edges, "src", "dst")
    return nx.community.louvain_communities(graph, backend="cugraph")


@gpu
def boosted(x, y):
    data = xgb.DMatrix(x, label=y)
    params = {"objective": "binary:logistic", "max_depth": 8, "device": "cuda"}
    return xgb.train(params, data, num_boost_round=300)


@gpu(seen=False)
def boosted_lgb(x, y):
    return lgb.LGBMClassifier(n_estimators=500, device_type="gpu").fit(x, y)


@gpu(seen=False)
def cat_price(x, y):
    model = CatBoostRegressor(iterations=1000, task_type="GPU", devices="0", verbose=False)
    model.fit(x, y)
    return model.predict(x)


@gpu
def top_spenders(path):
    lazy = pl.scan_parquet(path).group_by("user").agg(pl.col("amount").sum()).sort("amount", descending=True)
    return lazy.head(100).collect(engine="gpu")


@gpu
def start_pool(gigabytes=8):
    rmm.reinitialize(pool_allocator=True, initial_pool_size=gigabytes << 30)
    cp.cuda.set_allocator(rmm.allocators.cupy.rmm_cupy_allocator)


@gpu
def per_country(path):
    ddf = dask_cudf.read_parquet(path)
    return ddf.groupby("country").amount.mean().compute(scheduler="synchronous").to_pandas()


@gpu(takes="device", gives="device")
def bucket(part):
    return frames.cut(part["age"], bins=[0, 18, 35, 65, 120])


@gpu
def write_compacted(paths, out):
    cudf.concat([cudf.read_parquet(p) for p in paths]).to_parquet(out, compression="zstd")
    return out


class SessionFeatures:
    """Sessions of users out of raw events."""

    gap = 1800

    def __init__(self, columns):
        self.columns = columns

    def load(self, path):
        return cudf.read_json(path, lines=True)[self.columns]

    def build(self, path):
        events = self.load(path).sort_values(["user", "ts"])
        events["new"] = (events.ts.diff() > self.gap).astype("int32")
        return events.groupby("user").new.sum().to_pandas()

    def manifest(self, folder):
        return sorted(str(p) for p in Path(folder).glob("*.jsonl"))


gpu(SessionFeatures(["user", "ts"]).build, name="after_outsiders_tables.session_build")
cpu(SessionFeatures(["user", "ts"]).manifest, name="after_outsiders_tables.session_manifest")


# ---- on the CPU


@cpu
def monthly(path):
    df = pd.read_csv(path, parse_dates=["when"])
    return df.set_index("when").resample("MS")["amount"].sum()


@cpu
def parse_log(line):
    found = re.match(r"(\S+) \S+ \S+ \[(.+?)\] \"(.+?)\" (\d+)", line)
    return None if found is None else {"ip": found[1], "status": int(found[4])}


cpu(json.loads, name="after_outsiders_tables.json_loads")
cpu(lambda rec: (rec["user"], 1), name="after_outsiders_tables.bag_key")
cpu(partial(pd.read_parquet, columns=["a", "b"]), name="after_outsiders_tables.read_partial")


@cpu
def schema_of(path):
    return {f.name: str(f.type) for f in pq.read_schema(path)}


@cpu
def to_arrow(rows):
    return pa.Table.from_pylist(rows)


@cpu
def boosted_on_cpu(x, y):
    data = xgb.DMatrix(x, label=y)
    return xgb.train({"objective": "reg:squarederror", "tree_method": "hist", "nthread": 2}, data, 100)


@cpu
def boosted_sklearn(x, y):
    return GradientBoostingRegressor(n_estimators=100).fit(x, y).predict(x)


@cpu
def kmeans_inertia(x, k):
    return KMeans(n_clusters=k, n_init=10).fit(x).inertia_


@cpu
def lazy_join(left, right):
    return pl.scan_parquet(left).join(pl.scan_parquet(right), on="id").collect()


@cpu
def degree(edges):
    return dict(nx.from_pandas_edgelist(edges, "src", "dst").degree())


@cpu
def rename_gpu_columns(df):
    return df.rename(columns={"gpu_util": "utilisation", "cuda_version": "driver"})


@cpu
def gpu_prices(path):
    """Cheapest NVIDIA cards per gigabyte, from a price list."""
    with open(path) as f:
        cards = [(float(r["price"]) / float(r["vram_gb"]), r["name"]) for r in csv.DictReader(f) if "RTX" in r["name"]]
    return sorted(cards)[:5]


@cpu
def holidays(year):
    start = dt.date(year, 1, 1)
    return [start + dt.timedelta(days=d) for d in range(365) if (start + dt.timedelta(days=d)).weekday() == 6]


@cpu
def merge_counts(counters):
    return sum(counters, Counter())


@cpu
def quantiles(values):
    return np.quantile(values, [0.05, 0.5, 0.95])


@cpu
def encode_target(df, column):
    means = df.groupby(column)["target"].transform("mean")
    return df.assign(**{f"{column}_te": means.fillna(df["target"].mean())})


# ---- with either


@depends
def fill_and_clip(part):
    return part.fillna(0).clip(lower=0, upper=1e6)


@depends
def totals_by(part, key):
    return part.groupby(key).agg({"amount": ["sum", "count"]})


@depends
def read_table(path, use_gpu):
    lib = cudf if use_gpu else pd
    return lib.read_parquet(path)


@depends
def as_pandas(part):
    return part.to_pandas() if hasattr(part, "to_pandas") else part


@depends
def zscore(column):
    return (column - column.mean()) / column.std()
