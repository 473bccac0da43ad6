"""Learning again, of other trades: written with what is in `after_outsiders_third.py`."""

from __future__ import annotations

import functools
import json
import math
import random
from collections import deque
from pathlib import Path

import catboost
import cuml
import jax
import jax.numpy as jnp
import lightgbm as lgb
import numpy as np
import sklearn.metrics
import tensorflow as tf
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
import whisper
import xgboost as xgb
from sentence_transformers import SentenceTransformer
from torch.optim import AdamW
from torch.utils.data import Dataset

from gpu_corpus.entries import cpu, depends, gpu

device = "cuda" if torch.cuda.is_available() else "cpu"
PARAMS = {"objective": "binary", "device_type": "cuda", "num_leaves": 63}
HOST_PARAMS = {**PARAMS, "device_type": "cpu"}


class Policy(nn.Module):
    """Actions from states."""

    def __init__(self, states, actions):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(states, 64), nn.Linear(64, actions)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return F.softmax(self.layers[-1](x), dim=-1)


class Windows(Dataset):
    """Windows of a series."""

    def __init__(self, series, width):
        self.series, self.width = series, width

    def __len__(self):
        return len(self.series) - self.width

    def __getitem__(self, i):
        return torch.tensor(self.series[i : i + self.width])


class Trainer:
    """Trains a model where it is told to."""

    def __init__(self, model, use_gpu=True):
        self.device = torch.device("cuda:0") if use_gpu else torch.device("cpu")
        self.model = model
        self.history = []

    def prepare(self):
        self.model.to(self.device)
        self.optimiser = AdamW(self.model.parameters(), lr=3e-4)
        return self

    def epoch(self, batches):
        self.prepare()
        for x, y in batches:
            x, y = x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimiser.step()
            self.history.append(loss.item())
        return self.history

    def best(self):
        return min(range(len(self.history)), key=self.history.__getitem__)


gpu(Trainer(None).epoch, name="after_outsiders_third_learning.trainer_epoch")
cpu(Trainer(None, use_gpu=False).epoch, name="after_outsiders_third_learning.host_trainer_epoch")
cpu(Trainer(None).best, name="after_outsiders_third_learning.trainer_best")


@gpu
def play(episodes):
    policy = Policy(4, 2).to(device)
    rewards = []
    for _ in range(episodes):
        state = torch.zeros(4, device=device)
        rewards.append(policy(state).max().item())
    return sum(rewards) / len(rewards)


@gpu
def transcribe(paths):
    model = whisper.load_model("small", device="cuda")
    return {p: model.transcribe(p, fp16=True)["text"] for p in paths}


@gpu
def generate(prompts):
    name = "gpt2"
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    model = transformers.AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.float16, device_map="cuda")
    inputs = tokenizer(prompts, return_tensors="pt").to(model.device)
    return tokenizer.batch_decode(model.generate(**inputs, max_new_tokens=32))


@functools.lru_cache(maxsize=1)
def sentence_model():
    return SentenceTransformer("all-mpnet-base-v2", device="cuda:0")


@gpu
def embed_corpus(texts):
    return sentence_model().encode(texts, convert_to_numpy=True)


@gpu
def fast_fourier_features(x, scale=10.0):
    b = torch.randn(x.shape[1], 256, generator=torch.Generator("cuda").manual_seed(0), device="cuda") * scale
    p = 2 * math.pi * torch.from_numpy(x).cuda() @ b
    return torch.cat([p.sin(), p.cos()], dim=-1).cpu().numpy()


@gpu
def hyper(x, y):
    score = -math.inf
    for leaves in (15, 31, 63):
        booster = lgb.train({**PARAMS, "num_leaves": leaves}, lgb.Dataset(x, y))
        score = max(score, sklearn.metrics.roc_auc_score(y, booster.predict(x)))
    return score


@gpu
def cross_validate(x, y):
    data = xgb.DMatrix(x, y)
    return xgb.cv({"tree_method": "gpu_hist", "eta": 0.1}, data, 200, nfold=5)["test-rmse-mean"].min()


@gpu
def train_keras(x, y):
    strategy = tf.distribute.MirroredStrategy(devices=["/gpu:0", "/gpu:1"])
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(1)])
        model.compile("adam", "mse")
    return model.fit(x, y, epochs=3).history["loss"][-1]


@gpu
def topic_clusters(vectors):
    reduced = cuml.UMAP(n_components=5).fit_transform(vectors)
    return cuml.HDBSCAN(min_cluster_size=20).fit_predict(reduced)


@gpu
def leapfrog_jax(q, p, steps):
    device = jax.devices("gpu")[0]
    q, p = (jax.device_put(v, device) for v in (q, p))
    for _ in range(steps):
        p = p - 0.01 * q
        q = q + 0.01 * p
    return np.asarray(q), np.asarray(p)


def gpu_only(func):
    """Run a function where there is a device, or not at all."""

    @functools.wraps(func)
    def checked(*args, **kwargs):
        if not torch.cuda.is_available():
            raise RuntimeError("needs a GPU")
        torch.cuda.empty_cache()
        return func(*args, **kwargs)

    return checked


@gpu
@gpu_only
def style_transfer(content, style, steps=50):
    image = torch.tensor(content, device="cuda", requires_grad=True)
    target = torch.tensor(style, device="cuda")
    optimiser = torch.optim.LBFGS([image])
    for _ in range(steps):
        optimiser.step(lambda: F.mse_loss(image, target))
    return image.detach().cpu().numpy()


@cpu
def perplexity(losses):
    return math.exp(sum(losses) / len(losses))


@cpu
def windows_of(series, width=32):
    return torch.stack(list(Windows(series, width))).numpy()


@cpu
def prune(path, amount=0.2):
    state = torch.load(path, map_location="cpu", weights_only=True)
    for name, weight in state.items():
        limit = weight.abs().flatten().kthvalue(int(amount * weight.numel()) or 1).values
        state[name] = torch.where(weight.abs() < limit, torch.zeros_like(weight), weight)
    return {k: v.numpy() for k, v in state.items()}


@cpu
def train_lgb_on_host(x, y):
    return lgb.train(HOST_PARAMS, lgb.Dataset(x, y), num_boost_round=50).best_score


@cpu
def catboost_on_host(x, y):
    model = catboost.CatBoostClassifier(iterations=200, task_type="CPU", thread_count=2)
    return model.fit(x, y).get_feature_importance()


@cpu
def write_config(path):
    config = {"model": "resnet50", "device": "cuda", "amp": True, "batch_size": 128}
    Path(path).write_text(json.dumps(config, indent=2))
    return path


@cpu
def parse_nvidia_log(text):
    rows = [line.split(",") for line in text.splitlines() if "MiB" in line]
    return {row[0].strip(): int(row[1].split()[0]) for row in rows}


@cpu
def replay(buffer_size, transitions, seed):
    rng, buffer = random.Random(seed), deque(maxlen=buffer_size)
    buffer.extend(transitions)
    return rng.sample(list(buffer), 4)


@cpu
def bleu_lengths(references, candidates):
    return [min(1.0, math.exp(1 - len(r) / max(1, len(c)))) for r, c in zip(references, candidates, strict=True)]


@cpu
def positional_encoding(length, width):
    position = torch.arange(length).unsqueeze(1)
    scale = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2], table[:, 1::2] = torch.sin(position * scale), torch.cos(position * scale)
    return table.numpy()


cpu(functools.partial(torch.load, map_location="cpu"), name="after_outsiders_third_learning.load_partial")
gpu(functools.partial(torch.zeros, device="cuda"), name="after_outsiders_third_learning.zeros_partial", gives="device")


@depends
def gae(rewards, values, gamma=0.99, lam=0.95):
    advantages = torch.zeros_like(rewards)
    last = 0.0
    for t in reversed(range(len(rewards) - 1)):
        delta = rewards[t] + gamma * values[t + 1] - values[t]
        advantages[t] = last = delta + gamma * lam * last
    return advantages


@depends
def move_all(tensors, device):
    return {k: v.to(device) for k, v in tensors.items()}


@depends
def infonce(a, b, temperature=0.1):
    logits = F.normalize(a) @ F.normalize(b).T / temperature
    return F.cross_entropy(logits, torch.arange(len(a), device=a.device))


@depends
def rms_norm(x, weight):
    return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * weight
