"""Everyday learning, as what is in `after_outsiders_again.py`."""

from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
import xgboost as xgb
from cuml.decomposition import PCA
from cuml.linear_model import LogisticRegression
from cuml.neighbors import NearestNeighbors
from cuml.pipeline import Pipeline as DevicePipeline
from cuml.preprocessing import StandardScaler
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from torch import nn
from torch.utils.data import DataLoader

from gpu_corpus.entries import cpu, depends, gpu

USE_CUDA = torch.cuda.is_available()
SETTINGS = {"device": "cuda:0", "batch": 64, "workers": 4}
CPU = torch.device("cpu")


@gpu
def train_with_settings(batches):
    net = nn.Linear(16, 2).to(SETTINGS["device"])
    losses = [F.mse_loss(net(x.to(SETTINGS["device"])), y.to(SETTINGS["device"])) for x, y in batches]
    return float(torch.stack(losses).mean())


@gpu
def maybe_cuda(x):
    t = torch.from_numpy(x)
    if USE_CUDA:
        t = t.cuda()
    return torch.fft.rfft(t).abs().cpu().numpy()


def make_step(device):
    net = nn.Linear(8, 1).to(device)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimiser.zero_grad()
        loss = F.mse_loss(net(torch.as_tensor(x, device=device)), torch.as_tensor(y, device=device))
        loss.backward()
        optimiser.step()
        return loss.item()

    return step


gpu(make_step("cuda"), name="after_outsiders_again_learning.step_on_gpu")
cpu(make_step("cpu"), name="after_outsiders_again_learning.step_on_cpu")


def run_inference(model_path, batch, device):
    model = torch.jit.load(model_path, map_location=device)
    with torch.inference_mode():
        return model(torch.as_tensor(batch, device=device)).cpu().numpy()


gpu(partial(run_inference, "m.pt", device="cuda"), name="after_outsiders_again_learning.inference_cuda_partial")
cpu(partial(run_inference, "m.pt", device="cpu"), name="after_outsiders_again_learning.inference_cpu_partial")
cpu(partial(run_inference, "m.pt", device=CPU), name="after_outsiders_again_learning.inference_cpu_device")
depends(run_inference, name="after_outsiders_again_learning.run_inference")


class Encoder(nn.Module):
    """Images to vectors."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.conv(x).mean((2, 3)))

    @property
    def device(self):
        return next(self.parameters()).device


@gpu
def encode_folder(paths):
    encoder = Encoder().half().cuda().eval()
    batches = DataLoader(paths, batch_size=SETTINGS["batch"], num_workers=SETTINGS["workers"])
    return np.concatenate([encoder(b.half().cuda()).cpu().numpy() for b in batches])


@cpu
def count_parameters():
    return sum(p.numel() for p in Encoder().parameters())


@cpu
def average_checkpoints(paths):
    states = [torch.load(p, map_location=torch.device("cpu")) for p in paths]
    return {k: reduce(torch.add, [s[k] for s in states]) / len(states) for k in states[0]}


@depends
def collate(samples):
    xs, ys = zip(*samples, strict=True)
    return torch.stack(xs), torch.tensor(ys)


@depends
def same_place(encoder, x):
    return encoder(x.to(encoder.device))


@gpu
def jax_simulation(state, steps=100):
    gpu_device = jax.devices("gpu")[0]
    state = jax.device_put(state, gpu_device)
    return np.asarray(jax.lax.fori_loop(0, steps, lambda i, s: s + 0.01 * jnp.sin(s), state))


@cpu
def jax_on_host(x):
    with jax.default_device(jax.devices("cpu")[0]):
        return np.asarray(jnp.fft.fft(x))


@depends
def softplus(x):
    return jnp.logaddexp(x, 0.0)


@gpu
def classify_texts(vectors, labels):
    model = DevicePipeline([("scale", StandardScaler()), ("fit", LogisticRegression(C=0.1))])
    return model.fit(vectors, labels).score(vectors, labels)


@gpu(takes="device", gives="device")
def reduce_dimensions(frame):
    return PCA(n_components=8).fit_transform(frame.select_dtypes("number"))


neighbours = NearestNeighbors(n_neighbors=5)
gpu(partial(neighbours.kneighbors, return_distance=False), name="after_outsiders_again_learning.kneighbors_partial")


@gpu
def search_depth(x, y):
    found = {}
    for depth in (4, 6, 8):
        model = xgb.XGBRegressor(max_depth=depth, tree_method="hist", device="cuda")
        found[depth] = model.fit(x, y).score(x, y)
    return max(found, key=found.get)


@cpu
def fit_online(batches):
    model = make_pipeline(MinMaxScaler(), SGDClassifier(loss="log_loss"))
    for x, y in batches:
        model.fit(x, y)
    return model


@cpu
def importance(model_path):
    booster = xgb.Booster()
    booster.load_model(model_path)
    return sorted(booster.get_score(importance_type="gain").items(), key=lambda kv: -kv[1])
