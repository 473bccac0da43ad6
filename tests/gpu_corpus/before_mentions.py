"""Functions that only look like it: names, strings, configuration, and code that never reaches a device."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np

from gpu_corpus.entries import cpu, depends, gpu

if TYPE_CHECKING:
    import cupy


@cpu
def cuda_version_string():
    """Parse what nvcc says about CUDA, for cupy wheels."""
    return "cuda-12.4".removeprefix("cuda-")


@cpu
def cuda_sum(x):
    cuda = np.asarray(x)
    return cuda.sum()


@cpu
def gpu_price(table):
    return {row["gpu"]: row["price"] for row in table if row["vendor"] == "cuda"}


@cpu
def annotated(x: cupy.ndarray) -> cupy.ndarray:
    return np.asarray(x)


@cpu
def dead_branch(x):
    if False:
        import cupy

        return cupy.asarray(x)
    return np.asarray(x)


@cpu
def fallback(x):
    try:
        import numpy as xp
    except ImportError:
        import cupy as xp
    return xp.sum(np.asarray(x))


@cpu
def reads_environment():
    return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")


@cpu
def writes_configuration(path):
    with open(path, "w") as f:
        json.dump({"device": "cuda", "library": "cupy"}, f)


@cpu
def logs(log, x):
    log.info("ran on %s", "cuda:0", extra={"device": "cuda"})
    return x


@cpu
def picks_name(device):
    return "cuda" if device.startswith("cuda") else "cpu"


@cpu
def error_text(error):
    if "CUDA out of memory" in str(error):
        return "torch.cuda.OutOfMemoryError"
    return "other"


def _helper(x):
    import cupy as cp

    return cp.asarray(x).sum().get()


@gpu
def through_a_helper(x):
    return 2 * _helper(x)


def _host_helper(x):
    """Not cupy."""
    return np.asarray(x).sum()


@cpu
def through_a_host_helper(x):
    return 2 * _host_helper(x)


@depends
def flag_is_an_argument(x, use_gpu):
    if use_gpu:
        import cupy

        return cupy.asarray(x).sum().get()
    return np.asarray(x).sum()


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        import cupy as cp

        return cp.asnumpy(cp.asarray(x) * self.factor)

    def on_host(self, x):
        return np.asarray(x) * self.factor

    def on_device(self, x):
        return self(x)


gpu(Scaler(2.0), name="before_mentions.callable_instance")
gpu(Scaler(2.0).on_device, name="before_mentions.method_that_calls_itself")
cpu(Scaler(2.0).on_host, name="before_mentions.host_method")
gpu(lambda x: __import__("cupy").asarray(x).get(), name="before_mentions.dunder_import")
cpu(lambda x: x + 1, name="before_mentions.lambda_on_host")
