"""Networks, training and ready models: written by an outsider to the inspector."""

import copy
import functools
import os
import subprocess
import time

import faiss
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort
import pytorch_lightning as lightning
import tensorflow as tf
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from gpu_corpus.entries import cpu, depends, gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
GPU = jax.devices("gpu")[0]


class Net(nn.Module):
    """A small classifier."""

    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(28 * 28, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, x):
        return self.body(x.flatten(1))


def timed(func):
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        result = func(*args, **kwargs)
        return result, time.perf_counter() - start

    return wrapper


def retry(times):
    def decorate(func):
        @functools.wraps(func)
        def wrapper(*args):
            for left in reversed(range(times)):
                try:
                    return func(*args)
                except OSError:
                    if not left:
                        raise
            return None

        return wrapper

    return decorate


# ---- on a device


@gpu
def train(x, y, epochs=5, lr=1e-3):
    model = Net().cuda()
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=256, shuffle=True)
    for _ in range(epochs):
        for xb, yb in loader:
            loss = F.cross_entropy(model(xb.cuda()), yb.cuda())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return copy.deepcopy(model).cpu().state_dict()


@gpu
def evaluate(state, x, y):
    model = Net()
    model.load_state_dict(state)
    model.to(DEVICE).eval()
    with torch.no_grad():
        guesses = model(torch.as_tensor(x).to(DEVICE)).argmax(1)
    return (guesses.cpu().numpy() == y).mean()


@gpu(name="after_outsiders_networks.matmul_bench")
@timed
def matmul_bench(n):
    a = torch.randn(n, n, device="cuda")
    b = a @ a
    torch.cuda.synchronize()
    return b.norm().item()


@gpu
@retry(3)
def score_file(path):
    model = torch.load("model.pt", map_location="cuda:0")
    return model(torch.from_numpy(np.load(path)).to("cuda:0")).cpu().numpy()


@gpu
def mixed_precision(x):
    net = Net().to(device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        return net(torch.as_tensor(x, device="cuda")).float().cpu().numpy()


class Scorer:
    """Holds a model where it runs."""

    def __init__(self, device="cuda"):
        self.device = device
        self.net = Net().to(self.device)

    @torch.no_grad()
    def score(self, batch):
        return self.net(torch.as_tensor(batch).to(self.device)).cpu().numpy()

    def batches(self, paths, size=32):
        return [paths[i : i + size] for i in range(0, len(paths), size)]


gpu(Scorer().score, name="after_outsiders_networks.scorer_score")
net_on_gpu = Net().to("cuda")
gpu(lambda x: net_on_gpu(torch.from_numpy(x).float().to("cuda")).tolist(), name="after_outsiders_networks.net_lambda")


@gpu
def finetune(rank, world, data):
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    model = nn.parallel.DistributedDataParallel(Net().to(rank), device_ids=[rank])
    return float(sum(model(b.to(rank)).sum() for b in data))


@gpu
def pick_device_and_run(x):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.linalg.eigvalsh(torch.tensor(x, device=device)).cpu().numpy()


@gpu
def gradients(params, batch):
    batch = jax.device_put(batch, GPU)
    return jax.grad(lambda p: jnp.mean((batch @ p) ** 2))(params)


@gpu
def jax_logsumexp(x):
    with jax.default_device(jax.devices("cuda")[0]):
        return np.asarray(jax.scipy.special.logsumexp(jnp.asarray(x), axis=0))


@gpu
def sentiment(texts):
    classify = pipeline("sentiment-analysis", device=0)
    return [r["label"] for r in classify(texts, batch_size=64)]


@gpu
def logits(texts, name="distilbert-base-uncased"):
    tokens = AutoTokenizer.from_pretrained(name)(texts, return_tensors="pt", padding=True).to("cuda")
    model = AutoModelForSequenceClassification.from_pretrained(name).to("cuda")
    return model(**tokens).logits.detach().cpu().numpy()


@gpu
def embed_sentences(texts):
    return SentenceTransformer("all-MiniLM-L6-v2", device="cuda").encode(texts, batch_size=128)


@gpu(seen=False)
def detect(images):
    session = ort.InferenceSession("det.onnx", providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    return [session.run(None, {"image": i})[0] for i in images]


@gpu(seen=False)
def similar(vectors, queries, k=10):
    index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, faiss.IndexFlatL2(vectors.shape[1]))
    index.add(vectors)
    return index.search(queries, k)[1]


@gpu
def fit_lightning(module, data):
    trainer = lightning.Trainer(max_epochs=3, accelerator="gpu", devices=1)
    trainer.fit(module, data)
    return trainer.callback_metrics


@gpu
def keras_convnet(x, y):
    with tf.device("/GPU:0"):
        model = tf.keras.Sequential([tf.keras.layers.Conv2D(8, 3), tf.keras.layers.Dense(10)])
        model.compile("adam", "mse")
        return model.fit(x, y, epochs=2).history


# ---- on the CPU


@cpu
def tensor_stats(x):
    t = torch.from_numpy(x)
    return {"mean": t.mean().item(), "std": t.std().item()}


@cpu
def train_small(x, y):
    model = nn.Linear(x.shape[1], 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(100):
        optimiser.zero_grad()
        loss = F.mse_loss(model(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        optimiser.step()
    return loss.item()


@cpu
def load_weights(path):
    state = torch.load(path, map_location="cpu")
    return {k: v.numpy() for k, v in state.items()}


@cpu
def infer_quietly(path, x):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    device = torch.device("cpu")
    return torch.jit.load(path).to(device)(torch.tensor(x, device=device)).numpy()


@cpu
def versions():
    return {"torch": torch.__version__, "cuda": torch.cuda.is_available(), "gpus": torch.cuda.device_count()}


@cpu
def driver_version():
    out = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv"], capture_output=True, text=True)
    return out.stdout.splitlines()[-1]


@cpu
def count_tokens(texts):
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    return sum(len(tokenizer(t)["input_ids"]) for t in texts)


@cpu
def split_indices(n, seed):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return order[: n // 5].tolist(), order[n // 5 :].tolist()


@cpu
def summarise_run(metrics):
    best = max(metrics, key=lambda m: m["val_acc"])
    return f"best epoch {best['epoch']} on {best.get('device', 'cuda')}: {best['val_acc']:.3f}"


@cpu
def search_flat(vectors, queries):
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index.search(queries, 5)


@cpu
def onnx_on_cpu(path, x):
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@cpu
def sentiment_cpu(texts):
    return pipeline("sentiment-analysis", device=-1)(texts)


@cpu(name="after_outsiders_networks.augment")
@timed
def augment(image, rng):
    return np.flip(image, axis=rng.integers(0, 2)) + rng.normal(0, 0.01, image.shape)


cpu(Scorer(device="cpu").batches, name="after_outsiders_networks.scorer_batches")
net_on_cpu = Net().eval()
cpu(lambda x: net_on_cpu(torch.from_numpy(x)).argmax(1).tolist(), name="after_outsiders_networks.cpu_net_lambda")


@cpu
def early_stop(losses, patience=3):
    best = int(np.argmin(losses))
    return len(losses) - best > patience


# ---- with either


@depends
def forward(model, batch, device):
    model = model.to(device)
    return model(batch.to(device)).detach()


@depends
def predict_where_model_is(model, x):
    device = next(model.parameters()).device
    return model(torch.as_tensor(x, device=device))


@depends
def normalise_rows(t):
    return F.normalize(t, dim=1)


@depends
def ema(old, new, decay=0.99):
    return {k: decay * old[k] + (1 - decay) * new[k] for k in old}


@depends
def attention(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("nd,md->nm", q, k) / jnp.sqrt(q.shape[-1]))
    return weights @ v
