"""torch, on the device and not."""

import functools

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from gpu_corpus.entries import cpu, depends, gpu

DEVICE = "cuda"
device = torch.device("cuda:0")
HOST = torch.device("cpu")
CONFIG = {"device": "cuda", "batch": 32}


@gpu
def moved_by_method(x):
    return torch.from_numpy(x).cuda().sum().item()


@gpu
def moved_by_name(x):
    return (torch.as_tensor(x).to("cuda") ** 2).cpu().numpy()


@gpu
def moved_to_numbered(x):
    t = torch.tensor(x).to("cuda:1", non_blocking=True)
    return t.mean().cpu().item()


@gpu(gives="device")
def made_there(n):
    return torch.randn(n, n, device="cuda")


@gpu
def global_name(x):
    t = torch.tensor(x, device=DEVICE)
    return t.sum().item()


@gpu
def global_device(x):
    return torch.as_tensor(x).to(device).std().item()


@gpu
def from_config(x):
    return torch.as_tensor(x).to(CONFIG["device"]).std().item()


@gpu
def where_available(x):
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(10, 1).to(dev)
    with torch.no_grad():
        return model(torch.as_tensor(x, dtype=torch.float32).to(dev)).cpu().numpy()


@gpu
def default_argument(x, device="cuda"):
    return torch.as_tensor(x).to(device).norm().item()


@gpu
def default_device(x):
    torch.set_default_device("cuda")
    return torch.tensor(x).sum().item()


@gpu
def mixed_precision(model, x):
    with torch.autocast("cuda"):
        return model(x).float().cpu()


@gpu
def checkpoint(path):
    state = torch.load(path, map_location="cuda:0")
    return sorted(state)


@gpu
def old_style(x):
    if torch.cuda.is_available():
        x = x.cuda()
    return F.relu(x).cpu()


def _on(device):
    def run(x):
        return torch.as_tensor(x).to(device).sum().item()

    return run


gpu(_on("cuda"), name="before_torch.closure_over_device")
cpu(_on("cpu"), name="before_torch.closure_over_host")


def _score(x, where):
    return torch.as_tensor(x).to(where).sum().item()


gpu(functools.partial(_score, where="cuda"), name="before_torch.partial_with_device")
depends(_score, name="before_torch.device_is_an_argument")


@depends
def follows_its_input(x):
    bias = torch.ones(x.shape[-1], device=x.device)
    return x + bias


@depends
def activation(x):
    return F.softmax(x, dim=-1)


@cpu
def for_the_cpu(x):
    return torch.from_numpy(x).matmul(torch.ones(x.shape[1])).numpy()


@cpu
def host_by_name(x):
    return torch.tensor(x, device="cpu").sum().item()


@cpu
def host_by_default(x, device="cpu"):
    return torch.tensor(x, device=device).sum().item()


@cpu
def host_by_global(x):
    return torch.tensor(x).to(HOST).sum().item()


@cpu
def only_asks():
    return {"cuda": torch.cuda.is_available(), "version": torch.__version__}


@cpu
def loads_to_host(path):
    return torch.load(path, map_location="cpu")


@cpu
def seeded(seed):
    torch.manual_seed(seed)
    np.random.seed(seed)
    return torch.rand(3).tolist()
