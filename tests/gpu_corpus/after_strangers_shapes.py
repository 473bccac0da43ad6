"""Ways to write and to wrap a function: written without a look at the inspector, as after_strangers."""

import dataclasses
import types

import cudf
import cupy as cp
import numpy as np
import pandas as pd
import torch
from torch import nn

from gpu_corpus.entries import cpu, depends, gpu

try:
    import no_such_gpu_library as fast
except ImportError:
    fast = np

HAVE_GPU = True
try:
    import cupy as xnp
except ImportError:
    import numpy as xnp

cuda_tools = types.ModuleType("cuda_tools")
exec("import numpy as np\ndef norm(x):\n    return np.linalg.norm(x)\n", cuda_tools.__dict__)
gpu_math = types.ModuleType("gpu_math")
exec("import cupy\ndef norm(x):\n    return float(cupy.linalg.norm(cupy.asarray(x)))\n", gpu_math.__dict__)

BACKENDS = {"host": np, "gpu": cp}
FRAMES = types.SimpleNamespace(host=pd, device=cudf)
WEIGHTS = cp.ones(16)
TABLE = {"weights": cp.arange(16), "bias": 0.5}
HOST_CONFIG = {"device": "cpu", "batch_size": 32, "precision": "fp32"}
OPS = {"mean": cp.mean, "std": cp.std}
NP_OPS = {"mean": np.mean, "std": np.std}


# ---- held somewhere


@gpu
def from_dict_of_modules(x):
    xp = BACKENDS["gpu"]
    return float(xp.asarray(x).sum())


@cpu
def other_of_dict(x):
    xp = BACKENDS["host"]
    return float(xp.asarray(x).sum())


@gpu
def from_namespace(path):
    return FRAMES.device.read_csv(path).sum().to_pandas()


@cpu
def other_of_namespace(path):
    return FRAMES.host.read_csv(path).sum()


@gpu
def global_array(x):
    return cp.asnumpy(WEIGHTS * cp.asarray(x))


@gpu(gives="device")
def global_array_alone(i):
    return WEIGHTS[i]


@gpu(gives="device")
def global_table(i):
    return TABLE["weights"][i] + TABLE["bias"]


@gpu
def by_operation(x):
    return {name: float(op(cp.asarray(x))) for name, op in OPS.items()}


@gpu(takes="device", gives="device")
def chosen_operation(x):
    return OPS["mean"](x, axis=0)


@cpu
def chosen_numpy_operation(x):
    return NP_OPS["mean"](x, axis=0)


@gpu
def with_fallback_there(x):
    return float(xnp.asarray(x).sum())


@cpu
def with_fallback_taken(x):
    return float(fast.asarray(x).sum())


@gpu
def fallback_inside(x):
    try:
        import cupy as xp
    except ImportError:
        import numpy as xp
    y = xp.fft.fft(xp.asarray(x))
    return y.get() if hasattr(y, "get") else y


@gpu
def flagged(x):
    xp = cp if HAVE_GPU else np
    return float(xp.linalg.norm(xp.asarray(x)))


@gpu
def calls_module_that_does(x):
    return gpu_math.norm(x)


@cpu
def calls_module_that_only_sounds(x):
    return cuda_tools.norm(x)


# ---- classes


class Smoother:
    xp = cp

    def __init__(self, width):
        self.width = width
        self.kernel = self.xp.ones(width)

    def __call__(self, x):
        return self.xp.asnumpy(self.xp.convolve(self.xp.asarray(x), self.kernel, mode="same"))


class HostSmoother(Smoother):
    xp = np

    def __call__(self, x):
        return self.xp.convolve(x, self.kernel, mode="same")


gpu(Smoother(5), name="after_strangers_shapes.callable_with_class_module")
cpu(HostSmoother(5), name="after_strangers_shapes.callable_with_host_module")


class Trainer:
    def __init__(self, device):
        self.device = device
        self.model = nn.Linear(4, 1)

    def step(self, batch):
        batch = torch.as_tensor(batch).to(self.device)
        return self.model(batch).sum().item()

    @classmethod
    def fit(cls, data):
        return cls("cuda").step(data)

    @staticmethod
    def report(history):
        return {"device": "cuda", "loss": min(history)}

    @property
    def name(self):
        return "cuda trainer"


gpu(Trainer("cuda").step, name="after_strangers_shapes.method_of_device_trainer")
cpu(Trainer("cpu").step, name="after_strangers_shapes.method_of_host_trainer")
gpu(Trainer.fit, name="after_strangers_shapes.class_method_with_device")
cpu(Trainer.report, name="after_strangers_shapes.static_method_with_word")
depends(Trainer.step, name="after_strangers_shapes.method_unbound")


@dataclasses.dataclass
class Job:
    path: str
    device: str = "cpu"

    def run(self):
        return torch.load(self.path, map_location=self.device)


gpu(Job("a.pt", "cuda:1").run, name="after_strangers_shapes.job_on_card", gives="device")
cpu(Job("a.pt").run, name="after_strangers_shapes.job_on_host")


class GPUPriceTracker:
    """Follows the prices of CUDA capable cards."""

    def __init__(self):
        self.cuda_cores = 10752

    def update(self, table):
        table["per_core"] = table["price"] / self.cuda_cores
        return table


cpu(GPUPriceTracker().update, name="after_strangers_shapes.class_with_gpu_in_name")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        return self.layer(x)


NET = Net()


@gpu
def move_global_net(x):
    NET.cuda()
    with torch.no_grad():
        return NET(torch.as_tensor(x, device="cuda")).cpu().numpy()


@cpu
def net_on_host(x):
    NET.eval()
    with torch.no_grad():
        return NET(torch.from_numpy(x)).numpy()


# ---- closures and makers of functions


def make_scaler(xp, factor):
    def scale(x):
        return xp.asarray(x) * factor

    return scale


gpu(make_scaler(cp, 2), name="after_strangers_shapes.closure_over_cupy", gives="device")
cpu(make_scaler(np, 2), name="after_strangers_shapes.closure_over_numpy")


def make_adder(state):
    return lambda x: x + state["offset"]


gpu(make_adder({"offset": cp.ones(3)}), name="after_strangers_shapes.closure_dict_of_array", gives="device")
cpu(make_adder({"offset": np.ones(3)}), name="after_strangers_shapes.closure_dict_of_host_array")


def make_runner(config):
    def run(x):
        t = torch.as_tensor(x, device=config["device"])
        return float(t.sum())

    return run


gpu(make_runner({"device": "cuda"}), name="after_strangers_shapes.closure_config_cuda")
cpu(make_runner(HOST_CONFIG), name="after_strangers_shapes.closure_config_cpu")
